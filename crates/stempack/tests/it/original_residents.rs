//! Residents made of originals whose files keep the bits of counts transposed, and of others.

use std::path::Path;
use std::sync::Arc;
use stempack::{FrameSource, OpenOptions, Resident, SampleType, Samples, Task, open_source};
use stempack_model::{DetectorShape, ScanShape};
use stempack_sample::{SampleSpec, write_acquisition};
use stempack_testkit::{SourceContract, corpus};

fn source(path: &Path, options: &OpenOptions) -> Arc<dyn FrameSource> {
    open_source(path, options).unwrap()
}

/// Whether the first frame is stored transposed.
fn transposed(source: &dyn FrameSource) -> bool {
    let a = source.acquisition();
    let mut frame = Samples::zeroed(a.sample, a.detector.pixels());
    let mut planes = vec![0; (a.detector.pixels() * a.sample.bytes()).div_ceil(8192)];
    source.read_transposed(0, frame.as_mut(), &mut planes, &Task::new()).unwrap()
}

#[test]
fn what_detectors_write_becomes_a_resident() {
    // Several data files and blocks of scan positions; parts of strips, groups and blocks of pixels; odd pixels.
    for (scan, detector, sample, block_bytes, stored_so) in [
        ((25, 27), (96, 96), SampleType::U16, 0, true),
        ((25, 27), (64, 65), SampleType::U8, 0, true),
        ((3, 30), (24, 23), SampleType::U16, 0, true),
        ((9, 9), (96, 96), SampleType::U16, 4096, false),
        ((9, 9), (100, 101), SampleType::U16, 0, false),
        ((9, 9), (64, 64), SampleType::U32, 0, false),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let spec = SampleSpec {
            scan: ScanShape::new(scan.0, scan.1).unwrap(),
            detector: DetectorShape::new(detector.0, detector.1).unwrap(),
            sample,
            frames_per_file: 300,
            block_bytes,
            ..SampleSpec::default()
        };
        let paths = write_acquisition(folder.path(), &spec, &Task::new()).unwrap();
        let source = source(&paths.master, &OpenOptions::default());
        assert_eq!(transposed(source.as_ref()), stored_so, "{detector:?} {sample}");
        let resident = Resident::from_source(&source, &Task::new()).unwrap();
        // The source gives its samples as they are here.
        resident.check_against(source.as_ref(), &Task::new()).unwrap();
    }
}

#[test]
fn transposed_frames_fulfil_the_contract() {
    let spec = SampleSpec {
        scan: ScanShape::new(3, 5).unwrap(),
        detector: DetectorShape::new(72, 64).unwrap(),
        frames_per_file: 6,
        ..SampleSpec::default()
    };
    let folder = tempfile::tempdir().unwrap();
    let paths = write_acquisition(folder.path(), &spec, &Task::new()).unwrap();
    let written = source(&paths.master, &OpenOptions::default());
    assert!(transposed(written.as_ref()));
    let mut all = Samples::zeroed(SampleType::U16, 15 * 72 * 64);
    written.read(0, all.as_mut(), &Task::new()).unwrap();
    SourceContract {
        write: &|to| write_acquisition(to, &spec, &Task::new()).unwrap().master,
        open: &|path| open_source(path, &OpenOptions::default()),
        expected: &all.as_ref().little_endian(),
        boundaries: &[],
    }
    .check();
}

#[test]
fn damage_is_named_as_it_is_to_who_reads_frames() {
    let Some(folder) = corpus("cases/c11-bslz4-corrupt-chunk") else { return };
    let mut seen = 0;
    for file in std::fs::read_dir(&folder).unwrap() {
        let path = file.unwrap().path();
        let Ok(opened) = open_source(&path, &OpenOptions::default()) else { continue };
        let a = opened.acquisition();
        let options =
            OpenOptions { scan: Some(ScanShape::new(1, a.frame_count).unwrap()), ..Default::default() };
        let Ok(source) = open_source(&path, &options) else { continue };
        let a = source.acquisition();
        let mut all = Samples::zeroed(a.sample, a.frame_count as usize * a.detector.pixels());
        let Err(expected) = source.read(0, all.as_mut(), &Task::new()) else { continue };
        let error = Resident::from_source(&source, &Task::new()).map(drop).unwrap_err();
        assert_eq!(error.to_string(), expected.to_string());
        seen += 1;
    }
    assert!(seen > 0, "no file of the case opens and is damaged");
}
