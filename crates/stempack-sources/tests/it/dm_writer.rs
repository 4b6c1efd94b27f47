//! Writes DigitalMicrograph documents byte by byte from the grammar, without any of the reader's code.

use std::path::{Path, PathBuf};

/// A tag: a list of named tags, or data described by words.
#[derive(Clone)]
pub(crate) enum Tag {
    Group(Vec<(String, Tag)>),
    Data(Vec<u64>, Vec<u8>),
    /// An entry as it is, after its name (and size in DM4): kind and body.
    Raw(u8, Vec<u8>),
}

/// Version and byte order.
#[derive(Clone, Copy)]
pub(crate) struct Style {
    pub(crate) version: u32,
    pub(crate) big_endian: bool,
}

pub(crate) const DM4: Style = Style { version: 4, big_endian: false };

impl Style {
    /// The bytes of a value in the order of the file, given least significant first.
    pub(crate) fn bytes(self, le: &[u8]) -> Vec<u8> {
        let mut bytes = le.to_vec();
        if self.big_endian {
            bytes.reverse();
        }
        bytes
    }
    fn word(self, n: u64) -> Vec<u8> {
        if self.version == 4 { n.to_be_bytes().to_vec() } else { (n as u32).to_be_bytes().to_vec() }
    }

    pub(crate) fn i32(self, x: i32) -> Tag {
        Tag::Data(vec![3], self.bytes(&x.to_le_bytes()))
    }
    pub(crate) fn u32(self, x: u32) -> Tag {
        Tag::Data(vec![5], self.bytes(&x.to_le_bytes()))
    }
    pub(crate) fn f32(self, x: f32) -> Tag {
        Tag::Data(vec![6], self.bytes(&x.to_le_bytes()))
    }
    pub(crate) fn f64(self, x: f64) -> Tag {
        Tag::Data(vec![7], self.bytes(&x.to_le_bytes()))
    }
    pub(crate) fn text(self, t: &str) -> Tag {
        let units: Vec<u16> = t.encode_utf16().collect();
        let bytes = units.iter().flat_map(|u| self.bytes(&u.to_le_bytes())).collect();
        Tag::Data(vec![20, 4, units.len() as u64], bytes)
    }

    fn body(self, tag: &Tag) -> (u8, Vec<u8>) {
        match tag {
            Tag::Group(members) => {
                let mut out = vec![0, 0];
                out.extend(self.word(members.len() as u64));
                for (name, tag) in members {
                    let (kind, body) = self.body(tag);
                    // A name that begins with `\u{1}` is written in Latin-1.
                    let name = match name.strip_prefix('\u{1}') {
                        Some(latin) => latin.chars().map(|c| c as u8).collect(),
                        None => name.clone().into_bytes(),
                    };
                    out.push(kind);
                    out.extend((name.len() as u16).to_be_bytes());
                    out.extend(name);
                    if self.version == 4 {
                        out.extend((body.len() as u64).to_be_bytes());
                    }
                    out.extend(body);
                }
                (20, out)
            }
            Tag::Data(info, bytes) => {
                let mut out = b"%%%%".to_vec();
                out.extend(self.word(info.len() as u64));
                info.iter().for_each(|&w| out.extend(self.word(w)));
                out.extend(bytes);
                (21, out)
            }
            Tag::Raw(kind, body) => (*kind, body.clone()),
        }
    }

    /// A whole file.
    pub(crate) fn document(self, root: &Tag) -> Vec<u8> {
        let body = self.body(root).1;
        let mut out = self.version.to_be_bytes().to_vec();
        // DM3 counts four bytes more than the group has.
        let root_bytes = body.len() as u64 + if self.version == 4 { 0 } else { 4 };
        out.extend(self.word(root_bytes));
        out.extend(u32::from(!self.big_endian).to_be_bytes());
        out.extend(body);
        out.extend([0; 8]);
        out
    }
}

/// A list whose members have no names.
pub(crate) fn list(tags: Vec<Tag>) -> Tag {
    Tag::Group(tags.into_iter().map(|t| (String::new(), t)).collect())
}

pub(crate) fn group(members: Vec<(&str, Tag)>) -> Tag {
    Tag::Group(members.into_iter().map(|(n, t)| (n.to_owned(), t)).collect())
}

