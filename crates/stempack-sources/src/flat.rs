//! Frames that lie uncompressed in one file, in whatever order of axes: the shared reader of flat formats.
//!
//! A layout is proved to lie inside the file when a source is made of it, and every later read is checked again by the
//! system: a file that became shorter is an error, not a crash.

use crate::error::SourceCode;
use crate::identity::{Fingerprints, digest_files};
use crate::{refuse, request, shown};
use rayon::prelude::*;
use std::fs::File;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use stempack_model::{Acquisition, Error, FrameSource, MemberDigest, Result, SamplesMut, ScanShape, Task};

/// Read at a time, also how often cancellation is looked at.
const PIECE_BYTES: usize = 4 << 20;

/// Where the samples of one file lie.
#[derive(Clone, Debug)]
pub(crate) struct Flat {
    /// The file.
    pub(crate) path: PathBuf,
    /// Byte where the first sample of frame 0 lies.
    pub(crate) offset: u64,
    /// Whether samples are stored with the most significant byte first.
    pub(crate) big_endian: bool,
    /// How they follow each other.
    pub(crate) order: Order,
}

/// How samples follow each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Order {
    /// Whole row-major frames, each beginning `stride` bytes after the one before.
    Frames {
        /// At least the bytes of a frame; more where something follows each frame.
        stride: u64,
    },
    /// All scan positions of one detector pixel, then those of the next.
    Pixels {
        /// The scan whose positions these are.
        scan: ScanShape,
        /// Whether neighbours in the file are scan rows rather than scan columns.
        scan_rows_fastest: bool,
        /// Whether the next pixel is that of the next detector row rather than of the next column.
        det_rows_fastest: bool,
    },
}

/// An acquisition whose frames lie flat in one file.
pub(crate) struct FlatSource {
    acquisition: Acquisition,
    flat: Flat,
    fingerprints: Fingerprints,
}

impl FlatSource {
    /// Takes a layout that lies inside its file, which `fingerprints` must know.
    ///
    /// # Errors
    /// `length_mismatch` when samples would lie beyond the end of the file; `too_large`.
    pub(crate) fn new(mut acquisition: Acquisition, flat: Flat, fingerprints: Fingerprints) -> Result<Self> {
        acquisition.judge_quantities();
        let too_large = || {
            refuse(
                SourceCode::TooLarge,
                format!("`{}` describes too many bytes", shown(&flat.path)),
                &flat.path,
            )
        };
        let frame = (acquisition.detector.pixels() as u64)
            .checked_mul(acquisition.sample.bytes() as u64)
            .ok_or_else(too_large)?;
        let samples = match flat.order {
            Order::Frames { stride } => acquisition
                .frame_count
                .saturating_sub(1)
                .checked_mul(stride.max(frame))
                .and_then(|before| before.checked_add(frame)),
            Order::Pixels { .. } => acquisition.frame_count.checked_mul(frame),
        };
        let end = samples.and_then(|n| n.checked_add(flat.offset)).ok_or_else(too_large)?;
        let bytes = fingerprints.get(&flat.path).map_or(0, |f| f.bytes());
        if end > bytes {
            return Err(refuse(
                SourceCode::LengthMismatch,
                format!("`{}` has {bytes} bytes, its frames end at byte {end}", shown(&flat.path)),
                &flat.path,
            ));
        }
        Ok(FlatSource { acquisition, flat, fingerprints })
    }

    fn read_at(&self, file: &File, at: u64, out: &mut [u8]) -> Result<()> {
        file.read_exact_at(out, at).map_err(|e| Error::io("read", &self.flat.path, e))
    }

