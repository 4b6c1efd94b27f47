//! Planning a production: shard size, memory and disk, before anything is written.

use super::index::index_bytes;
use crate::ContainerCode;
use stempack_codecs::pack_u8::header_words_per_pixel;
use stempack_codecs::shard::{MAX_PAYLOAD_WORDS, Profile};
use stempack_model::{Acquisition, Error, ModelCode, Result, SampleType, Shape4, Task};

/// Which profile to pack into.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ProfileChoice {
    /// u8 where it can be proven exact, else u16.
    #[default]
    Auto,
    /// u8 or refuse.
    U8,
    /// u16 or refuse.
    U16,
}

/// How to pack.
#[derive(Clone, Debug, Default)]
pub struct PackOptions {
    /// Which profile.
    pub profile: ProfileChoice,
    /// Replace an existing destination.
    pub force: bool,
    /// Time of completion for the receipt (ISO 8601, UTC). The clock belongs to the caller, so that receipts are
    /// reproducible.
    pub completed_utc: String,
}

/// What a production will take.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// The profile this plan is for.
    pub profile: Profile,
    /// Why.
    pub reason: String,
    /// Scan positions per shard.
    pub scans_per_shard: usize,
    /// Number of shards.
    pub shard_count: usize,
    /// Tiles decoded at a time.
    pub window_tiles: usize,
    /// Shards that may be in memory at once: one being encoded and, if two, one being written.
    pub shards_in_flight: usize,
    /// Whether windows are read, packed and hashed at the same time.
    pub overlap: bool,
    /// Largest memory the production may take, in bytes.
    pub peak_bytes: u64,
    /// Largest packed size, in bytes: every width at its maximum.
    pub packed_maximum_bytes: u64,
    /// Largest container, in bytes.
    pub output_maximum_bytes: u64,
    /// Largest receipt, in bytes.
    pub receipt_maximum_bytes: u64,
    /// Reserved user block.
    pub user_block_bytes: u64,
}

/// Smallest user block, for byte parity with public producers.
const MIN_USER_BLOCK: u64 = 64 << 10;
/// Shards at most: keeps index and HDF5 groups small.
const MAX_SHARDS: usize = 1 << 16;
/// Scans per shard when nothing argues for another size, as public producers choose it.
const USUAL_SHARD: usize = 4096;
/// What the program itself takes: code, libraries, thread stacks, file tables.
const FIXED_BYTES: u64 = 24 << 20;

impl Plan {
    /// Windows in memory at once.
    pub(super) fn windows(&self) -> usize {
        windows(self.overlap)
    }
}

/// With overlap one window is read, one packed and one hashed at the same time, and one waits, so that neither side stops
/// for the other.
fn windows(overlap: bool) -> usize {
    if overlap { 4 } else { 1 }
}

