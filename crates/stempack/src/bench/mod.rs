//! Measuring: how long a file takes to be ready, and how long each question takes afterwards.
//!
//! Times are wall-clock unless a phase says otherwise; that all answers are right is checked in the same run. A phase
//! that does not exist as work of its own has no time, and says why. Nothing here is a test.

mod equality;
mod residents;
mod streams;
mod system;

pub use system::{CacheReport, CacheState, Machine};

use crate::{
    BrightFieldDisk, Check, DetectorMask, Error, OpenOptions, Opened, Products, Result, Shape4, Task,
};
use std::path::Path;
use std::time::{Duration, Instant};
use stempack_containers::ContainerCode;
use stempack_products::VirtualDetector;

/// Phases in their order; every report has them all.
pub const PHASES: [&str; 14] = [
    "metadata",
    "whole_file_integrity",
    "source_read",
    "host_header_validation",
    "payload_integrity",
    "descriptor_preparation",
    "private_upload",
    "decode",
    "load",
    "resident_ready",
    "bright_field_disk",
    "first_diffraction",
    "first_detector",
    "arrange",
];

/// Repeated measurements of one question.
#[derive(Clone, Debug)]
pub struct Timing {
    /// Median, nearest rank.
    pub p50_ms: f64,
    /// 95th percentile, nearest rank.
    pub p95_ms: f64,
    /// Slowest.
    pub max_ms: f64,
    /// Answers that were measured.
    pub answers: usize,
    /// Counts that one answer takes into account, per second of the median.
    pub counts_per_s: f64,
}

/// One part of becoming ready.
#[derive(Clone, Debug, PartialEq)]
pub struct Phase {
    /// Stable name.
    pub name: &'static str,
    /// Milliseconds; `None` for what is no work of its own here.
    pub ms: Option<f64>,
    /// Why there is no time, or how it was taken.
    pub note: Option<&'static str>,
}

/// How to measure.
#[derive(Clone, Debug, Default)]
pub struct BenchOptions {
    /// How originals are opened.
    pub open: OpenOptions,
    /// Ask the operating system to forget the files before they are opened.
    pub drop_cache: bool,
    /// Load a pack through the map of its file, to which nothing may write meanwhile; refused of anything else.
    pub mapped: bool,
}

