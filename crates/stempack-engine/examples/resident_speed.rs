//! What questions to a resident take, in both forms and with every kernel: `resident_speed PACK [THREADS]`.
//!
//! Every answer is compared with the first form's; times are the least of several. Prints one JSON document for each form.
#![expect(clippy::print_stdout, clippy::unwrap_used, reason = "an example that prints what it measured")]

use std::sync::Arc;
use std::time::Instant;
use stempack_containers::pack::PackFile;
use stempack_engine::cpu::Kernel;
use stempack_engine::{DetectorSession, Resident};
use stempack_model::Task;
use stempack_products::{DetectorMask, Products};

fn least(mut question: impl FnMut()) -> f64 {
    let begin = Instant::now();
    let mut best = f64::INFINITY;
    let mut runs = 0;
    while runs < 5 || (begin.elapsed().as_secs_f64() < 1.0 && runs < 300) {
        let start = Instant::now();
        question();
        best = best.min(start.elapsed().as_secs_f64());
        runs += 1;
    }
    best * 1e3
}

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let threads = arguments.get(2).map_or(1, |t| t.parse().unwrap());
    rayon::ThreadPoolBuilder::new().num_threads(threads).build_global().unwrap();
    let task = Task::new().with_memory_budget(8 << 30);
    let pack = PackFile::open(arguments[1].as_ref()).unwrap();
    let mut answers = None;
    for (kernel, arranged) in Kernel::available()
        .into_iter()
        .rev()
        .filter(|&k| k != Kernel::Scalar)
        .flat_map(|k| [(k, true), (k, false)])
        .filter(|&(k, arranged)| arranged || k.name() == "avx2")
    {
        let start = Instant::now();
        let resident = Resident::load(&pack, &task).unwrap().with_kernel(kernel);
        let loaded = start.elapsed().as_secs_f64() * 1e3;
        let packed_bytes = resident.report().resident_bytes;
        let start = Instant::now();
        if arranged {
            resident.arrange(&task).unwrap();
        }
        let rearranged = start.elapsed().as_secs_f64() * 1e3;
        let shape = resident.shape();
        let (rows, cols) = (shape.detector.rows() as f64, shape.detector.cols() as f64);
        let disk = |row: f64, col: f64| {
            DetectorMask::disk(shape.detector, resident.exclusions(), row, col, rows * 41.0 / 192.0).unwrap()
        };
        let centre = (rows / 2.0 - 0.5, cols / 2.0 - 0.5);
        let mask = disk(centre.0, centre.1);
        let moved = disk(centre.0, centre.1 + 1.0);
        let resident = Arc::new(resident);
        let answer = (
            resident.virtual_image(&mask, &task).unwrap(),
            resident.pattern_sum(&task).unwrap(),
            resident.moments(&task).unwrap(),
            resident.working_frame(shape.scan.rows() / 2, 1).unwrap(),
        );
        let equal = answers.get_or_insert_with(|| answer.clone()) == &answer;
        let counts = mask.count() as f64 * shape.scan.positions() as f64;
        let mut session = DetectorSession::new(resident.clone());
        let bf = least(|| {
            session.update(&mask, true, &task).unwrap();
        });
        let mut there = false;
        let step = least(|| {
            there = !there;
            session.update(if there { &moved } else { &mask }, false, &task).unwrap();
        });
        let mut position = 0;
        let frame = least(|| {
            position = (position + 7919) % shape.scan.positions();
            resident.working_frame(position / shape.scan.cols(), position % shape.scan.cols()).unwrap();
        });
        let mean = least(|| drop(resident.pattern_sum(&task).unwrap()));
        let com = least(|| drop(resident.moments(&task).unwrap()));
        let report = resident.report();
        println!(
            "{}",
            serde_json::json!({
                "profile": pack.profile().as_str(), "scan": shape.scan.to_string(), "detector": shape.detector.to_string(),
                "threads": threads, "layout": report.layout, "kernel": kernel.name(), "equal": equal,
                "load_ms": loaded, "arrange_ms": rearranged,
                "packed_bytes": packed_bytes, "resident_bytes": report.resident_bytes,
                "bf_pixels": mask.count(), "bf_ms": bf, "bf_counts_per_s": counts / bf * 1e3,
                "moved_ms": step, "frame_ms": frame, "mean_ms": mean, "moments_ms": com,
                "moved_to_bf": step / bf, "frame_to_bf": frame / bf,
                // What a BF would take if it summed every pixel.
                "mean_to_bf_of_all_pixels": mean / (bf * rows * cols / mask.count() as f64),
                "moments_to_bf_of_all_pixels": com / (bf * rows * cols / mask.count() as f64),
            })
        );
    }
}
