//! Any bytes as a spatial index: refused, or every sum can be read both ways.
#![no_main]
use libfuzzer_sys::fuzz_target;
use stempack_codecs::qem::columns::{Spatial, field_count};
use stempack_model::DetectorShape;

fuzz_target!(|data: &[u8]| {
    let Some((&[scans, rows, cols, kind], rest)) = data.split_first_chunk() else { return };
    let scans = if kind & 1 == 0 { usize::from(scans) } else { 500 + usize::from(scans) % 40 };
    let Ok(detector) = DetectorShape::new(u64::from(rows) % 40, u64::from(cols) % 40) else { return };
    let streams = scans.div_ceil(512) * field_count(detector);
    if rest.len() < streams {
        return;
    }
    let (widths, words) = rest.split_at(streams);
    let widths: Vec<u8> = if kind & 2 == 0 { widths.iter().map(|w| w % 33).collect() } else { widths.to_vec() };
    let mut offsets = vec![0u8; 8];
    let mut end = 0u64;
    for (k, &width) in widths.iter().enumerate() {
        let len = 512.min(scans - k / field_count(detector) * 512);
        end += (len * usize::from(width)).div_ceil(32) as u64;
        offsets.extend(end.to_le_bytes());
    }
    let words: Vec<u8> = if kind & 4 == 0 && end < 1 << 16 {
        words.iter().copied().chain(std::iter::repeat(0x3c)).take(4 * end as usize).collect()
    } else {
        words.to_vec()
    };
    if kind & 8 != 0 && let Some(first) = words.first() {
        let at = usize::from(*first) % offsets.len();
        offsets[at] ^= 1 << (kind >> 5);
    }
    let Ok(spatial) = Spatial::new(scans, detector, &words, &offsets, &widths) else { return };
    let mut sums = vec![0; scans];
    for field in 0..spatial.field_count() {
        sums.fill(0);
        spatial.add_field(field, &mut sums);
        for (scan, &sum) in sums.iter().enumerate().step_by(1 + scans / 16) {
            assert_eq!(u64::from(spatial.value(scan, field)), sum);
        }
    }
    let frames = vec![0u8; scans.min(3) * detector.pixels()];
    let _ = spatial.compare(0, &frames, &vec![true; detector.pixels()]);
});
