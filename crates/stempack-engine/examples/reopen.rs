//! What reopening a pack takes, verified, beside SHA-256 of as many bytes: `reopen PACK [THREADS] [RUNS]`.
//!
//! Hashing is the work that cannot be left out: the yardstick is the library's hash of bytes that lie in memory, in one
//! thread, of as many bytes as the file has, divided by the threads. All are measured in turns; of each the least and the
//! median are given. Prints one JSON document.
#![expect(clippy::print_stdout, clippy::unwrap_used, reason = "an example that prints what it measured")]
#![expect(unsafe_code, reason = "maps the file that is measured")]

use std::sync::Arc;
use std::time::Instant;
use stempack_containers::Digest;
use stempack_containers::pack::{MappedPack, PackFile};
use stempack_engine::Resident;
use stempack_model::Task;
use stempack_products::Products;

fn timed<T>(times: &mut Vec<f64>, work: impl FnOnce() -> T) -> T {
    let start = Instant::now();
    let done = work();
    times.push(start.elapsed().as_secs_f64() * 1e3);
    done
}

/// The least and the median.
fn summary(mut times: Vec<f64>) -> [f64; 2] {
    times.sort_by(f64::total_cmp);
    [times[0], times[times.len() / 2]]
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
    let (mut hash, mut copied, mut mapped) = (Vec::new(), Vec::new(), Vec::new());
    let mut answers = Vec::new();
    let mut report = None;
    for _ in 0..runs {
        timed(&mut hash, || {
            for _ in 0..bytes.div_ceil(piece.len() as u64) {
                std::hint::black_box(Digest::of(&piece));
            }
        });
        let resident = timed(&mut copied, || Resident::load(&PackFile::open(path).unwrap(), &task).unwrap());
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
    let [hash, copied, mapped] = [hash, copied, mapped].map(summary);
    // What all threads would take if they did nothing but hash.
    let of_hash = |times: [f64; 2]| [0, 1].map(|k| hash[k] / threads as f64 / times[k]);
    println!(
        "{}",
        serde_json::json!({
            "threads": threads, "file_bytes": bytes, "resident_bytes": report.resident_bytes,
            "mapped_bytes": report.mapped_bytes, "equal": answers.windows(2).all(|a| a[0] == a[1]),
            "profile": PackFile::open(path).unwrap().profile().as_str(),
            "sha256_bytes_per_s": bytes as f64 / hash[0] * 1e3,
            "sha256_ms": hash, "copied_ms": copied, "mapped_ms": mapped,
            "copied_of_sha256": of_hash(copied), "mapped_of_sha256": of_hash(mapped),
        })
    );
}
