//! Membership by integer arithmetic that never touches floating point.

use crate::excluding;
use proptest::prelude::*;
use stempack_model::DetectorShape;
use stempack_products::DetectorMask;

/// Centres and radii in quarters of a pixel: 16·d² is an integer, so membership is decided exactly.
fn quarters(row: usize, col: usize, centre: (i64, i64)) -> i64 {
    let (dr, dc) = (4 * row as i64 - centre.0, 4 * col as i64 - centre.1);
    dr * dr + dc * dc
}

proptest! {
    #[test]
    fn disks_hold_exactly_the_pixels_at_most_a_radius_away(
        rows in 1u64..20, cols in 1u64..20,
        centre in (-20i64..100, -20i64..100), radius in 0i64..60,
        excluded in proptest::collection::btree_set(0u32..400, 0..6),
    ) {
        let shape = DetectorShape::new(rows, cols).unwrap();
        let excluded: Vec<u32> = excluded.into_iter().filter(|&p| (p as usize) < shape.pixels()).collect();
        let (r, c, d) = (centre.0 as f64 / 4.0, centre.1 as f64 / 4.0, radius as f64 / 4.0);
        let mask = DetectorMask::disk(shape, &excluding(&excluded), r, c, d).unwrap();
        let mut selected = Vec::new();
        for row in 0..shape.rows() {
            for col in 0..shape.cols() {
                let pixel = (row * shape.cols() + col) as u32;
                let inside = quarters(row, col, centre) <= radius * radius && !excluded.contains(&pixel);
                prop_assert_eq!(mask.members()[pixel as usize], inside);
                if inside { selected.push(pixel) }
            }
        }
        prop_assert_eq!(mask.count(), selected.len());
        prop_assert_eq!(mask.selected(), &selected[..]);
        let from_runs: Vec<u32> = mask.runs().into_iter().flatten().map(|p| p as u32).collect();
        prop_assert_eq!(from_runs, selected);
        prop_assert!(mask.runs().windows(2).all(|w| w[0].end < w[1].start));
    }

    #[test]
    fn annuli_hold_exactly_the_pixels_between(
        centre in (0i64..64, 0i64..64), inner in 0i64..40, width in 0i64..40,
    ) {
        let shape = DetectorShape::new(16, 17).unwrap();
        let outer = inner + width;
        let [r, c, i, o] = [centre.0, centre.1, inner, outer].map(|q| q as f64 / 4.0);
        let mask = DetectorMask::annulus(shape, &excluding(&[]), r, c, i, o).unwrap();
        let disk = DetectorMask::disk(shape, &excluding(&[]), r, c, i).unwrap();
        for row in 0..16 {
            for col in 0..17 {
                let d = quarters(row, col, centre);
                let pixel = row * 17 + col;
                prop_assert_eq!(mask.members()[pixel], d > inner * inner && d <= outer * outer);
                prop_assert!(!(mask.members()[pixel] && disk.members()[pixel]));
            }
        }
    }
}

/// Drawn by hand: a disk of radius 1.5 about (2, 2) is the full 3×3 block (corner distance √2).
#[test]
fn a_small_disk_by_hand() {
    let shape = DetectorShape::new(5, 5).unwrap();
    let mask = DetectorMask::disk(shape, &excluding(&[12]), 2.0, 2.0, 1.5).unwrap();
    assert_eq!(mask.selected(), [6, 7, 8, 11, 13, 16, 17, 18]);
    assert_eq!(mask.runs(), [6..9, 11..12, 13..14, 16..19]);
    let cross = DetectorMask::disk(shape, &excluding(&[]), 2.0, 2.0, 1.0).unwrap();
    assert_eq!(cross.selected(), [7, 11, 12, 13, 17]);
}

#[test]
fn rectangles_points_and_everything() {
    let shape = DetectorShape::new(3, 4).unwrap();
    let ex = excluding(&[5]);
    assert_eq!(DetectorMask::rectangle(shape, &ex, 0..2, 1..3).unwrap().selected(), [1, 2, 6]);
    assert_eq!(DetectorMask::point(shape, &ex, 2, 3).unwrap().selected(), [11]);
    assert_eq!(DetectorMask::point(shape, &ex, 1, 1).unwrap().count(), 0);
    let all = DetectorMask::all(shape, &ex).unwrap();
    assert_eq!(all.count(), 11);
    assert_eq!(all.runs(), [0..5, 6..12]);
    let bytes = [1, 0, 0, 0, 0, 1, 1, 0, 0, 0, 0, 1];
    let array = DetectorMask::from_array(shape, &ex, &bytes).unwrap();
    assert_eq!(array.selected(), [0, 6, 11]);
    assert_eq!(array.to_bytes(), [1, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1]);
}

