//! How fast `.qem` column streams are written and read, and how small they are, equality checked in the same run.
//!
//! `qem_speed RAW_U16 DETECTOR_ROWS DETECTOR_COLS [RUNS]`: RAW_U16 holds whole little-endian `u16` frames.
//! Speeds are per thread, by processor time, the best of all runs; set `RAYON_NUM_THREADS`.
#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a tool for developers that prints what it measures"
)]

use std::time::Instant;
use stempack_codecs::qem::columns::{Chunk, EncodedChunk, SpatialIndex, encode, spatial_index};
use stempack_codecs::qem::{BLOCK_SCANS, stream};
use stempack_model::{DetectorShape, Task};

/// Seconds that this process has computed, where the system says; other programs do not count.
fn computed() -> Option<f64> {
    let mut nanoseconds = 0;
    for thread in std::fs::read_dir("/proc/self/task").ok()? {
        let text = std::fs::read_to_string(thread.ok()?.path().join("schedstat")).ok()?;
        nanoseconds += text.split(' ').next()?.parse::<u64>().ok()?;
    }
    Some(nanoseconds as f64 / 1e9)
}

/// The least time of `runs`, of one thread.
fn least<T>(runs: usize, mut work: impl FnMut() -> T) -> (f64, T) {
    let mut best = f64::INFINITY;
    let mut last = None;
    for _ in 0..runs {
        let (start, before) = (Instant::now(), computed());
        last = Some(work());
        let elapsed = start.elapsed().as_secs_f64() * rayon::current_num_threads() as f64;
        let seconds = before.zip(computed()).map_or(elapsed, |(before, after)| after - before);
        best = best.min(seconds);
    }
    (best, last.unwrap())
}

fn main() {
    let args: Vec<String> = std::env::args().collect();
    let raw = std::fs::read(&args[1]).unwrap();
    let frames: Vec<u16> = raw.as_chunks().0.iter().map(|&b| u16::from_le_bytes(b)).collect();
    drop(raw);
    let detector = DetectorShape::new(args[2].parse().unwrap(), args[3].parse().unwrap()).unwrap();
    let runs = args.get(4).map_or(3, |n| n.parse().unwrap());
    let pixels = detector.pixels();
    let scans = frames.len() / pixels;
    let task = Task::new();
    let threads = rayon::current_num_threads();
    let per_core = |seconds: f64| frames.len() as f64 / seconds / 1e6;
    let valid = vec![true; pixels];
    let block = BLOCK_SCANS * pixels;

    let (seconds, chunks): (f64, Vec<EncodedChunk>) =
        least(runs, || frames.chunks(block).map(|f| encode(f, pixels, &task).unwrap()).collect());
    println!("{threads} threads, {scans} scan positions of {detector}");
    println!("encode        {:8.1} million counts/s per thread", per_core(seconds));
    let (index_seconds, indexes): (f64, Vec<SpatialIndex>) =
        least(runs, || frames.chunks(block).map(|f| spatial_index(f, detector, &valid)).collect());
    println!("spatial index {:8.1}", per_core(index_seconds));
    println!("both          {:8.1}", per_core(seconds + index_seconds));

    let offsets: Vec<Vec<u8>> =
        chunks.iter().map(|c| c.offsets.iter().flat_map(|v| v.to_le_bytes()).collect()).collect();
    let views: Vec<Chunk<'_>> = chunks
        .iter()
        .zip(&offsets)
        .zip(frames.chunks(block))
        .map(|((c, o), f)| {
            Chunk::new(f.len() / pixels, pixels, u16::MAX, &c.payload, o, &c.selectors).unwrap()
        })
        .collect();
    let mut out = vec![0u16; block];
    let (seconds, ()) = least(runs, || {
        for view in &views {
            view.decode(0..view.scans(), &mut out[..view.scans() * pixels], &task).unwrap();
        }
    });
    println!("decode        {:8.1}", per_core(seconds));
    for (view, frames) in views.iter().zip(frames.chunks(block)) {
        view.decode(0..view.scans(), &mut out[..frames.len()], &task).unwrap();
        assert!(out[..frames.len()] == *frames, "decoded counts differ");
    }
    let mut sums = vec![0; pixels];
    let (seconds, ()) = least(runs, || {
        sums.fill(0);
        views.iter().for_each(|view| view.pattern_sums(&mut sums, &task).unwrap());
    });
    println!("pattern sums  {:8.1}", per_core(seconds));
    let mut frame = vec![0u16; pixels];
    let (seconds, ()) = least(runs, || views[0].decode(7..8, &mut frame, &task).unwrap());
    println!("one frame     {:8.2} ms", seconds * 1e3);
    // The scalar reference on one chunk: what interleaving is worth, and whether it gives the same bytes.
    let start = Instant::now();
    let rows = &frames[..block.min(frames.len())];
    let mut column = Vec::new();
    for pixel in 0..pixels {
        column.clear();
        column.extend(rows[pixel..].iter().step_by(pixels));
        let (selector, bytes) = stream::encode(&column);
        let (start, end) = (chunks[0].offsets[pixel] as usize, chunks[0].offsets[pixel + 1] as usize);
        assert!(
            (selector, &bytes[..]) == (chunks[0].selectors[pixel], &chunks[0].payload[start..end]),
            "other bytes"
        );
    }
    println!("scalar encode {:8.1}", rows.len() as f64 / start.elapsed().as_secs_f64() / 1e6);

    let payload: usize = chunks.iter().map(|c| c.payload.len()).sum();
    let tables: usize = chunks.iter().map(|c| 4 * c.offsets.len() + c.selectors.len()).sum();
    let index: usize = indexes.iter().map(|i| 4 * i.words.len() + 8 * i.offsets.len() + i.widths.len()).sum();
    let whole = 2 * frames.len();
    println!(
        "payload {payload}, tables {tables}, index {index} bytes: {:.2}:1 against raw u16",
        whole as f64 / (payload + tables + index) as f64
    );
    let mut ways = [0usize; 5];
    for &selector in chunks.iter().flat_map(|c| &c.selectors) {
        ways[usize::from(selector.max(251) - 251)] += 1;
    }
    println!(
        "streams: {} models, {} sparse, {} zero, {} literal, {} constant",
        ways[0], ways[1], ways[2], ways[3], ways[4]
    );
}
