//! Residents of the corpus' float acquisitions: everything that is asked of them equals what the files themselves answer,
//! frame by frame, bit for bit.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use stempack::{
    Dark, DetectorMask, FrameSource, OpenOptions, Opened, Products, Resident, SampleType, Samples, ScanShape,
    Task, open,
};
use stempack_testkit::corpus;

fn files_below(folder: &Path, into: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files_below(&path, into);
        } else {
            into.push(path);
        }
    }
    into.sort();
}

/// A float acquisition with a scan shape, recorded or stated as one row.
fn float_acquisition(path: &Path) -> Option<Opened> {
    let opened = open(path, &OpenOptions::default()).ok()?;
    let acquisition = opened.acquisition()?;
    if acquisition.sample != SampleType::F32 {
        return None;
    }
    if acquisition.scan.is_some() {
        return Some(opened);
    }
    let row = ScanShape::new(1, acquisition.frame_count).unwrap();
    open(path, &OpenOptions { scan: Some(row), ..OpenOptions::default() }).ok()
}

fn bits(samples: &Samples) -> Vec<u8> {
    samples.as_ref().little_endian().into_owned()
}

#[test]
fn residents_of_the_corpus_answer_as_their_files_do() {
    let Some(folder) = corpus("real") else { return };
    let (mut paths, mut seen) = (Vec::new(), BTreeMap::<String, usize>::new());
    for part in ["real", "cases", "qem/valid"] {
        files_below(&folder.parent().unwrap().join(part), &mut paths);
    }
    let mut darks = 0;
    for path in paths {
        let Some(opened) = float_acquisition(&path) else { continue };
        let source: Arc<dyn FrameSource> = match &opened {
            Opened::Original(source) => source.clone(),
            Opened::Qem(file) => file.clone(),
            Opened::Pack(_) => continue,
        };
        let task = Task::new();
        let by_frames = opened.frames(&task).unwrap();
        let resident = Resident::from_source(&source, &task).unwrap();
        resident.check_against(source.as_ref(), &task).unwrap();
        let dark = Dark::saved(&opened).unwrap();
        assert_eq!(resident.report().background, dark.as_ref().map(|d| d.background.identity));
        darks += usize::from(dark.is_some());
        let (shape, excluded) = (by_frames.shape(), by_frames.exclusions());
        let (row, col) = (shape.detector.rows() as f64 / 2.0, shape.detector.cols() as f64 / 2.0);
        let radius = row.min(col) / 2.0;
        let ring = |inner: f64, outer: f64| {
            DetectorMask::annulus(shape.detector, excluded, row, col, inner * radius, outer * radius).unwrap()
        };
        for mask in [
            DetectorMask::disk(shape.detector, excluded, row, col, radius).unwrap(),
            ring(0.5, 1.0),
            ring(1.0, 2.0),
            DetectorMask::all(shape.detector, excluded).unwrap(),
        ] {
            let (found, expected) = (
                resident.virtual_image(&mask, &task).unwrap(),
                by_frames.virtual_image(&mask, &task).unwrap(),
            );
            assert_eq!(found, expected, "{}", path.display());
        }
        assert_eq!(resident.pattern_sum(&task).unwrap(), by_frames.pattern_sum(&task).unwrap());
        assert_eq!(resident.moments(&task).unwrap(), by_frames.moments(&task).unwrap());
        for position in (0..shape.scan.positions()).step_by(shape.scan.positions().div_ceil(7)) {
            let (row, col) = (position / shape.scan.cols(), position % shape.scan.cols());
            assert_eq!(
                bits(&resident.raw_frame(row, col).unwrap()),
                bits(&by_frames.raw_frame(row, col).unwrap())
            );
            assert_eq!(
                bits(&resident.working_frame(row, col).unwrap()),
                bits(&by_frames.working_frame(row, col).unwrap())
            );
        }
        *seen.entry(source.acquisition().format.clone()).or_default() += 1;
    }
    for format in ["EMPAD-G1", "EMD 1", "NumPy", "QuantEM"] {
        let found = seen.keys().any(|k| k.contains(format));
        assert!(found, "no {format} among {seen:?}");
    }
    assert!(darks > 0, "{seen:?}");
}
