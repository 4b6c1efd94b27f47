//! How much memory there is and how much of it was taken, as the operating system counts it.

use stempack::DEFAULT_MEMORY_BUDGET;

/// Half of the machine's memory, so that any acquisition that fits it compressed can be loaded unasked; the library's
/// own default where the system does not say.
pub(crate) fn default_budget() -> u64 {
    let total = || {
        let text = std::fs::read_to_string("/proc/meminfo").ok()?;
        kibibytes(&text, "MemTotal:")
    };
    total().map_or(DEFAULT_MEMORY_BUDGET, |bytes| (bytes / 2).max(DEFAULT_MEMORY_BUDGET / 4))
}

/// A field such as `MemTotal:  16384 kB`, in bytes.
fn kibibytes(text: &str, field: &str) -> Option<u64> {
    let line = text.lines().find_map(|l| l.strip_prefix(field))?;
    let kibibytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kibibytes.checked_mul(1024)
}

/// Largest resident set so far in bytes; `None` where the system does not say.
pub(crate) fn peak_resident_bytes() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    kibibytes(&status, "VmHWM:")
}

#[cfg(test)]
mod tests {
    #[cfg(target_os = "linux")]
    #[test]
    fn the_peak_covers_what_was_touched() {
        let before = super::peak_resident_bytes().unwrap();
        let touched = vec![1u8; 64 << 20];
        let after = super::peak_resident_bytes().unwrap();
        assert!(after >= touched.iter().map(|&b| u64::from(b)).sum::<u64>());
        assert!(after >= before);
    }
}
