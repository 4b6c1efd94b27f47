//! How long an original takes to become a resident, beside decoding its frames and dropping them:
//! `original_resident FILE [THREADS] [RUNS]`. Prints one JSON document.
#![expect(clippy::print_stdout, clippy::unwrap_used, reason = "an example that prints what it measured")]

use std::sync::Arc;
use std::time::Instant;
use stempack::{FrameSource, OpenOptions, Products, Resident, Samples, Task, open_source};

/// Frames decoded at once: those of a block of planes, and those that are turned at once and that the caches may hold.
const WINDOWS: [usize; 2] = [512, 64];

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let threads = arguments.get(2).map_or(2, |t| t.parse().unwrap());
    let runs = arguments.get(3).map_or(3, |t| t.parse().unwrap());
    rayon::ThreadPoolBuilder::new().num_threads(threads).build_global().unwrap();
    let task = Task::new().with_memory_budget(8 << 30);
    let source: Arc<dyn FrameSource> = open_source(arguments[1].as_ref(), &OpenOptions::default()).unwrap();
    let acquisition = source.acquisition();
    let (pixels, frames) = (acquisition.detector.pixels(), acquisition.frame_count as usize);
    let mut samples = Samples::zeroed(acquisition.sample, WINDOWS[0] * pixels);
    let (mut decode, mut resident_ms, mut resident) = ([f64::INFINITY; 2], f64::INFINITY, None);
    for _ in 0..runs {
        for (window, decode) in WINDOWS.into_iter().zip(&mut decode) {
            let start = Instant::now();
            for first in (0..frames).step_by(window) {
                let count = window.min(frames - first) * pixels;
                source.read(first as u64, samples.head_mut(count), &task).unwrap();
            }
            *decode = decode.min(start.elapsed().as_secs_f64() * 1e3);
        }
        resident = None::<Resident>.or_else(|| {
            let start = Instant::now();
            let made = Resident::from_source(&source, &task).unwrap();
            resident_ms = resident_ms.min(start.elapsed().as_secs_f64() * 1e3);
            Some(made)
        });
    }
    let resident = resident.unwrap();
    resident.check_against(source.as_ref(), &task).unwrap();
    let [large, small] = decode;
    println!(
        "{{\"shape\":\"{}\",\"threads\":{threads},\"decode_ms\":{large},\"decode_small_windows_ms\":{small},\
         \"resident_ms\":{resident_ms},\"resident_to_decode\":{},\"resident_to_decode_small_windows\":{},\
         \"resident_bytes\":{},\"equal\":true}}",
        resident.shape(),
        resident_ms / large,
        resident_ms / small,
        resident.report().resident_bytes
    );
}
