//! Prints how fast an acquisition decodes: `decode_rate MASTER [WINDOW_FRAMES]`. Set RAYON_NUM_THREADS=1 for one core.
#![expect(clippy::print_stdout, reason = "printing is what it is for")]

use std::time::Instant;
use stempack_model::{Samples, Task};
use stempack_sources::OpenOptions;

fn main() -> stempack_model::Result<()> {
    let mut arguments = std::env::args_os().skip(1);
    let path = arguments.next().unwrap_or_else(|| "scan_master.h5".into());
    let window = arguments.next().and_then(|w| w.to_str()?.parse::<u64>().ok()).unwrap_or(512).max(1);
    let opened = Instant::now();
    let source = stempack_sources::open(path.as_ref(), &OpenOptions::default())?;
    let a = source.acquisition();
    println!(
        "{}: {} frames of {} {}, opened in {:.1} ms",
        a.label,
        a.frame_count,
        a.detector,
        a.sample,
        opened.elapsed().as_secs_f64() * 1e3
    );
    let task = Task::new();
    let frame_bytes = (a.detector.pixels() * a.sample.bytes()) as u64;
    // Outside the loop: the first pass alone pays for fresh pages.
    let mut samples = Samples::zeroed(a.sample, window.min(a.frame_count) as usize * a.detector.pixels());
    for pass in 1..=5 {
        let started = Instant::now();
        let mut first = 0;
        while first < a.frame_count {
            let count = window.min(a.frame_count - first);
            source.read(first, samples.head_mut(count as usize * a.detector.pixels()), &task)?;
            first += count;
        }
        let seconds = started.elapsed().as_secs_f64();
        let rate = (a.frame_count * frame_bytes) as f64 / seconds / 1e9;
        println!("pass {pass}: {rate:.2} GB/s decoded, {:.0} frames/s", a.frame_count as f64 / seconds);
    }
    Ok(())
}
