//! What reopening a pack takes, verified, beside SHA-256 of as many bytes: `reopen PACK [THREADS] [RUNS]`.
//!
//! Hashing is the work that cannot be left out: the yardstick is the library's hash of bytes that lie in memory, in one
//! thread, of as many bytes as the file has, divided by the threads. All are measured in turns and the least is taken.
//! Prints one JSON document.
#![expect(clippy::print_stdout, clippy::unwrap_used, reason = "an example that prints what it measured")]
#![expect(unsafe_code, reason = "maps the file that is measured")]

use std::sync::Arc;
use std::time::Instant;
use stempack_containers::Digest;
use stempack_containers::pack::{MappedPack, PackFile};
use stempack_engine::Resident;
use stempack_model::Task;
use stempack_products::Products;

fn timed<T>(best: &mut f64, work: impl FnOnce() -> T) -> T {
    let start = Instant::now();
    let done = work();
    *best = best.min(start.elapsed().as_secs_f64() * 1e3);
    done
}

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let number = |at: usize, default| arguments.get(at).map_or(default, |n| n.parse().unwrap());
    let (threads, runs) = (number(2, 2), number(3, 7));
    rayon::ThreadPoolBuilder::new().num_threads(threads).build_global().unwrap();
    let task = Task::new().with_memory_budget(8 << 30);
    let path = arguments[1].as_ref();
    let piece = vec![0x5a_u8; 1 << 20];
    let bytes = std::fs::metadata(path).unwrap().len();
    let (mut hash, mut copied, mut mapped) = (f64::INFINITY, f64::INFINITY, f64::INFINITY);
    let mut answers = Vec::new();
    let mut report = None;
    for _ in 0..runs {
        timed(&mut hash, || {
            for _ in 0..bytes.div_ceil(piece.len() as u64) {
                std::hint::black_box(Digest::of(&piece));
            }
        });
        let resident =
            timed(&mut copied, || Resident::load(&PackFile::open(path).unwrap(), &task).unwrap());
        answers.push(resident.pattern_sum(&task).unwrap());
        drop(resident);
        let resident = timed(&mut mapped, || {
            let pack = Arc::new(PackFile::open(path).unwrap());
            // SAFETY: nobody writes to the file that is measured.
            let map = Arc::new(unsafe { MappedPack::new(pack) }.unwrap());
            Resident::load_mapped(&map, &task).unwrap()
        });
        answers.push(resident.pattern_sum(&task).unwrap());
        report = Some(resident.report());
    }
    let report = report.unwrap();
    let at_best = hash / threads as f64;
    println!(
        "{}",
        serde_json::json!({
            "threads": threads, "file_bytes": bytes, "resident_bytes": report.resident_bytes,
            "mapped_bytes": report.mapped_bytes, "equal": answers.windows(2).all(|a| a[0] == a[1]),
            "sha256_ms": hash, "sha256_bytes_per_s": bytes as f64 / hash * 1e3,
            "copied_ms": copied, "mapped_ms": mapped,
            // Of the rate that all threads would reach if they did nothing but hash.
            "copied_of_sha256": at_best / copied, "mapped_of_sha256": at_best / mapped,
        })
    );
}
