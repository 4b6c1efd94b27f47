//! What the operating system says: where files were, how much memory was taken, what machine this is.

use crate::{Error, Result, Task};
use std::fs::File;
use std::io::Read;
use std::path::PathBuf;

/// Where a file's bytes were when it was opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CacheState {
    /// In the operating system's cache: everything had been read, and storage gave nothing while it was loaded.
    Warm,
    /// Not there: it was asked to forget the files, and storage gave their bytes while they were loaded.
    Dropped,
    /// Nothing proves either.
    Unknown,
}

impl CacheState {
    /// The name used in reports.
    pub fn as_str(self) -> &'static str {
        match self {
            CacheState::Warm => "warm",
            CacheState::Dropped => "dropped",
            CacheState::Unknown => "unknown",
        }
    }
}

/// Where the files were, and how that is known.
#[derive(Clone, Debug)]
pub struct CacheReport {
    /// The state.
    pub state: CacheState,
    /// How it is known, or why it is not.
    pub detail: String,
    dropped: bool,
    before: Option<u64>,
}

/// Reads every file once, or asks the system to forget them all.
pub(super) fn prepare(files: &[PathBuf], drop_cache: bool, task: &Task) -> Result<CacheReport> {
    let mut asked = true;
    for path in files {
        let mut file = File::open(path).map_err(|e| Error::io("open", path, e))?;
        if drop_cache {
            asked &= forget(&file);
            continue;
        }
        let mut piece = vec![0; 1 << 20];
        while file.read(&mut piece).map_err(|e| Error::io("read", path, e))? > 0 {
            task.check()?;
        }
    }
    Ok(CacheReport {
        state: CacheState::Unknown,
        detail: if asked { String::new() } else { "this system cannot be asked to forget a file".into() },
        dropped: drop_cache && asked,
        before: if asked { read_from_storage() } else { None },
    })
}

#[cfg(target_os = "linux")]
fn forget(file: &File) -> bool {
    // What is not yet on the disk stays in the cache.
    file.sync_all().is_ok() && rustix::fs::fadvise(file, 0, None, rustix::fs::Advice::DontNeed).is_ok()
}

#[cfg(not(target_os = "linux"))]
fn forget(_file: &File) -> bool {
    false
}

impl CacheReport {
    /// To be called when `bytes` have been loaded: storage tells by then where they came from.
    pub(super) fn judge(&mut self, bytes: u64) {
        let read = self.before.zip(read_from_storage()).map(|(before, now)| now.saturating_sub(before));
        let Some(read) = read else {
            if self.detail.is_empty() {
                self.detail = "this system does not say what was read from storage".into();
            }
            return;
        };
        // Headers and what lies between the arrays need not have been read.
        self.state = match (self.dropped, read) {
            (true, read) if read >= bytes - bytes / 20 => CacheState::Dropped,
            (false, 0) => CacheState::Warm,
            _ => CacheState::Unknown,
        };
        let how = if self.dropped {
            "after the system was asked to forget the files"
        } else {
            "after a read-through"
        };
        self.detail = format!("{how}, storage gave {read} bytes of {bytes} while they were loaded");
    }
}

/// A number of bytes behind `field` in a file of `/proc`, which counts in `unit` bytes.
fn proc_field(path: &str, field: &str, unit: u64) -> Option<u64> {
    let text = std::fs::read_to_string(path).ok()?;
    let line = text.lines().find_map(|l| l.strip_prefix(field))?;
    line.trim().trim_end_matches("kB").trim().parse::<u64>().ok()?.checked_mul(unit)
}

/// Bytes that storage has given to this process.
fn read_from_storage() -> Option<u64> {
    proc_field("/proc/self/io", "read_bytes:", 1)
}

/// Largest resident set so far.
pub(super) fn peak_resident_bytes() -> Option<u64> {
    proc_field("/proc/self/status", "VmHWM:", 1024)
}

/// The machine as it describes itself; what it does not say is absent.
#[derive(Clone, Debug)]
pub struct Machine {
    /// Model of the processor.
    pub cpu: Option<String>,
    /// Processors that this process may use.
    pub cores: Option<usize>,
    /// Installed memory.
    pub memory_bytes: Option<u64>,
    /// Operating system and architecture.
    pub system: String,
}

impl Machine {
    pub(super) fn here() -> Self {
        let cpu = std::fs::read_to_string("/proc/cpuinfo").ok().and_then(|text| {
            let line = text.lines().find(|l| l.starts_with("model name"))?;
            Some(line.split_once(':')?.1.trim().to_owned())
        });
        Machine {
            cpu,
            cores: std::thread::available_parallelism().ok().map(usize::from),
            memory_bytes: proc_field("/proc/meminfo", "MemTotal:", 1024),
            system: format!("{} {}", std::env::consts::OS, std::env::consts::ARCH),
        }
    }
}