    /// Frames one after another: each piece is one read for as many frames as it holds.
    fn read_frames(&self, file: &File, stride: u64, first: u64, out: &mut [u8], task: &Task) -> Result<()> {
        let frame = self.acquisition.detector.pixels() * self.acquisition.sample.bytes();
        let stride_bytes = usize::try_from(stride).unwrap_or(usize::MAX);
        let per_piece = (PIECE_BYTES / stride_bytes.max(1)).max(1);
        out.par_chunks_mut(per_piece * frame).enumerate().try_for_each(|(piece, out)| {
            task.check()?;
            let begin = self.flat.offset + (first + (piece * per_piece) as u64) * stride;
            if stride_bytes == frame {
                return self.read_at(file, begin, out);
            }
            for (k, out) in out.chunks_exact_mut(frame).enumerate() {
                self.read_at(file, begin + k as u64 * stride, out)?;
            }
            Ok(())
        })
    }

    /// All positions of each pixel together: for every pixel the span of the wanted positions is read and its samples
    /// are spread over the frames.
    fn read_pixels(
        &self,
        file: &File,
        order: (ScanShape, bool, bool),
        frames: Range<u64>,
        out: &mut [u8],
        task: &Task,
    ) -> Result<()> {
        let (scan, scan_rows_fastest, det_rows_fastest) = order;
        let detector = self.acquisition.detector;
        let size = self.acquisition.sample.bytes();
        let (rows, cols) = (scan.rows() as u64, scan.cols() as u64);
        let plane = rows * cols;
        let wanted = frames.start..frames.end.min(plane);
        // The wanted positions lie between these places of each pixel.
        let (low, high) = if scan_rows_fastest {
            (wanted.start / cols, rows * (cols - 1) + (wanted.end - 1) / cols)
        } else {
            (wanted.start, wanted.end - 1)
        };
        // A pixel of a large scan is read in pieces, so that little more than the window is held.
        let per_piece = (PIECE_BYTES / size) as u64;
        let mut piece = vec![0u8; (high - low + 1).min(per_piece) as usize * size];
        let frame_bytes = detector.pixels() * size;
        for stored in 0..detector.pixels() {
            if stored % 256 == 0 {
                task.check()?;
            }
            let pixel = if det_rows_fastest {
                (stored % detector.rows()) * detector.cols() + stored / detector.rows()
            } else {
                stored
            };
            let mut begin = low;
            while begin <= high {
                let end = (begin + per_piece).min(high + 1);
                let piece = &mut piece[..(end - begin) as usize * size];
                self.read_at(file, self.flat.offset + (stored as u64 * plane + begin) * size as u64, piece)?;
                let mut copy = |frame: u64, place: u64| {
                    let to = (frame - wanted.start) as usize * frame_bytes + pixel * size;
                    let from = (place - begin) as usize * size;
                    out[to..to + size].copy_from_slice(&piece[from..from + size]);
                };
                if scan_rows_fastest {
                    for_columns((rows, cols), &wanted, begin..end, &mut copy);
                } else {
                    (begin..end).for_each(|place| copy(place, place));
                }
                begin = end;
                if high - low >= per_piece {
                    task.check()?;
                }
            }
        }
        Ok(())
    }
}

/// Calls `copy` with each wanted frame whose place, counted down the scan columns, lies among `places`, and that place.
fn for_columns(
    (rows, cols): (u64, u64),
    wanted: &Range<u64>,
    places: Range<u64>,
    copy: &mut impl FnMut(u64, u64),
) {
    for col in places.start / rows..=(places.end - 1) / rows {
        // Rows whose frame of this column is wanted, and those of them whose place is there.
        let from = wanted.start.saturating_sub(col).div_ceil(cols);
        let to = wanted.end.saturating_sub(col).div_ceil(cols);
        let from = from.max(places.start.saturating_sub(col * rows));
        let to = to.min(rows).min(places.end.saturating_sub(col * rows));
        for row in from..to {
            copy(row * cols + col, col * rows + row);
        }
    }
}

impl FrameSource for FlatSource {
    fn acquisition(&self) -> &Acquisition {
        &self.acquisition
    }

