//! What a resident of floats takes and how fast it answers: `float_resident FILE [THREADS] [FOLDER]`.
//!
//! Answers are compared with those of the same products made frame by frame from the file, bit for bit, and images of
//! moved detectors with images summed anew; times are the least of several. With a FOLDER, the answers are written there
//! as plain little-endian doubles, for programs that share no code with this one. Prints one JSON document for each kernel.
#![expect(clippy::print_stdout, clippy::unwrap_used, reason = "an example that prints what it measured")]

use std::path::Path;
use std::sync::Arc;
use std::time::Instant;
use stempack::{
    Dark, DetectorMask, DetectorSession, FrameSource, Kernel, OpenOptions, Opened, Products, Resident, Task,
    open,
};

fn least(mut question: impl FnMut()) -> f64 {
    let begin = Instant::now();
    let (mut best, mut runs) = (f64::INFINITY, 0);
    while runs < 5 || (begin.elapsed().as_secs_f64() < 0.7 && runs < 300) {
        let start = Instant::now();
        question();
        best = best.min(start.elapsed().as_secs_f64());
        runs += 1;
    }
    best * 1e3
}

fn save(folder: &Path, name: &str, values: &[f64]) {
    let bytes: Vec<u8> = values.iter().flat_map(|v| v.to_le_bytes()).collect();
    std::fs::write(folder.join(name), bytes).unwrap();
}

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let threads = arguments.get(2).map_or(1, |t| t.parse().unwrap());
    rayon::ThreadPoolBuilder::new().num_threads(threads).build_global().unwrap();
    let task = Task::new().with_memory_budget(16 << 30);
    let opened = open(arguments[1].as_ref(), &OpenOptions::default()).unwrap();
    let source: Arc<dyn FrameSource> = match &opened {
        Opened::Original(source) => source.clone(),
        Opened::Qem(file) => file.clone(),
        Opened::Pack(_) => panic!("a packed file holds no floats"),
    };
    let by_frames = opened.frames(&task).unwrap();
    let shape = by_frames.shape();
    let (rows, cols) = (shape.detector.rows() as f64, shape.detector.cols() as f64);
    let disk = |row: f64, col: f64| {
        DetectorMask::disk(shape.detector, by_frames.exclusions(), row, col, rows * 41.0 / 192.0).unwrap()
    };
    let centre = (rows / 2.0 - 0.5, cols / 2.0 - 0.5);
    let (mask, moved) = (disk(centre.0, centre.1), disk(centre.0, centre.1 + 1.0));
    let expected = (
        by_frames.virtual_image(&mask, &task).unwrap(),
        by_frames.pattern_sum(&task).unwrap(),
        by_frames.moments(&task).unwrap(),
    );
    let samples = mask.count() as f64 * shape.scan.positions() as f64;
    for kernel in Kernel::available().into_iter().rev().filter(|&k| k != Kernel::Scalar) {
        let start = Instant::now();
        let resident = Resident::from_source(&source, &task).unwrap().with_kernel(kernel);
        let build_ms = start.elapsed().as_secs_f64() * 1e3;
        let found = (
            resident.virtual_image(&mask, &task).unwrap(),
            resident.pattern_sum(&task).unwrap(),
            resident.moments(&task).unwrap(),
        );
        let mut equal = found == expected;
        if kernel == Kernel::detect() {
            resident.check_against(source.as_ref(), &task).unwrap();
            if let Some(folder) = arguments.get(3) {
                let folder = Path::new(folder);
                save(folder, "bf.f64", &found.0.values.to_f64());
                save(folder, "mean.f64", &found.1.mean());
                save(folder, "com.f64", &found.2.center_of_mass().values);
            }
        }
        let resident = Arc::new(resident);
        let mut session = DetectorSession::new(resident.clone());
        let bf = least(|| {
            session.update(&mask, true, &task).unwrap();
        });
        let mut there = false;
        let (mut modes, mut changed) = (std::collections::BTreeSet::new(), 0);
        let step = least(|| {
            there = !there;
            let report = session.update(if there { &moved } else { &mask }, false, &task).unwrap();
            modes.insert(report.mode.as_str());
            changed = report.processed_pixels;
        });
        equal &=
            session.image() == resident.virtual_image(if there { &moved } else { &mask }, &task).unwrap();
        let mut position = 0;
        let frame = least(|| {
            position = (position + 7919) % shape.scan.positions();
            resident.working_frame(position / shape.scan.cols(), position % shape.scan.cols()).unwrap();
        });
        let mean = least(|| drop(resident.pattern_sum(&task).unwrap()));
        let com = least(|| drop(resident.moments(&task).unwrap()));
        let report = resident.report();
        println!(
            "{{\"shape\":\"{shape}\",\"threads\":{threads},\"kernel\":\"{}\",\"equal\":{equal},\"dark\":{},\
             \"build_ms\":{build_ms:.1},\"resident_bytes\":{},\"logical_bytes\":{},\"bf_pixels\":{},\"bf_ms\":{bf:.3},\
             \"bf_samples_per_s\":{:.0},\"moved_ms\":{step:.4},\"moved_pixels\":{changed},\"moved_modes\":\"{}\",\
             \"frame_ms\":{frame:.4},\"mean_ms\":{mean:.2},\"moments_ms\":{com:.2}}}",
            kernel.name(),
            Dark::saved(&opened).unwrap().is_some(),
            report.resident_bytes,
            report.logical_bytes,
            mask.count(),
            samples / bf * 1e3,
            modes.into_iter().collect::<Vec<_>>().join(" "),
        );
    }
}
