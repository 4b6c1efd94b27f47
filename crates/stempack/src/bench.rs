//! Measuring a pack: how long it takes to be ready, and how long each question takes afterwards.
//!
//! Times are wall-clock; equality with the scalar kernel is checked in the same run. Nothing here is a test.

use crate::{
    BrightFieldDisk, DetectorMask, Kernel, OpenOptions, Opened, PackFile, Products, Profile, Resident,
    Result, Task,
};
use std::path::Path;
use std::time::Instant;
use stempack_products::VirtualDetector;

/// Repeated measurements of one question.
#[derive(Clone, Debug)]
pub struct Timing {
    /// Median, nearest rank.
    pub p50_ms: f64,
    /// 95th percentile, nearest rank.
    pub p95_ms: f64,
    /// Slowest.
    pub max_ms: f64,
    /// Counts that one answer takes into account, per second of the median.
    pub counts_per_s: f64,
}

/// What was measured.
#[derive(Clone, Debug)]
pub struct BenchReport {
    /// Phases in order, in milliseconds, each by its own name.
    pub phases_ms: Vec<(&'static str, f64)>,
    /// Questions put to the resident.
    pub interaction: Vec<(&'static str, Timing)>,
    /// The encoding that was measured.
    pub profile: Profile,
    /// Disk that the bright-field question used.
    pub disk: BrightFieldDisk,
    /// Pixels of the bright-field mask.
    pub mask_pixels: usize,
    /// Kernel in use.
    pub kernel: &'static str,
    /// Threads in use.
    pub threads: usize,
    /// Bytes held by the resident.
    pub resident_bytes: u64,
    /// Whether the scalar kernel gives the same answers.
    pub equal: bool,
}

fn ms(from: Instant) -> f64 {
    from.elapsed().as_secs_f64() * 1e3
}

fn repeat(counts: u64, mut question: impl FnMut() -> Result<()>) -> Result<Timing> {
    let mut times = Vec::new();
    let begin = Instant::now();
    // At least 9 answers, and more of quick ones, within about a second and a half.
    while times.len() < 9 || (begin.elapsed().as_secs_f64() < 1.5 && times.len() < 200) {
        let start = Instant::now();
        question()?;
        times.push(ms(start));
    }
    times.sort_by(f64::total_cmp);
    let rank = |q: f64| times[((q * times.len() as f64).ceil() as usize).clamp(1, times.len()) - 1];
    Ok(Timing {
        p50_ms: rank(0.5),
        p95_ms: rank(0.95),
        max_ms: rank(1.0),
        counts_per_s: counts as f64 / rank(0.5) * 1e3,
    })
}

/// Loads a pack and puts the usual questions to it.
///
/// # Errors
/// Those of opening, loading and the products.
pub fn bench(path: &Path, task: &Task) -> Result<BenchReport> {
    let mut phases = Vec::new();
    let start = Instant::now();
    let pack = PackFile::open(path)?;
    phases.push(("metadata", ms(start)));
    let ready = Instant::now();
    let resident = Resident::load(&pack, task)?;
    phases.push(("resident_ready", ms(ready)));
    let first = Instant::now();
    resident.working_frame(0, 0)?;
    phases.push(("first_diffraction", ms(first)));
    let opened = crate::open(path, &OpenOptions::default())?;
    let disk = crate::bright_field_disk(&opened, &resident, task)?;
    drop::<Opened>(opened);
    let shape = resident.shape();
    let mask = VirtualDetector::BrightField.mask(&disk, shape.detector, resident.exclusions())?;
    let first = Instant::now();
    let image = resident.virtual_image(&mask, task)?;
    phases.push(("first_detector", ms(first)));

    let (positions, pixels) = (shape.scan.positions() as u64, shape.detector.pixels() as u64);
    let threads = stempack_engine::threads();
    let mut interaction = Vec::new();
    let selected = mask.count() as u64;
    interaction
        .push(("rebase", repeat(selected * positions, || resident.virtual_image(&mask, task).map(drop))?));
    let everything = DetectorMask::all(shape.detector, resident.exclusions())?;
    interaction.push((
        "total",
        repeat(everything.count() as u64 * positions, || {
            resident.virtual_image(&everything, task).map(drop)
        })?,
    ));
    let mut position = 0;
    interaction.push((
        "frame",
        repeat(pixels, || {
            position = (position + 7919) % shape.scan.positions();
            resident.working_frame(position / shape.scan.cols(), position % shape.scan.cols()).map(drop)
        })?,
    ));
    interaction.push(("mean", repeat(pixels * positions, || resident.pattern_sum(task).map(drop))?));
    interaction.push(("com", repeat(pixels * positions, || resident.moments(task).map(drop))?));
    let (kernel, resident_bytes) = (resident.report().kernel, resident.report().resident_bytes);
    let scalar = resident.with_kernel(Kernel::Scalar);
    let equal = scalar.virtual_image(&mask, task)? == image;
    Ok(BenchReport {
        phases_ms: phases,
        interaction,
        profile: pack.profile(),
        disk,
        mask_pixels: mask.count(),
        kernel,
        threads,
        resident_bytes,
        equal,
    })
}