    fn read(&self, first_frame: u64, mut into: SamplesMut<'_>, task: &Task) -> Result<()> {
        let frames = request::frames(&self.acquisition, first_frame, &into)?;
        if frames.is_empty() {
            return Ok(());
        }
        let file = self.fingerprints.open(&self.flat.path)?;
        let out = into.as_bytes_mut();
        match self.flat.order {
            Order::Frames { stride } => self.read_frames(&file, stride, frames.start, out, task)?,
            Order::Pixels { scan, scan_rows_fastest, det_rows_fastest } => {
                self.read_pixels(&file, (scan, scan_rows_fastest, det_rows_fastest), frames, out, task)?;
            }
        }
        if self.flat.big_endian != cfg!(target_endian = "big") {
            into.swap_bytes();
        }
        Ok(())
    }

    fn digest_members(&self, task: &Task) -> Result<Vec<MemberDigest>> {
        digest_members(&self.acquisition, &self.fingerprints, task)
    }

    fn check_unchanged(&self) -> Result<()> {
        self.fingerprints.check()
    }
}

/// The digest of every member of an acquisition.
pub(crate) fn digest_members(
    acquisition: &Acquisition,
    fingerprints: &Fingerprints,
    task: &Task,
) -> Result<Vec<MemberDigest>> {
    let paths: Vec<&Path> = acquisition.members.iter().map(|m| m.path.as_path()).collect();
    let digests = digest_files(fingerprints, &paths, task)?;
    Ok(acquisition
        .members
        .iter()
        .zip(digests)
        .enumerate()
        .map(|(member, (m, sha256))| MemberDigest { member, role: m.role, sha256 })
        .collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use stempack_model::{DetectorShape, SampleType, Samples};

    /// Writes the values 0, 1, 2, … of a 2×3×2×4 acquisition in a given order of axes and reads them back.
    fn read_back(order: Order, place: impl Fn([usize; 4]) -> usize, stride: usize, big_endian: bool) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("flat");
        let (dims, count) = ([2usize, 3, 2, 4], 48usize);
        let mut bytes = vec![0xeeu8; 5 + 6 * stride];
        let index = |at: [usize; 4]| ((at[0] * dims[1] + at[1]) * dims[2] + at[2]) * dims[3] + at[3];
        for r in 0..2 {
            for c in 0..3 {
                for y in 0..2 {
                    for x in 0..4 {
                        let value = 0x0100 + index([r, c, y, x]) as i16;
                        let to = 5 + place([r, c, y, x]);
                        let word = if big_endian { value.to_be_bytes() } else { value.to_le_bytes() };
                        bytes[to..to + 2].copy_from_slice(&word);
                    }
                }
            }
        }
        std::fs::write(&path, &bytes).unwrap();
        let mut fingerprints = Fingerprints::default();
        fingerprints.add(&path).unwrap();
        let detector = DetectorShape::new(2, 4).unwrap();
        let excluded = crate::exclusions::none(detector).unwrap();
        let acquisition = Acquisition::new("t", "t/v1", 6, detector, SampleType::I16, excluded);
        let flat = Flat { path, offset: 5, big_endian, order };
        let source = FlatSource::new(acquisition, flat, fingerprints).unwrap();
        let expected: Vec<i16> = (0..count as i16).map(|v| 0x0100 + v).collect();
        for window in 1..=6usize {
            let mut all = Vec::new();
            for first in (0..6).step_by(window) {
                let n = window.min(6 - first);
                let mut samples = Samples::zeroed(SampleType::I16, n * 8);
                source.read(first as u64, samples.as_mut(), &Task::new()).unwrap();
                if let Samples::I16(v) = samples {
                    all.extend(v);
                }
            }
            assert_eq!(all, expected, "windows of {window}");
        }
    }

    #[test]
    fn every_order_of_axes_gives_the_same_frames() {
        let scan = ScanShape::new(2, 3).unwrap();
        let c_order = |[r, c, y, x]: [usize; 4], stride: usize| (r * 3 + c) * stride + (y * 4 + x) * 2;
        read_back(Order::Frames { stride: 16 }, |at| c_order(at, 16), 16, false);
        read_back(Order::Frames { stride: 23 }, |at| c_order(at, 23), 23, true);
        let order =
            |scan_rows_fastest, det_rows_fastest| Order::Pixels { scan, scan_rows_fastest, det_rows_fastest };
        read_back(order(false, false), |[r, c, y, x]| ((y * 4 + x) * 6 + r * 3 + c) * 2, 16, false);
        read_back(order(true, true), |[r, c, y, x]| ((x * 2 + y) * 6 + c * 2 + r) * 2, 16, true);
        read_back(order(true, false), |[r, c, y, x]| ((y * 4 + x) * 6 + c * 2 + r) * 2, 16, false);
    }

    /// One pixel of a large scan is read in several pieces; samples around their borders are where they belong.
    #[test]
    fn pixels_longer_than_a_piece_are_whole() {
        let (rows, cols) = (2200usize, 1000usize);
        assert!(rows * cols * 2 > PIECE_BYTES);
        let value = |frame: usize, pixel: usize| (frame * 7 + pixel * 13) as u16;
        for scan_rows_fastest in [false, true] {
            let mut stored = Vec::with_capacity(rows * cols * 4);
            for pixel in 0..2 {
                for place in 0..rows * cols {
                    let frame = if scan_rows_fastest { place % rows * cols + place / rows } else { place };
                    stored.extend(value(frame, pixel).to_le_bytes());
                }
            }
            let dir = tempfile::tempdir().unwrap();
            let path = dir.path().join("large");
            std::fs::write(&path, &stored).unwrap();
            let mut fingerprints = Fingerprints::default();
            fingerprints.add(&path).unwrap();
            let detector = DetectorShape::new(1, 2).unwrap();
            let excluded = crate::exclusions::none(detector).unwrap();
            let frames = (rows * cols) as u64;
            let acquisition = Acquisition::new("t", "t/v1", frames, detector, SampleType::U16, excluded);
            let scan = ScanShape::new(rows as u64, cols as u64).unwrap();
            let order = Order::Pixels { scan, scan_rows_fastest, det_rows_fastest: false };
            let flat = Flat { path, offset: 0, big_endian: false, order };
            let source = FlatSource::new(acquisition, flat, fingerprints).unwrap();
            // Everything; and windows that begin and end inside rows, around the border of the pieces and at the ends.
            let border = PIECE_BYTES / 2;
            for (first, count) in
                [(0, rows * cols), (1, 999), (border - 1500, 3001), (1_000_500, 2750), (rows * cols - 3, 3)]
            {
                let mut samples = Samples::zeroed(SampleType::U16, count * 2);
                source.read(first as u64, samples.as_mut(), &Task::new()).unwrap();
                let expected = (first..first + count).flat_map(|f| [value(f, 0), value(f, 1)]).collect();
                assert!(
                    samples == Samples::U16(expected),
                    "{scan_rows_fastest}, {count} frames from {first}"
                );
            }
        }
    }

    #[test]
    fn frames_beyond_the_end_are_refused_at_once() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("short");
        std::fs::write(&path, [0u8; 15]).unwrap();
        let mut fingerprints = Fingerprints::default();
        fingerprints.add(&path).unwrap();
        let detector = DetectorShape::new(2, 4).unwrap();
        let acquisition = Acquisition::new(
            "t",
            "t/v1",
            1,
            detector,
            SampleType::U16,
            crate::exclusions::none(detector).unwrap(),
        );
        let flat = Flat { path, offset: 0, big_endian: false, order: Order::Frames { stride: 16 } };
        let error = FlatSource::new(acquisition, flat, fingerprints).err().unwrap();
        assert_eq!(error.code(), "length_mismatch");
    }
}
