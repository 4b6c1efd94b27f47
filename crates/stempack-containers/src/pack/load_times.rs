//! What loading shards takes, phase by phase: counted always, for those who measure.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// A part of loading a shard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LoadPhase {
    /// Bytes from the file, straight to where they are kept or decoded from.
    Read,
    /// Widths or compact headers held to their rules.
    Headers,
    /// Tables put into the form in which they are asked.
    Descriptors,
    /// Blocks decompressed into the kept bitstream.
    Decode,
    /// Digests of bitstreams and tables.
    Integrity,
}

/// Time of each phase over all shards loaded so far, summed over threads.
#[derive(Debug, Default)]
pub struct LoadTimes([AtomicU64; 5]);

impl LoadTimes {
    /// Time of one phase.
    pub fn of(&self, phase: LoadPhase) -> Duration {
        Duration::from_nanos(self.0[phase as usize].load(Ordering::Relaxed))
    }
    /// Runs `work` and counts what it takes.
    pub(super) fn take<T>(&self, phase: LoadPhase, work: impl FnOnce() -> T) -> T {
        let start = Instant::now();
        let done = work();
        let nanos = u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX);
        self.0[phase as usize].fetch_add(nanos, Ordering::Relaxed);
        done
    }
}