/// What was measured.
#[derive(Clone, Debug)]
pub struct BenchReport {
    /// `u8`, `u16`, `qem` or `original`.
    pub profile: &'static str,
    /// The four axes.
    pub shape: Shape4,
    /// Bytes of the files that were measured.
    pub file_bytes: u64,
    /// All of [`PHASES`], in their order.
    pub phases: Vec<Phase>,
    /// Questions put once everything is ready.
    pub interaction: Vec<(&'static str, Timing)>,
    /// How the moved detectors were updated: name of the way and how often it was taken.
    pub updates: Vec<(&'static str, usize)>,
    /// Disk that the detectors are made of.
    pub disk: BrightFieldDisk,
    /// Pixels of the bright-field mask.
    pub mask_pixels: usize,
    /// Kernel in use.
    pub kernel: &'static str,
    /// How the resident lay in memory when the questions were repeated; `None` where nothing is loaded as a whole.
    pub layout: Option<&'static str>,
    /// Threads in use.
    pub threads: usize,
    /// Bytes held by the resident; `None` where nothing is loaded as a whole.
    pub resident_bytes: Option<u64>,
    /// Bytes among them that lie in the map of the file when the resident is ready.
    pub mapped_bytes: Option<u64>,
    /// Largest resident set of this process when the first detector was ready.
    pub peak_ready_bytes: Option<u64>,
    /// Where the files were when they were opened.
    pub cache: CacheReport,
    /// What was compared with what, in this run.
    pub checks: Vec<Check>,
    /// What it was measured on.
    pub machine: Machine,
}

impl BenchReport {
    /// Whether every comparison agrees.
    pub fn equal(&self) -> bool {
        self.checks.iter().all(|c| c.ok)
    }
}

/// Opens a pack, a `.qem` file or an original, and puts the usual questions to it.
///
/// # Errors
/// Those of opening, loading and the products; `not_a_pack` for what cannot be mapped.
pub fn bench(path: &Path, options: &BenchOptions, task: &Task) -> Result<BenchReport> {
    // Opened once before anything is measured: to know all files that belong to it.
    let members = match crate::open(path, &options.open)? {
        Opened::Original(source) => source.acquisition().members.iter().map(|m| m.path.clone()).collect(),
        Opened::Pack(_) | Opened::Qem(_) => vec![path.to_owned()],
    };
    let cache = system::prepare(&members, options.drop_cache, task)?;
    let start = Instant::now();
    let opened = crate::open(path, &options.open)?;
    let metadata = ms(start.elapsed());
    match opened {
        Opened::Pack(pack) => residents::pack(&pack, options.mapped, metadata, cache, task),
        _ if options.mapped => Err(Error::new(
            ContainerCode::NotAPack,
            format!("`{}` is no pack; other files are not loaded as a whole and not mapped", path.display()),
        )),
        Opened::Qem(file) => streams::qem(&file, metadata, cache, task),
        Opened::Original(source) => streams::original(&source, metadata, cache, task),
    }
}

fn ms(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

/// Runs `work` and says how many milliseconds it took.
fn timed<T>(work: impl FnOnce() -> Result<T>) -> Result<(T, f64)> {
    let start = Instant::now();
    let done = work()?;
    Ok((done, ms(start.elapsed())))
}

/// The phases, all of them absent as long as nobody measures them.
struct Phases(Vec<Phase>);

impl Phases {
    fn new() -> Self {
        Phases(PHASES.iter().map(|&name| Phase { name, ms: None, note: None }).collect())
    }
    fn put(&mut self, name: &str, ms: Option<f64>, note: Option<&'static str>) {
        if let Some(phase) = self.0.iter_mut().find(|p| p.name == name) {
            (phase.ms, phase.note) = (ms, note);
        }
    }
    fn wall(&mut self, name: &str, ms: f64) {
        self.put(name, Some(ms), None);
    }
    fn absent(&mut self, names: &[&str], why: &'static str) {
        names.iter().for_each(|name| self.put(name, None, Some(why)));
    }
}

/// Takes the times of a question until there are at least 9 (of slow ones 3) within about a second and a half.
fn repeat(counts: u64, mut question: impl FnMut() -> Result<()>) -> Result<Timing> {
    let mut times = Vec::new();
    let begin = Instant::now();
    let wanted = |n: usize, spent: f64| n < 3 || (n < 9 && spent < 6.0) || (n < 200 && spent < 1.5);
    while wanted(times.len(), begin.elapsed().as_secs_f64()) {
        times.push(timed(&mut question)?.1);
    }
    Ok(timing(times, counts))
}

fn timing(mut times: Vec<f64>, counts: u64) -> Timing {
    times.sort_by(f64::total_cmp);
    let rank = |q: f64| times[((q * times.len() as f64).ceil() as usize).clamp(1, times.len()) - 1];
    Timing {
        p50_ms: rank(0.5),
        p95_ms: rank(0.95),
        max_ms: rank(1.0),
        answers: times.len(),
        counts_per_s: counts as f64 / rank(0.5) * 1e3,
    }
}

/// The masks that questions are asked with.
struct Masks {
    bright: DetectorMask,
    everything: DetectorMask,
    /// The bright field and the annular dark field on their way: each mask is one pixel from the one before, and the
    /// last one pixel from the first.
    drag: Vec<DetectorMask>,
    annular_drag: Vec<DetectorMask>,
}

impl Masks {
    fn of(disk: &BrightFieldDisk, products: &dyn Products) -> Result<Self> {
        let (detector, exclusions) = (products.shape().detector, products.exclusions());
        let moved = |kind: VirtualDetector| -> Result<Vec<DetectorMask>> {
            [(0.0, 0.0), (0.0, 1.0), (1.0, 1.0), (1.0, 0.0)]
                .iter()
                .map(|(row, col)| {
                    let mut disk = *disk;
                    disk.centre_row += row;
                    disk.centre_col += col;
                    kind.mask(&disk, detector, exclusions)
                })
                .collect()
        };
        let drag = moved(VirtualDetector::BrightField)?;
        Ok(Masks {
            bright: drag[0].clone(),
            everything: DetectorMask::all(detector, exclusions)?,
            drag,
            // A disk that fills the detector leaves no room for an annulus around it.
            annular_drag: moved(VirtualDetector::AnnularDarkField).unwrap_or_default(),
        })
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn ranks_are_nearest_ranks() {
        let t = super::timing((1..=20).rev().map(f64::from).collect(), 10);
        assert_eq!((t.p50_ms, t.p95_ms, t.max_ms, t.answers), (10.0, 19.0, 20.0, 20));
        assert!((t.counts_per_s - 1000.0).abs() < 1e-9);
    }
}
