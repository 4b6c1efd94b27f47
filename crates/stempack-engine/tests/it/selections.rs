//! Sums over chosen scan positions and lists of frames, of residents and shard by shard, against the slow references.

use crate::{counts, u16s};
use std::sync::Arc;
use stempack_containers::pack::{PackFile, PackOptions, ProfileChoice, pack};
use stempack_engine::{Resident, ShardReader};
use stempack_model::{FrameSource, Samples, Task};
use stempack_products::{Products, ScanSelection, Values, reference};
use stempack_testkit::{MemorySource, count};

fn selections(scan: stempack_model::ScanShape) -> Vec<ScanSelection> {
    let (rows, cols) = (scan.rows(), scan.cols());
    let scattered: Vec<u8> = (0..rows * cols).map(|p| u8::from(p * 7 % 5 < 2)).collect();
    let mut last = vec![0; rows * cols];
    last[rows * cols - 1] = 1;
    vec![
        ScanSelection::whole(scan),
        ScanSelection::rectangle(scan, rows / 3..rows, 1..cols).unwrap(),
        ScanSelection::circle(scan, [rows as f64 / 2.0, cols as f64 / 2.0], 3.5).unwrap(),
        ScanSelection::from_array(scan, &scattered).unwrap(),
        ScanSelection::from_array(scan, &last).unwrap(),
    ]
}

fn check(source: &MemorySource, profile: ProfileChoice) {
    let dir = tempfile::tempdir().unwrap();
    let to = dir.path().join("out.h5");
    let options = PackOptions { profile, ..PackOptions::default() };
    pack(source, &to, &options, &Task::new()).unwrap();
    let file = Arc::new(PackFile::open(&to).unwrap());
    let a = source.acquisition();
    let shape = a.shape().unwrap();
    let (pixels, task) = (shape.detector.pixels(), Task::new());
    let frames = reference::dense(source.frames().as_ref(), shape);
    let resident = Resident::load(&file, &task).unwrap();
    let arranged = Resident::load(&file, &task).unwrap();
    arranged.arrange(&task).unwrap();
    let reader = ShardReader::new(file, &task).unwrap();
    let answering: [&dyn Products; 3] = [&resident, &arranged, &reader];
    for products in answering {
        for selection in selections(shape.scan) {
            let chosen = |row: usize, col: usize| selection.contains(row, col);
            let expected = reference::selection_sum(shape, &frames, &a.excluded, &chosen).unwrap();
            assert_eq!(products.selection_sum(&selection, &task).unwrap(), expected);
        }
        let last = (shape.scan.rows() - 1, shape.scan.cols() - 1);
        let list = [last, (0, 1), (0, 0), last, (shape.scan.rows() / 2, 0), (0, 1)];
        for values in [Values::Raw, Values::Working] {
            let found = products.frames(&list, values, &task).unwrap();
            assert_eq!(found.sample_type(), values.sample_type(products));
            for (slot, (row, col)) in list.iter().enumerate() {
                let position = row * shape.scan.cols() + col;
                let expected: Samples = match values {
                    Values::Raw => frames(position),
                    Values::Working => reference::working_frame(&frames, &a.excluded, position),
                };
                for p in 0..pixels {
                    assert_eq!(count(&found, slot * pixels + p), count(&expected, p), "{slot} {p}");
                }
            }
        }
    }
}

#[test]
fn chosen_positions_equal_the_references_in_both_profiles() {
    let source = MemorySource::new((8, 12), (5, 7), u16s(&counts(96, 35, 255)));
    check(&source, ProfileChoice::U8);
    check(&source, ProfileChoice::U16);
    let source = MemorySource::new((7, 19), (6, 5), u16s(&counts(133, 30, 65_535))).excluding(&[2, 29]);
    check(&source, ProfileChoice::U16);
    // Several shards.
    let source = MemorySource::new((96, 128), (1, 5), u16s(&counts(96 * 128, 5, 255)));
    check(&source, ProfileChoice::U8);
    check(&source, ProfileChoice::U16);
}
