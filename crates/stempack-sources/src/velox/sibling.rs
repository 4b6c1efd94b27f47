//! The scan step that a Velox image beside the data records, when it is unmistakably of the same scan.
//!
//! A Velox file belongs to an acquisition when its stem is the same, or when it is the only one whose stem starts with
//! it; being the only one in the folder is no evidence. Then its recorded scan size must be the scan shape.

use super::document::{self, number};
use super::{IMAGES, MAX_IMAGES};
use crate::hdf5::{File, Found};
use crate::units;
use serde_json::Value as Json;
use std::path::{Path, PathBuf};
use stempack_model::{Origin, Quantity, Recorded, Result, ScanShape};

/// The one `.emd` file that belongs to `stem` by its name.
pub(crate) fn sibling(folder: &Path, stem: &str) -> Option<PathBuf> {
    let stem = stem.to_lowercase();
    let (mut same, mut starting) = (Vec::new(), Vec::new());
    for entry in std::fs::read_dir(folder).ok()?.flatten() {
        let path = entry.path();
        let Some(name) = path.file_name().and_then(|n| n.to_str()) else { continue };
        let lower = name.to_lowercase();
        let Some(other) = lower.strip_suffix(".emd") else { continue };
        if lower.starts_with('.') || !path.is_file() {
            continue;
        }
        if other == stem {
            same.push(path);
        } else if other.starts_with(&stem) {
            starting.push(path);
        }
    }
    let only = |mut found: Vec<PathBuf>| if found.len() == 1 { found.pop() } else { None };
    if same.is_empty() { only(starting) } else { only(same) }
}

/// Row and column step, or why the file gives none.
pub(crate) fn steps(path: &Path, scan: ScanShape) -> Result<[Recorded<f64>; 2], String> {
    let file = File::open(path).map_err(|e| e.message().to_owned())?;
    let images = match file.find(IMAGES) {
        Ok(Found::Group(group)) => file.links(&group).map(|links| (group, links)),
        _ => return Err("it holds no image".to_owned()),
    };
    let (group, links) = images.map_err(|e| e.message().to_owned())?;
    let mut found: Option<[Recorded<f64>; 2]> = None;
    for (name, _) in links.into_iter().take(MAX_IMAGES) {
        let place = format!("{}/{name}/Metadata", group.path());
        let Ok(Found::Dataset(dataset)) = file.find(&place) else { continue };
        let Ok((_, json)) = document::read(&file, &dataset) else { continue };
        let Some(steps) = from_document(&json, scan, file.name(), &place) else { continue };
        match &found {
            Some(other) if other[0].value != steps[0].value || other[1].value != steps[1].value => {
                return Err("its images record different fields of view".to_owned());
            }
            Some(_) => {}
            None => found = Some(steps),
        }
    }
    found.ok_or_else(|| format!("no image in it records a field of view for a scan of {scan}"))
}

fn from_document(json: &Json, scan: ScanShape, file: &str, place: &str) -> Option<[Recorded<f64>; 2]> {
    let size = json.get("Scan")?.get("ScanSize")?;
    let same = number(size.get("height")?)? == scan.rows() as f64
        && number(size.get("width")?)? == scan.cols() as f64;
    if !same {
        return None;
    }
    let field = json.get("Optics")?.get("FullScanFieldOfView")?;
    let step = |axis: &str, count: usize| {
        let metres = number(field.get(axis)?)?;
        let value = metres / count as f64 * 1e10;
        if !(metres > 0.0 && value.is_finite()) {
            return None;
        }
        Some(Recorded {
            value,
            origin: Origin {
                file: file.to_owned(),
                path: format!("{place}: Optics.FullScanFieldOfView.{axis}"),
            },
            conversion: format!("{} m / {count} × 1e10", crate::hdf5::shortest(metres)),
            flag: units::step_flag(value),
        })
    };
    Some([step("y", scan.rows())?, step("x", scan.cols())?])
}

/// The two quantities that [`steps`] gives, in its order.
pub(crate) const STEP_QUANTITIES: [Quantity; 2] = [Quantity::ScanStepRow, Quantity::ScanStepCol];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn siblings_by_name_only() {
        let dir = tempfile::tempdir().unwrap();
        let touch = |name: &str| std::fs::write(dir.path().join(name), b"").unwrap();
        let found = |stem: &str| {
            sibling(dir.path(), stem).map(|p| p.file_name().unwrap().to_string_lossy().into_owned())
        };
        touch("other.emd");
        touch(".scan_01.emd");
        assert_eq!(found("scan_01"), None, "the only file in the folder is no evidence");
        touch("Scan_01 HAADF.EMD");
        assert_eq!(found("scan_01").as_deref(), Some("Scan_01 HAADF.EMD"));
        touch("scan_01 BF.emd");
        assert_eq!(found("scan_01"), None, "two that start alike are ambiguous");
        touch("scan_01.emd");
        assert_eq!(found("scan_01").as_deref(), Some("scan_01.emd"));
    }

    /// Facts § 6.2: FOV x 5e-8 m as a wrapped string and y 2.5e-8 m over 25 × 50 positions is 10 Å on both axes.
    #[test]
    fn field_of_view_over_scan_size() {
        let json = |w: u32| {
            serde_json::json!({
                "Scan": {"ScanSize": {"width": w.to_string(), "height": "25"}},
                "Optics": {"FullScanFieldOfView": {"x": {"value": "5e-8"}, "y": 2.5e-8}}
            })
        };
        let scan = ScanShape::new(25, 50).unwrap();
        let steps = from_document(&json(50), scan, "a.emd", "/m").unwrap();
        for step in &steps {
            assert!((step.value - 10.0).abs() < 1e-12);
        }
        assert_eq!(from_document(&json(51), scan, "a.emd", "/m"), None);
        let partial = serde_json::json!({
            "Scan": {"ScanSize": {"width": 50, "height": 25}},
            "Optics": {"FullScanFieldOfView": {"x": 5e-8, "y": -1}}
        });
        assert_eq!(from_document(&partial, scan, "a.emd", "/m"), None);
    }
}