#[test]
fn senseless_geometry_is_refused() {
    let shape = DetectorShape::new(8, 8).unwrap();
    let ex = excluding(&[]);
    let code = |r: stempack_model::Result<DetectorMask>| r.unwrap_err().code();
    for bad in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
        assert_eq!(code(DetectorMask::disk(shape, &ex, bad, 1.0, 1.0)), "mask_geometry");
        assert_eq!(code(DetectorMask::disk(shape, &ex, 1.0, bad, 1.0)), "mask_geometry");
        assert_eq!(code(DetectorMask::disk(shape, &ex, 1.0, 1.0, bad)), "mask_geometry");
        assert_eq!(code(DetectorMask::annulus(shape, &ex, 1.0, 1.0, bad, 2.0)), "mask_geometry");
        assert_eq!(code(DetectorMask::annulus(shape, &ex, 1.0, 1.0, 1.0, bad)), "mask_geometry");
    }
    assert_eq!(code(DetectorMask::disk(shape, &ex, 1.0, 1.0, -0.5)), "mask_geometry");
    assert_eq!(code(DetectorMask::annulus(shape, &ex, 1.0, 1.0, 3.0, 2.0)), "mask_geometry");
    assert_eq!(code(DetectorMask::point(shape, &ex, 8, 0)), "mask_geometry");
    assert_eq!(code(DetectorMask::rectangle(shape, &ex, 0..9, 0..8)), "mask_geometry");
    assert_eq!(code(DetectorMask::rectangle(shape, &ex, 3..3, 0..8)), "mask_geometry");
    assert_eq!(code(DetectorMask::from_array(shape, &ex, &[1; 63])), "mask_shape");
    let mut bytes = [0u8; 64];
    bytes[9] = 2;
    let e = DetectorMask::from_array(shape, &ex, &bytes).unwrap_err();
    assert_eq!(e.code(), "mask_not_binary");
    assert!(e.message().contains("(1, 1)"), "{e}");
    assert_eq!(code(DetectorMask::all(shape, &excluding(&[64]))), "mask_geometry");
    let huge = DetectorShape::new(1 << 15, 1 << 15).unwrap();
    assert_eq!(code(DetectorMask::all(huge, &ex)), "mask_too_large");
}

/// Steps of 2 and 3 per pixel, in quarters: membership is decided by integers here too.
#[test]
fn each_axis_is_scaled_by_its_own_step() {
    let shape = DetectorShape::new(17, 13).unwrap();
    let (centre, steps) = ([7.25, 5.5], [2.0, 3.0]);
    let squared = |row: usize, col: usize| {
        let (dr, dc) = (2 * (4 * row as i64 - 29), 3 * (4 * col as i64 - 22));
        dr * dr + dc * dc
    };
    let disk = DetectorMask::disk_of_steps(shape, &excluding(&[90]), centre, 7.5, steps).unwrap();
    let ring = DetectorMask::annulus_of_steps(shape, &excluding(&[90]), centre, [7.5, 15.0], steps).unwrap();
    for pixel in (0..shape.pixels()).filter(|&p| p != 90) {
        let d = squared(pixel / 13, pixel % 13);
        assert_eq!(disk.members()[pixel], d <= 30 * 30, "pixel {pixel}");
        assert_eq!(ring.members()[pixel], d > 30 * 30 && d <= 60 * 60, "pixel {pixel}");
    }
    assert!(!disk.members()[90] && !ring.members()[90]);
    for step in [0.0, -1.0, f64::NAN, f64::INFINITY] {
        for steps in [[step, 1.0], [1.0, step]] {
            let error = DetectorMask::disk_of_steps(shape, &excluding(&[]), centre, 1.0, steps).unwrap_err();
            assert_eq!(error.code(), "mask_geometry");
        }
    }
}