/// `value` at the end of a path of groups.
pub(crate) fn nested(path: &[&str], value: Tag) -> (String, Tag) {
    let (first, rest) = path.split_first().unwrap();
    let inner = if rest.is_empty() { value } else { Tag::Group(vec![nested(rest, value)]) };
    ((*first).to_owned(), inner)
}

/// An image as it is stored: the fastest axis first.
#[derive(Clone)]
pub(crate) struct Image {
    pub(crate) style: Style,
    pub(crate) dims: Vec<u32>,
    pub(crate) data_type: i32,
    /// Code of the payload's element type.
    pub(crate) element: u64,
    /// Payload elements, least significant byte first.
    pub(crate) samples: Vec<Vec<u8>>,
    /// Scale, units and origin of each axis.
    pub(crate) axes: Vec<(Tag, String, f64)>,
    /// Members of `ImageTags`; groups of the same name are joined.
    pub(crate) tags: Vec<(String, Tag)>,
}

impl Image {
    /// Counts 0, 1, 2, … of 16 bits, with scales 0.25 and the given units.
    pub(crate) fn u16(dims: &[u32], units: &[&str]) -> Self {
        let count: u32 = dims.iter().product();
        Image {
            style: DM4,
            dims: dims.to_vec(),
            data_type: 10,
            element: 4,
            samples: (0..count).map(|i| (i as u16).to_le_bytes().to_vec()).collect(),
            axes: units.iter().map(|u| (DM4.f64(0.25), (*u).to_owned(), 0.0)).collect(),
            tags: Vec::new(),
        }
    }

    pub(crate) fn scales(mut self, scales: &[f64]) -> Self {
        self.axes.iter_mut().zip(scales).for_each(|(axis, &s)| axis.0 = self.style.f64(s));
        self
    }

    pub(crate) fn tag(mut self, path: &[&str], value: Tag) -> Self {
        join(&mut self.tags, nested(path, value));
        self
    }

    pub(crate) fn to_tag(&self) -> Tag {
        let style = self.style;
        let payload = self.samples.iter().flat_map(|s| style.bytes(s)).collect();
        let dimensions = list(
            self.axes
                .iter()
                .map(|(scale, units, origin)| {
                    group(vec![
                        ("Origin", style.f64(*origin)),
                        ("Scale", scale.clone()),
                        ("Units", style.text(units)),
                    ])
                })
                .collect(),
        );
        let data = group(vec![
            ("Calibrations", group(vec![("Dimension", dimensions)])),
            ("Data", Tag::Data(vec![20, self.element, self.samples.len() as u64], payload)),
            ("DataType", style.i32(self.data_type)),
            ("Dimensions", list(self.dims.iter().map(|&d| style.u32(d)).collect())),
        ]);
        let mut members = vec![("ImageData".to_owned(), data)];
        if !self.tags.is_empty() {
            members.push(("ImageTags".to_owned(), Tag::Group(self.tags.clone())));
        }
        Tag::Group(members)
    }

    /// A document with this image alone.
    pub(crate) fn document(&self) -> Vec<u8> {
        self.style.document(&root(std::slice::from_ref(self)))
    }
}

fn join(members: &mut Vec<(String, Tag)>, (name, tag): (String, Tag)) {
    match (members.iter_mut().find(|(n, _)| *n == name), tag) {
        (Some((_, Tag::Group(inner))), Tag::Group(more)) => more.into_iter().for_each(|m| join(inner, m)),
        (_, tag) => members.push((name, tag)),
    }
}

pub(crate) fn root(images: &[Image]) -> Tag {
    group(vec![("ImageList", list(images.iter().map(Image::to_tag).collect()))])
}

/// A file in a folder that vanishes with it.
pub(crate) struct Written {
    folder: tempfile::TempDir,
}

impl Written {
    pub(crate) fn new() -> Self {
        Written { folder: tempfile::tempdir().unwrap() }
    }
    pub(crate) fn path(&self) -> PathBuf {
        self.folder.path().join("scan.dm4")
    }
    pub(crate) fn write(&self, bytes: &[u8]) -> PathBuf {
        std::fs::write(self.path(), bytes).unwrap();
        self.path()
    }
    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }
}
