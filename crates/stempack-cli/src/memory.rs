//! How much memory the process has taken at most, as the operating system counts it.

/// Largest resident set so far in bytes; `None` where the system does not say.
pub(crate) fn peak_resident_bytes() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|l| l.strip_prefix("VmHWM:"))?;
    let kibibytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kibibytes.checked_mul(1024)
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
