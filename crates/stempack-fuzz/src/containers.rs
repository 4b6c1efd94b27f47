//! Containers: any bytes are refused, or everything in them can be read.

use std::io::Write;
use stempack_containers::Digest;
use stempack_containers::pack::{Evidence, PackFile, verify};
use stempack_containers::qem::{QemFile, QemOptions, write};
use stempack_model::{FrameSource, Samples, Task};
use stempack_testkit::MemorySource;

/// A pack is refused, or every shard loads or is refused. The checksum of the manifest is repaired first, so that
/// mutations reach what lies behind it.
pub(crate) fn pack(data: &[u8]) {
    let mut bytes = data.to_vec();
    if bytes.len() > 24 {
        let json = u32::from_le_bytes([bytes[8], bytes[9], bytes[10], bytes[11]]) as usize;
        if let Some(text) = bytes.get(24..24usize.saturating_add(json)) {
            let crc = crc32fast::hash(text);
            bytes[12..16].copy_from_slice(&crc.to_le_bytes());
        }
    }
    let mut file = tempfile::NamedTempFile::new().expect("scratch file");
    file.write_all(&bytes).expect("scratch file");
    if let Ok(pack) = PackFile::open(file.path()) {
        let _ = verify(&pack, &Evidence::default(), &Task::new());
    }
}

/// A `.qem` file is refused, or every stream decodes or is refused, and what it can be asked agrees with its frames. The
/// digests of header and body are repaired first, so that mutations reach what lies behind them.
pub(crate) fn qem(data: &[u8]) {
    let bytes = repaired(data);
    let Ok(folder) = tempfile::tempdir() else { return };
    let path = folder.path().join("fuzz.qem");
    if std::fs::write(&path, bytes).is_err() {
        return;
    }
    let task = Task::new().with_memory_budget(64 << 20);
    let Ok(file) = QemFile::open(&path) else { return };
    let _ = file.background();
    let verified = file.verify(None, true, &task);
    let a = file.acquisition();
    let pixels = a.detector.pixels();
    if pixels > 1 << 20 {
        return;
    }
    let mut frame = Samples::zeroed(a.sample, pixels);
    let mut sum = 0u64;
    let mut whole = verified.is_ok_and(|r| r.ok());
    for index in 0..a.frame_count.min(600) {
        match file.read(index, frame.as_mut(), &task) {
            Ok(()) => sum += total(&frame, &a.excluded.pixels),
            Err(_) => whole = false,
        }
    }
    let sums = file.virtual_sums(&vec![true; pixels], &task);
    let _ = (file.pattern_sums(&task), file.moments(&task));
    if whole && file.has_counts() && a.frame_count <= 600 {
        assert_eq!(sums.expect("a verified file has sums").iter().sum::<u64>(), sum);
    }
    // A retired file is encoded anew, and a few bytes of it can stand for any number of frames.
    if file.info().legacy && a.frame_count.saturating_mul(pixels as u64) > 1 << 22 {
        return;
    }
    let copy = folder.path().join("copy.qem");
    if write(&file, &copy, &QemOptions::default(), &task).is_ok() {
        QemFile::open(&copy).expect("a copy opens");
    }
}

fn total(frame: &Samples, excluded: &[u32]) -> u64 {
    let admitted = |sum: u64, at: usize, v: u64| if excluded.contains(&(at as u32)) { sum } else { sum + v };
    match frame {
        Samples::U8(v) => v.iter().enumerate().fold(0, |s, (at, &v)| admitted(s, at, v.into())),
        Samples::U16(v) => v.iter().enumerate().fold(0, |s, (at, &v)| admitted(s, at, v.into())),
        _ => 0,
    }
}

/// The same bytes with the digests that their header and its first checksum should have.
fn repaired(data: &[u8]) -> Vec<u8> {
    let mut bytes = data.to_vec();
    let Some(length) = bytes.get(8..16).and_then(|b| b.try_into().ok()).map(u64::from_le_bytes) else {
        return bytes;
    };
    let Some(start) =
        usize::try_from(length).ok().and_then(|n| n.checked_add(56)).filter(|&n| n <= bytes.len())
    else {
        return bytes;
    };
    bytes[16..24].copy_from_slice(&(start as u64).to_le_bytes());
    let digest = Digest::of(&bytes[start..]).to_hex();
    let key = b"\"sha256\":[\"";
    if let Some(at) = bytes[56..start].windows(key.len()).position(|w| w == key) {
        let at = 56 + at + key.len();
        if at + 64 <= start {
            bytes[at..at + 64].copy_from_slice(digest.as_bytes());
        }
    }
    let digest = Digest::of(&bytes[56..start]).0;
    bytes[24..56].copy_from_slice(&digest);
    bytes
}

/// Any array becomes a `.qem` file and comes back, with the same bits.
pub(crate) fn qem_round_trip(data: &[u8]) {
    let [kind, scan_cols, det_rows, det_cols, excluded, samples @ ..] = data else { return };
    let (scan_cols, det_rows, det_cols) =
        (*scan_cols as usize % 40 + 1, *det_rows as usize % 40 + 1, *det_cols as usize % 40 + 1);
    let pixels = det_rows * det_cols;
    let width = [1, 2, 4][*kind as usize % 3];
    let rows = (samples.len() / (width * pixels * scan_cols)).min(64);
    if rows == 0 {
        return;
    }
    let words = samples.chunks_exact(width).take(rows * scan_cols * pixels);
    let frames = match width {
        1 => Samples::U8(words.map(|b| b[0]).collect()),
        2 => Samples::U16(words.map(|b| u16::from_le_bytes([b[0], b[1]])).collect()),
        _ => Samples::F32(words.map(|b| f32::from_le_bytes([b[0], b[1], b[2], b[3]])).collect()),
    };
    let mut source = MemorySource::new((rows, scan_cols), (det_rows, det_cols), frames);
    if width < 4 && *excluded > 0 {
        source = source.excluding(&[u32::from(*excluded) % pixels as u32]);
    }
    let Ok(folder) = tempfile::tempdir() else { return };
    let path = folder.path().join("fuzz.qem");
    let task = Task::new();
    write(&source, &path, &QemOptions::default(), &task).expect("any array is written");
    let file = QemFile::open(&path).expect("what is written opens");
    let report = file.verify(None, true, &task).expect("what is written decodes");
    assert!(report.ok(), "{report:?}");
    let mut back = Samples::zeroed(source.frames().sample_type(), source.frames().len());
    file.read(0, back.as_mut(), &task).expect("what is written is read");
    assert_eq!(back.as_ref().little_endian(), source.frames().as_ref().little_endian());
}