/// Plans packing `acquisition` into `profile` within the task's memory budget.
///
/// # Errors
/// `missing_scan_shape`, `scan_count_not_supported`, `no_shard_size`, `over_budget`.
pub fn plan(acquisition: &Acquisition, profile: Profile, reason: &str, task: &Task) -> Result<Plan> {
    let shape = acquisition.shape().ok_or_else(|| {
        Error::new(
            ContainerCode::NoScanShape,
            format!(
                "scan shape of `{}` with {} frames is not known",
                acquisition.label, acquisition.frame_count
            ),
        )
        .hint("state it with --scan ROWSxCOLS")
    })?;
    if acquisition.sample.is_float() {
        return Err(Error::new(
            ContainerCode::FloatSamples,
            format!("`{}` has {} samples, packs hold integers", acquisition.label, acquisition.sample),
        )
        .hint("save it as `.qem`, which keeps every float bit"));
    }
    let positions = shape.scan.positions();
    if profile == Profile::U8 && !positions.is_multiple_of(profile.tile_scans()) {
        return Err(Error::new(
            ContainerCode::ScanCount,
            format!("{positions} scan positions are no multiple of 32, which the u8 profile needs"),
        )
        .hint("pack with --profile u16"));
    }
    let request =
        Request { shape, profile, sample: acquisition.sample, excluded: acquisition.excluded.pixels.len() };
    let mut best: Option<(Candidate, u64)> = None;
    let mut smallest = u64::MAX;
    for scans in divisors(positions) {
        if profile == Profile::U8 && !scans.is_multiple_of(profile.tile_scans()) {
            continue;
        }
        if positions / scans > MAX_SHARDS || request.payload_words(scans) > MAX_PAYLOAD_WORDS {
            continue;
        }
        for (in_flight, overlap, windows) in [(2, true, 4), (2, true, 1), (1, true, 1), (1, false, 1)] {
            let candidate =
                Candidate { scans, in_flight, overlap, window_tiles: request.window(scans, windows) };
            let bytes = request.memory(&candidate);
            smallest = smallest.min(bytes);
            if bytes <= task.memory_budget() {
                if best.as_ref().is_none_or(|(b, _)| request.better(&candidate, b)) {
                    best = Some((candidate, bytes));
                }
                break;
            }
        }
    }
    let Some((chosen, peak_bytes)) = best else {
        return Err(if smallest == u64::MAX {
            Error::new(
                ContainerCode::NoShardSize,
                format!(
                    "{positions} scan positions of {} pixels have no divisor whose shard stays below 2^27 words and \
                     {MAX_SHARDS} shards",
                    shape.detector.pixels()
                ),
            )
        } else {
            Error::new(
                ModelCode::OverBudget,
                format!(
                    "packing needs at least {smallest} bytes of memory, the budget is {}",
                    task.memory_budget()
                ),
            )
            .hint("allow more with --max-memory")
            .with("needed_bytes", smallest)
        });
    };
    let shard_count = positions / chosen.scans;
    let packed_maximum_bytes = shard_count as u64 * request.stored_maximum(chosen.scans);
    let user_block_bytes = request.user_block(shard_count);
    Ok(Plan {
        profile,
        reason: reason.to_owned(),
        scans_per_shard: chosen.scans,
        shard_count,
        window_tiles: chosen.window_tiles,
        shards_in_flight: chosen.in_flight,
        overlap: chosen.overlap,
        peak_bytes,
        packed_maximum_bytes,
        // 4 MiB and 64 KiB per shard are what the public producer allows for HDF5 structure and alignment.
        output_maximum_bytes: user_block_bytes
            + packed_maximum_bytes
            + (4 << 20)
            + (64 << 10) * shard_count as u64,
        receipt_maximum_bytes: receipt_maximum(acquisition, shard_count),
        user_block_bytes,
    })
}

/// 1 MiB, 1 KiB for each shard and member, and the members' paths: what the public producer allows.
fn receipt_maximum(acquisition: &Acquisition, shards: usize) -> u64 {
    let members = &acquisition.members;
    let paths: usize = members.iter().map(|m| m.path.as_os_str().len()).sum();
    (1 << 20) + 1024 * (shards + members.len()) as u64 + paths as u64
}

impl Plan {
    /// Largest space on disk that container and receipt take together.
    pub fn disk_maximum_bytes(&self) -> u64 {
        self.output_maximum_bytes + self.receipt_maximum_bytes
    }
}

struct Request {
    shape: Shape4,
    profile: Profile,
    sample: SampleType,
    excluded: usize,
}

struct Candidate {
    scans: usize,
    in_flight: usize,
    overlap: bool,
    window_tiles: usize,
}

