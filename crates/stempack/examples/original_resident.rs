//! How long an original takes to become a resident, beside decoding its frames and dropping them:
//! `original_resident FILE [THREADS] [RUNS]`. Prints one JSON document.
#![expect(clippy::print_stdout, clippy::unwrap_used, reason = "an example that prints what it measured")]

use std::sync::Arc;
use std::time::Instant;
use stempack::{FrameSource, OpenOptions, Products, Resident, Samples, Task, open_source};

/// Frames decoded at once: those of a block of planes.
const WINDOW: usize = 512;

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let threads = arguments.get(2).map_or(2, |t| t.parse().unwrap());
    let runs = arguments.get(3).map_or(3, |t| t.parse().unwrap());
    rayon::ThreadPoolBuilder::new().num_threads(threads).build_global().unwrap();
    let task = Task::new().with_memory_budget(8 << 30);
    let source: Arc<dyn FrameSource> = open_source(arguments[1].as_ref(), &OpenOptions::default()).unwrap();
    let acquisition = source.acquisition();
    let (pixels, frames) = (acquisition.detector.pixels(), acquisition.frame_count as usize);
    let mut window = Samples::zeroed(acquisition.sample, WINDOW * pixels);
    let (mut decode, mut resident_ms, mut resident) = (f64::INFINITY, f64::INFINITY, None);
    for _ in 0..runs {
        let start = Instant::now();
        for first in (0..frames).step_by(WINDOW) {
            let count = WINDOW.min(frames - first) * pixels;
            source.read(first as u64, window.head_mut(count), &task).unwrap();
        }
        decode = decode.min(start.elapsed().as_secs_f64() * 1e3);
        resident = None::<Resident>.or_else(|| {
            let start = Instant::now();
            let made = Resident::from_source(&source, &task).unwrap();
            resident_ms = resident_ms.min(start.elapsed().as_secs_f64() * 1e3);
            Some(made)
        });
    }
    let resident = resident.unwrap();
    resident.check_against(source.as_ref(), &task).unwrap();
    println!(
        "{{\"shape\":\"{}\",\"threads\":{threads},\"decode_ms\":{decode},\"resident_ms\":{resident_ms},\
         \"resident_to_decode\":{},\"resident_bytes\":{},\"equal\":true}}",
        resident.shape(),
        resident_ms / decode,
        resident.report().resident_bytes
    );
}
