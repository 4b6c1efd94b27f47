//! Decides what a sample acquisition contains: a synthetic specimen, written in the file layout of a Dectris ARINA
//! system, for `stempack demo` and for tests that need a real file.
//!
//! Counts are Poisson and follow from the seed alone, whatever the number of threads.

mod layout;
mod random;
mod raw_chunks;
mod specimen;

use random::Stream;
use rayon::prelude::*;
use specimen::Specimen;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use stempack_codecs::bitshuffle;
use stempack_model::{DetectorShape, Error, ErrorCode, Result, SampleType, ScanShape, Task, error_codes};

error_codes! {
    /// Failures of writing a sample.
    pub enum SampleCode {
        /// A file of the sample exists already.
        Exists = "sample_exists", Usage;
        /// The specification asks for something that cannot be written.
        InvalidSpec = "invalid_sample_spec", Usage;
        /// The file system or the HDF5 library refused.
        Write = "sample_write_failed", Io;
    }
}

/// The name that every file of a sample begins with.
pub const STEM: &str = "scan";

/// Frames that are made and encoded together, between two looks at the cancel flag.
const BATCH: usize = 256;

/// What to write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SampleSpec {
    /// Scan positions.
    pub scan: ScanShape,
    /// Detector pixels.
    pub detector: DetectorShape,
    /// Type of the stored counts.
    pub sample: SampleType,
    /// Where all random numbers come from.
    pub seed: u64,
    /// Frames in each data file but the last.
    pub frames_per_file: usize,
    /// How many pixels are stuck at the largest value of the type and flagged in the pixel mask.
    pub excluded: usize,
    /// Bytes of a bitshuffle block; 0 for the usual 8192.
    pub block_bytes: usize,
    /// Whether the NXem companion, which records the scan shape and step, is written.
    pub companion: bool,
}

impl Default for SampleSpec {
    /// A scan of 96×96 positions on a detector of 96×96 pixels in three data files.
    fn default() -> Self {
        #[expect(clippy::expect_used, reason = "the constants are valid shapes, as the tests show")]
        let (scan, detector) =
            (ScanShape::new(96, 96).expect("valid"), DetectorShape::new(96, 96).expect("valid"));
        SampleSpec {
            scan,
            detector,
            sample: SampleType::U16,
            seed: 7,
            frames_per_file: 4096,
            excluded: 3,
            block_bytes: 0,
            companion: true,
        }
    }
}

impl SampleSpec {
    /// The excluded pixels, row-major and ascending.
    pub fn excluded_pixels(&self) -> Vec<u32> {
        let pixels = self.detector.pixels();
        let mut random = Stream::new(self.seed, u64::MAX - 1);
        let mut chosen = BTreeSet::new();
        while chosen.len() < self.excluded.min(pixels) {
            chosen.insert(random.below(pixels) as u32);
        }
        chosen.into_iter().collect()
    }

    /// Bytes of the counts without compression.
    pub fn logical_bytes(&self) -> u64 {
        self.scan.positions() as u64 * self.detector.pixels() as u64 * self.sample.bytes() as u64
    }

    fn check(&self) -> Result<()> {
        let invalid = |message: String| Err(Error::new(SampleCode::InvalidSpec, message));
        // The largest real detectors of this kind have 2²⁰ pixels or fewer; a pattern bank for more would not fit.
        if self.detector.pixels() > 1 << 20 {
            return invalid(format!("a detector of {} is larger than 2^20 pixels", self.detector));
        }
        if self.scan.positions() > u32::MAX as usize {
            return invalid(format!("a scan of {} has more than 2^32 positions", self.scan));
        }
        if self.excluded >= self.detector.pixels() {
            return invalid(format!(
                "excluding {} of {} pixels leaves none",
                self.excluded,
                self.detector.pixels()
            ));
        }
        if !matches!(self.sample, SampleType::U8 | SampleType::U16 | SampleType::U32) {
            return invalid(format!(
                "the detector counts in 8, 16 or 32 bits without sign, not {}",
                self.sample
            ));
        }
        if self.frames_per_file == 0 || self.scan.positions().div_ceil(self.frames_per_file) > 999_999 {
            return invalid(format!(
                "{} frames for each file do not give 1 to 999999 files",
                self.frames_per_file
            ));
        }
        if !self.block_bytes.is_multiple_of(8 * self.sample.bytes()) {
            return invalid(format!("blocks of {} bytes are no groups of eight counts", self.block_bytes));
        }
        Ok(())
    }
}

/// Where a sample was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SamplePaths {
    /// The master file, which is what a reader opens.
    pub master: PathBuf,
    /// The data files in frame order.
    pub data: Vec<PathBuf>,
    /// The NXem companion, when one was asked for.
    pub companion: Option<PathBuf>,
}

