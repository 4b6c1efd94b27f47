//! Descriptive texts kept from a file without interpretation: bounded, in name order, the interpreted fields first of
//! all so that no bound can drop what the results rest on.

use super::DATA;
use crate::hdf5::{File, Found, Group, Link, ObjectId, Value};
use crate::nxem;
use std::collections::{BTreeMap, BTreeSet};

/// Most texts kept of one file.
pub(super) const MOST: usize = 100;
/// Most numbers of a value that is kept.
const MOST_NUMBERS: usize = 16;
/// Longest text that is kept.
const LONGEST: usize = 4096;
/// Most objects visited and texts collected in one file, and how deep.
const MOST_OBJECTS: usize = 20_000;
const DEEPEST: usize = 32;

/// Texts by name, and how many there were beyond the bound.
#[derive(Debug, Default)]
pub(crate) struct Retained {
    pub(crate) texts: BTreeMap<String, String>,
    pub(crate) left_out: usize,
}

/// Names of the fields that are interpreted, without the leading slash.
fn interpreted() -> BTreeSet<String> {
    let detector = [
        "description",
        "detector_number",
        "serial_number",
        "incident_energy",
        "count_time",
        "frame_time",
        "detector_distance",
        "x_pixel_size",
        "y_pixel_size",
        "detectorSpecific/photon_energy",
        "detectorSpecific/ntrigger",
        "detectorSpecific/nimages",
        "detectorSpecific/data_collection_date",
    ];
    detector
        .iter()
        .map(|name| format!("entry/instrument/detector/{name}"))
        .chain(nxem::interpreted_paths())
        .chain(super::metadata::step_paths().map(|p| p.trim_start_matches('/').to_owned()))
        .collect()
}

/// Collects the texts of a detector file.
pub(super) fn of_detector(file: &File) -> Retained {
    collect(file, &interpreted())
}

/// Collects the texts of a file, those of `first` before all others: values of datasets with their units, and attributes
/// as `path@name`.
pub(crate) fn collect(file: &File, first: &BTreeSet<String>) -> Retained {
    let Ok(Found::Group(root)) = file.find("/") else { return Retained::default() };
    let mut walk = Walk { file, seen: Vec::new(), objects: 0, all: BTreeMap::new() };
    walk.group(&root, 0);
    select(walk.all, first, MOST)
}

fn select(mut all: BTreeMap<String, String>, first: &BTreeSet<String>, most: usize) -> Retained {
    let mut texts = BTreeMap::new();
    for name in first {
        if texts.len() < most
            && let Some(text) = all.remove(name)
        {
            texts.insert(name.clone(), text);
        }
    }
    while texts.len() < most
        && let Some((name, text)) = all.pop_first()
    {
        texts.insert(name, text);
    }
    Retained { texts, left_out: all.len() }
}

struct Walk<'a> {
    file: &'a File,
    seen: Vec<ObjectId>,
    objects: usize,
    all: BTreeMap<String, String>,
}

impl Walk<'_> {
    /// Objects behind hard links, each once, in name order.
    fn group(&mut self, group: &Group, depth: usize) {
        let Ok(links) = self.file.links(group) else { return };
        for (name, link) in links {
            if link != Link::Hard || self.objects >= MOST_OBJECTS || self.all.len() >= MOST_OBJECTS {
                continue;
            }
            self.objects += 1;
            match self.file.child(group, &name) {
                Ok(Found::Group(child)) => {
                    if child.path() == DATA || depth >= DEEPEST || !self.first_visit(child.id()) {
                        continue;
                    }
                    for name in child.attribute_names().iter().filter(|n| *n != "units") {
                        self.keep_attribute(child.path(), name, child.attribute(name));
                    }
                    self.group(&child, depth + 1);
                }
                Ok(Found::Dataset(dataset)) => {
                    if !self.first_visit(dataset.id()) {
                        continue;
                    }
                    if !dataset.path().ends_with("pixel_mask")
                        && let Some(mut text) = dataset.value().and_then(text)
                    {
                        if let Some(units) = dataset.attribute("units").as_ref().and_then(Value::text)
                            && !units.is_empty()
                        {
                            text.push(' ');
                            text.push_str(units);
                        }
                        self.keep(dataset.path().to_owned(), text);
                    }
                    for name in dataset.attribute_names().iter().filter(|n| *n != "units") {
                        self.keep_attribute(dataset.path(), name, dataset.attribute(name));
                    }
                }
                _ => {}
            }
        }
    }

    fn first_visit(&mut self, id: Option<ObjectId>) -> bool {
        match id {
            Some(id) if !self.seen.contains(&id) => {
                self.seen.push(id);
                true
            }
            _ => false,
        }
    }

    fn keep_attribute(&mut self, path: &str, name: &str, value: Option<Value>) {
        if let Some(text) = value.and_then(text) {
            self.keep(format!("{path}@{name}"), text);
        }
    }

    fn keep(&mut self, path: String, text: String) {
        self.all.insert(path.trim_start_matches('/').to_owned(), text);
    }
}

fn text(value: Value) -> Option<String> {
    if value.len() > MOST_NUMBERS {
        return None;
    }
    Some(value.display()).filter(|t| !t.is_empty() && t.len() <= LONGEST)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn interpreted_fields_have_room_whatever_their_name() {
        let all: BTreeMap<String, String> = (0..10).map(|i| (format!("a{i}"), "v".to_owned())).collect();
        let mut with_last = all.clone();
        with_last.insert("z".to_owned(), "v".to_owned());
        let first = BTreeSet::from(["z".to_owned(), "absent".to_owned()]);
        let kept = select(with_last, &first, 4);
        assert_eq!(kept.texts.keys().map(String::as_str).collect::<Vec<_>>(), ["a0", "a1", "a2", "z"]);
        assert_eq!(kept.left_out, 7);
    }
}