impl Request {
    fn pixels(&self) -> u64 {
        self.shape.detector.pixels() as u64
    }
    fn tiles(&self, scans: usize) -> u64 {
        scans.div_ceil(self.profile.tile_scans()) as u64
    }
    /// Words when every tile has its maximum width. In the u8 profile excluded pixels have none.
    fn payload_words(&self, scans: usize) -> u64 {
        let stored = match self.profile {
            Profile::U8 => self.pixels() - self.excluded as u64,
            Profile::U16 => self.pixels(),
        };
        stored
            * self.tiles(scans)
            * (self.profile.bytes_per_width() / 4) as u64
            * u64::from(self.profile.max_width())
    }
    fn stored_maximum(&self, scans: usize) -> u64 {
        let payload = 4 * self.payload_words(scans);
        match self.profile {
            Profile::U8 => {
                payload + 4 * self.pixels() * header_words_per_pixel(self.tiles(scans) as usize) as u64
            }
            // 130 bytes and a length for every 128, and a width for every tile.
            Profile::U16 => payload / 128 * 131 + self.pixels() * self.tiles(scans),
        }
    }
    fn window(&self, scans: usize, tiles: usize) -> usize {
        tiles.min(self.tiles(scans) as usize)
    }
    /// Largest memory: encoded tiles and tables of the shards in flight, decoded windows, pieces in hand.
    fn memory(&self, c: &Candidate) -> u64 {
        let payload = 4 * self.payload_words(c.scans);
        let tables = self.pixels() * self.tiles(c.scans) * 2;
        let (compressed, working, raw) = match self.profile {
            Profile::U8 => (0, 1, if self.sample == SampleType::U16 { 0 } else { 2 }),
            Profile::U16 => (payload / 128 * 131, 2, if self.sample == SampleType::U16 { 0 } else { 2 }),
        };
        let shards = c.in_flight as u64 * (payload + tables) + compressed + tables;
        let scans = (c.window_tiles * self.profile.tile_scans()).min(c.scans) as u64;
        let windows =
            windows(c.overlap) as u64 * scans * self.pixels() * (self.sample.bytes() as u64 + working + raw);
        FIXED_BYTES + shards + windows
    }
    /// Unused samples of the last tile per used one; zero in the u8 profile.
    fn waste(&self, scans: usize) -> f64 {
        (self.tiles(scans) as usize * self.profile.tile_scans()) as f64 / scans as f64 - 1.0
    }
    /// In the u16 profile prefers little waste, then the usual shard size or the next best on either side of it, then more overlap.
    fn better(&self, a: &Candidate, b: &Candidate) -> bool {
        if self.profile == Profile::U8 {
            // As public producers choose it, so that files are the same: the largest that is not above the usual size.
            return match (a.scans <= USUAL_SHARD, b.scans <= USUAL_SHARD) {
                (true, true) => a.scans > b.scans,
                (false, false) => a.scans < b.scans,
                (usual, _) => usual,
            };
        }
        let tolerable = |c: &Candidate| self.waste(c.scans) <= 0.07;
        match (tolerable(a), tolerable(b)) {
            (true, false) => return true,
            (false, true) => return false,
            (false, false) => return self.waste(a.scans) < self.waste(b.scans),
            (true, true) => {}
        }
        let distance = |c: &Candidate| (c.scans as f64 / USUAL_SHARD as f64).log2().abs();
        distance(a) < distance(b)
    }
    /// Prelude, the largest manifest and the index, rounded up to what HDF5 allows as a user block.
    fn user_block(&self, shards: usize) -> u64 {
        let (excluded, shards64) = (self.excluded as u64, shards as u64);
        // A fixed part, two numbers of up to eleven digits per excluded pixel and its constants, and a shard entry.
        let manifest = 8192 + 40 * excluded + if self.profile == Profile::U16 { 800 * shards64 } else { 0 };
        let content = 24 + manifest + 8 + index_bytes(self.profile, self.excluded, shards);
        content.next_power_of_two().max(MIN_USER_BLOCK)
    }
}

fn divisors(n: usize) -> Vec<usize> {
    let mut small = Vec::new();
    let mut large = Vec::new();
    let mut d = 1;
    while d * d <= n {
        if n.is_multiple_of(d) {
            small.push(d);
            large.push(n / d);
        }
        d += 1;
    }
    small.extend(large.into_iter().rev());
    small.dedup();
    small
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(scan: (u64, u64), detector: (u64, u64), profile: Profile) -> Request {
        Request {
            shape: Shape4 {
                scan: stempack_model::ScanShape::new(scan.0, scan.1).unwrap(),
                detector: stempack_model::DetectorShape::new(detector.0, detector.1).unwrap(),
            },
            profile,
            sample: SampleType::U16,
            excluded: 3,
        }
    }

    #[test]
    fn divisors_are_complete() {
        assert_eq!(divisors(1), [1]);
        assert_eq!(divisors(36), [1, 2, 3, 4, 6, 9, 12, 18, 36]);
        assert_eq!(divisors(97), [1, 97]);
    }

    #[test]
    fn the_usual_shard_is_preferred() {
        let r = request((512, 512), (192, 192), Profile::U8);
        let c = |scans| Candidate { scans, in_flight: 1, overlap: false, window_tiles: 1 };
        assert!(r.better(&c(4096), &c(2048)) && r.better(&c(4096), &c(8192)));
        assert!(r.better(&c(32), &c(8224)) && r.better(&c(8192), &c(16384)));
        // 127 × 131 positions: 131 scans waste almost a whole tile, all 16,637 of them almost nothing.
        let r = request((127, 131), (64, 64), Profile::U16);
        assert!(r.better(&c(16637), &c(131)));
    }
}