/// Writes a sample acquisition into `dir`, which is made when it does not exist.
///
/// Nothing that exists is overwritten, and after a failure or a cancellation none of the sample's files is left.
///
/// # Errors
/// `invalid_sample_spec`, `sample_exists`, `sample_write_failed`, `cancelled`.
///
/// ```no_run
/// use stempack_model::Task;
/// use stempack_sample::{SampleSpec, write_acquisition};
///
/// let paths = write_acquisition("demo".as_ref(), &SampleSpec::default(), &Task::new())?;
/// println!("{}", paths.master.display());
/// # Ok::<(), stempack_model::Error>(())
/// ```
pub fn write_acquisition(dir: &Path, spec: &SampleSpec, task: &Task) -> Result<SamplePaths> {
    spec.check()?;
    let files = spec.scan.positions().div_ceil(spec.frames_per_file);
    let names: Vec<String> = (1..=files).map(|i| format!("{STEM}_data_{i:06}.h5")).collect();
    let paths = SamplePaths {
        master: dir.join(format!("{STEM}_master.h5")),
        data: names.iter().map(|n| dir.join(n)).collect(),
        companion: spec.companion.then(|| dir.join(format!("{STEM}_em_metadata.h5"))),
    };
    let all = || paths.data.iter().chain(&paths.companion).chain([&paths.master]);
    if let Some(taken) = all().find(|p| p.symlink_metadata().is_ok()) {
        return Err(layout::already_there(taken));
    }
    std::fs::create_dir_all(dir).map_err(|e| Error::io("make the folder", dir, e))?;

    let mut started = Vec::new();
    let written = write_files(&paths, &names, spec, task, &mut started);
    if let Err(error) = written {
        // A file that appeared after the look above is somebody else's.
        if error.code() == SampleCode::Exists.code() {
            started.pop();
        }
        for path in started {
            // The first failure is what the caller must hear of, not a second one while tidying up.
            let _ = std::fs::remove_file(path);
        }
        return Err(error);
    }
    Ok(paths)
}

/// Writes data, companion and master, in this order so that a master never points at nothing. Every path goes into
/// `started` before its file is made.
fn write_files<'a>(
    paths: &'a SamplePaths,
    names: &[String],
    spec: &SampleSpec,
    task: &Task,
    started: &mut Vec<&'a Path>,
) -> Result<()> {
    let excluded = spec.excluded_pixels();
    task.begin("make sample", spec.logical_bytes());
    let specimen = Specimen::new(spec.scan, spec.detector, spec.seed);
    let frame_bytes = (spec.detector.pixels() * spec.sample.bytes()) as u64;
    let total = spec.scan.positions();
    for (i, path) in paths.data.iter().enumerate() {
        let first = i * spec.frames_per_file;
        let count = spec.frames_per_file.min(total - first);
        started.push(path);
        let stack = layout::StackWriter::create(path, count, spec)?;
        for start in (0..count).step_by(BATCH) {
            task.check()?;
            let batch = BATCH.min(count - start);
            let chunks: Vec<Result<Vec<u8>>> = (start..start + batch)
                .into_par_iter()
                .map_init(
                    || vec![0u32; spec.detector.pixels()],
                    |counts, frame| encode_frame(&specimen, spec, &excluded, first + frame, counts),
                )
                .collect();
            for (k, chunk) in chunks.into_iter().enumerate() {
                stack.write(start + k, &chunk?)?;
            }
            task.advance(batch as u64 * frame_bytes);
        }
        stack.close()?;
    }
    if let Some(path) = &paths.companion {
        // As an operator would note it.
        let half_angle = (100.0 * specimen::disk_radius(spec.detector) * layout::PIXEL_MRAD).round() / 100.0;
        started.push(path);
        layout::write_companion(path, spec, half_angle)?;
    }
    started.push(&paths.master);
    layout::write_master(&paths.master, spec, names, &excluded)?;
    task.finish();
    Ok(())
}

/// The bitshuffle/LZ4 chunk of the frame at `position`.
fn encode_frame(
    specimen: &Specimen,
    spec: &SampleSpec,
    excluded: &[u32],
    position: usize,
    counts: &mut [u32],
) -> Result<Vec<u8>> {
    specimen.expose(position, &mut Stream::new(spec.seed, position as u64), counts);
    let largest = spec.sample.max_unsigned().unwrap_or(255) as u32;
    for &p in excluded {
        counts[p as usize] = largest;
    }
    let width = spec.sample.bytes();
    let mut bytes = Vec::with_capacity(counts.len() * width);
    for &count in counts.iter() {
        bytes.extend_from_slice(&count.min(largest).to_le_bytes()[..width]);
    }
    let mut chunk = Vec::new();
    bitshuffle::encode_chunk(&bytes, width, spec.block_bytes, &mut chunk)
        .map_err(|e| Error::new(SampleCode::Write, format!("cannot encode frame {position}: {e}")))?;
    Ok(chunk)
}
