//! Dragging detectors over a large scan: `drag PACK ROWS COLS [THREADS]`.
//!
//! The scan positions of PACK are repeated until a scan of ROWS × COLS is full, read as an original without a file. A
//! bright-field disk and an annular dark-field ring then follow a path of one-pixel steps. Every hundredth image and the
//! last are compared with summing anew. Prints one JSON document.
#![expect(clippy::print_stdout, clippy::unwrap_used, reason = "an example that prints what it measured")]

use std::sync::Arc;
use std::time::Instant;
use stempack_containers::pack::{PackFile, PackSource};
use stempack_engine::{DetectorSession, Resident};
use stempack_model::{Acquisition, FrameSource, MemberDigest, Result, SamplesMut, ScanShape, Task};
use stempack_products::{DetectorMask, Products};

/// A pack's frames, again and again.
struct Repeated {
    acquisition: Acquisition,
    resident: Resident,
}

impl FrameSource for Repeated {
    fn acquisition(&self) -> &Acquisition {
        &self.acquisition
    }
    fn read(&self, first_frame: u64, into: SamplesMut<'_>, task: &Task) -> Result<()> {
        let pixels = self.acquisition.detector.pixels();
        let there = self.resident.shape().scan.positions();
        let mut position = first_frame as usize % there;
        let mut rest = into;
        while !rest.is_empty() {
            let count = (there - position).min(rest.len() / pixels);
            let (head, tail) = rest.split_at(count * pixels);
            self.resident.raw_positions(position as u64, head, task)?;
            (rest, position) = (tail, 0);
        }
        Ok(())
    }
    fn digest_members(&self, _: &Task) -> Result<Vec<MemberDigest>> {
        Ok(Vec::new())
    }
    fn check_unchanged(&self) -> Result<()> {
        Ok(())
    }
}

type MaskAt<'a> = dyn Fn(f64, f64) -> Result<DetectorMask> + 'a;

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let (rows, cols) = (arguments[2].parse().unwrap(), arguments[3].parse().unwrap());
    let threads = arguments.get(4).map_or(2, |t| t.parse().unwrap());
    rayon::ThreadPoolBuilder::new().num_threads(threads).build_global().unwrap();
    let task = Task::new().with_memory_budget(16 << 30);
    let pack = Arc::new(PackFile::open(arguments[1].as_ref()).unwrap());
    let mut acquisition = PackSource::new(pack.clone()).unwrap().acquisition().clone();
    let scan = ScanShape::new(rows, cols).unwrap();
    if let Some(evidence) = &mut acquisition.scan {
        evidence.shape = scan;
    }
    acquisition.frame_count = scan.positions() as u64;
    let resident = Resident::load(&pack, &task).unwrap();
    resident.arrange(&task).unwrap();
    let source: Arc<dyn FrameSource> = Arc::new(Repeated { acquisition, resident });
    let resident = Arc::new(Resident::from_source(&source, &task).unwrap());
    drop(source);
    let (shape, report) = (resident.shape(), resident.report());
    let excluded = resident.exclusions();
    let size = shape.detector.rows() as f64;
    let bright =
        |row: f64, col: f64| DetectorMask::disk(shape.detector, excluded, row, col, size * 41.0 / 192.0);
    let ring = |row: f64, col: f64| {
        DetectorMask::annulus(shape.detector, excluded, row, col, size * 41.0 / 192.0, size * 84.0 / 192.0)
    };
    let mut drags = serde_json::Map::new();
    for (name, mask_at) in [("bf", &bright as &MaskAt<'_>), ("adf", &ring)] {
        let mut session = DetectorSession::new(resident.clone());
        session.prepare_total(&task).unwrap();
        let centre = (size / 2.0 - 0.5, shape.detector.cols() as f64 / 2.0 - 0.5);
        let start = Instant::now();
        session.update(&mask_at(centre.0, centre.1).unwrap(), true, &task).unwrap();
        let rebase_ms = start.elapsed().as_secs_f64() * 1e3;
        // A square spiral of one-pixel steps around the centre.
        let (mut row, mut col) = centre;
        let (mut times, mut equal) = (Vec::new(), true);
        let (mut direction, mut side, mut left) = (0, 1, 1);
        while times.len() < 600 {
            let (dr, dc) = [(0.0, 1.0), (1.0, 0.0), (0.0, -1.0), (-1.0, 0.0)][direction % 4];
            (row, col) = (row + dr, col + dc);
            left -= 1;
            if left == 0 {
                direction += 1;
                side += 1;
                left = side / 2 + 1;
            }
            let start = Instant::now();
            let mask = mask_at(row, col).unwrap();
            session.update(&mask, false, &task).unwrap();
            times.push(start.elapsed().as_secs_f64() * 1e3);
            if times.len().is_multiple_of(100) {
                let anew = resident.virtual_image(&mask, &task).unwrap();
                equal &= anew.values.to_u64().as_deref() == session.sums();
            }
        }
        let total: f64 = times.iter().sum();
        times.sort_by(f64::total_cmp);
        let rank = |q: f64| times[(q * times.len() as f64).ceil() as usize - 1];
        drags.insert(
            name.to_owned(),
            serde_json::json!({
                "mask_pixels": mask_at(centre.0, centre.1).unwrap().count(),
                "updates": times.len(), "updates_per_s": times.len() as f64 / total * 1e3,
                "p50_ms": rank(0.5), "p95_ms": rank(0.95), "max_ms": rank(1.0),
                "rebase_ms": rebase_ms, "equal": equal,
            }),
        );
    }
    println!(
        "{}",
        serde_json::json!({
            "scan": [rows, cols], "detector": [shape.detector.rows(), shape.detector.cols()],
            "threads": threads, "kernel": report.kernel, "layout": report.layout,
            "resident_bytes": report.resident_bytes, "logical_bytes": report.logical_bytes, "drag": drags,
        })
    );
}
