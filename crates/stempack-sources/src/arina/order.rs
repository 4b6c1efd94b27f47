//! Names: which file names and link names belong together, and in which order.

use super::MASTER;
use crate::error::SourceCode;
use crate::{refuse, shown};
use std::path::{Path, PathBuf};
use stempack_model::{Error, Result};

const COMPANION: &str = "_em_metadata.h5";

/// `<stem>_data_<digits>.h5`, whatever its case, as stem and number.
pub(super) fn shard_name(name: &str) -> Option<(&str, u64)> {
    let lower = name.to_ascii_lowercase();
    let body = lower.strip_suffix(".h5")?;
    let digits = body.len() - body.trim_end_matches(|c: char| c.is_ascii_digit()).len();
    let stem_and_mark = &body[..body.len() - digits];
    let stem = stem_and_mark.strip_suffix("_data_")?;
    if digits == 0 || digits > 18 || stem.is_empty() {
        return None;
    }
    let number = body[body.len() - digits..].parse().ok()?;
    Some((&name[..stem.len()], number))
}

/// The master a companion belongs to.
pub(super) fn companion_master(name: &str) -> Option<String> {
    name.strip_suffix(COMPANION).filter(|s| !s.is_empty()).map(|stem| format!("{stem}{MASTER}"))
}

/// The companion of a master.
pub(super) fn companion_name(stem: &str) -> String {
    format!("{stem}{COMPANION}")
}

/// What the files of an acquisition have in common, from the name of its master.
pub(super) fn stem_of(master: &str) -> &str {
    master.strip_suffix(MASTER).or_else(|| master.strip_suffix(".h5")).unwrap_or(master)
}

/// A link name split into what precedes its trailing number, and that number.
pub(super) fn numbered(name: &str) -> (&str, Option<u64>) {
    let prefix = name.trim_end_matches(|c: char| c.is_ascii_digit());
    let digits = &name[prefix.len()..];
    if digits.is_empty() || digits.len() > 18 { (name, None) } else { (prefix, digits.parse().ok()) }
}

/// Whether a link of this name must be a detector stack.
pub(super) fn names_a_stack(name: &str) -> bool {
    name == "data" || matches!(numbered(name), ("data_", Some(_)))
}

/// All shards of one stem beside `path`, in numeric order, none missing in between.
///
/// Without a master nothing says how many there were; what the numbers do say is respected.
pub(super) fn siblings(path: &Path, stem: &str) -> Result<Vec<PathBuf>> {
    let folder = match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    let mut shards: Vec<(u64, PathBuf)> = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(|e| Error::io("list", folder, e))? {
        let entry = entry.map_err(|e| Error::io("list", folder, e))?;
        let name = entry.file_name();
        if let Some((other, number)) = name.to_str().and_then(shard_name)
            && other == stem
        {
            shards.push((number, path.with_file_name(&name)));
        }
    }
    shards.sort();
    // Numbering starts at 1; a first shard 0 has been seen in hand-made files.
    let mut expected = u64::from(shards.first().is_none_or(|s| s.0 != 0));
    for pair in shards.windows(2) {
        if pair[0].0 == pair[1].0 {
            let (a, b) = (shown(&pair[0].1), shown(&pair[1].1));
            return Err(refuse(
                SourceCode::AmbiguousSource,
                format!("`{a}` and `{b}` have the same number and no master says which one is meant"),
                path,
            ));
        }
    }
    for (number, _) in &shards {
        if *number != expected {
            // As wide as the number of a shard that is there.
            let width = path
                .file_stem()
                .map_or(6, |s| s.to_string_lossy().chars().rev().take_while(char::is_ascii_digit).count());
            let missing = format!("{stem}_data_{expected:0width$}.h5");
            return Err(refuse(
                SourceCode::MissingMember,
                format!("`{missing}` is missing between the shards of `{stem}`, which has no master"),
                path,
            )
            .with("missing", vec![missing]));
        }
        expected += 1;
    }
    Ok(shards.into_iter().map(|(_, path)| path).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shard_names() {
        assert_eq!(shard_name("run_data_000012.h5"), Some(("run", 12)));
        assert_eq!(shard_name("Run_DATA_000001.H5"), Some(("Run", 1)));
        assert_eq!(shard_name("a_data_b_data_1.h5"), Some(("a_data_b", 1)));
        for other in ["run_master.h5", "run_data_.h5", "_data_000001.h5", "run_data_1.hdf5", "data_000001.h5"]
        {
            assert_eq!(shard_name(other), None, "{other}");
        }
    }

    #[test]
    fn link_names() {
        assert_eq!(numbered("data_000010"), ("data_", Some(10)));
        assert_eq!(numbered("data"), ("data", None));
        assert!(names_a_stack("data") && names_a_stack("data_1") && names_a_stack("data_000001"));
        assert!(!names_a_stack("data_") && !names_a_stack("database") && !names_a_stack("x_data_1"));
    }

    #[test]
    fn siblings_in_numeric_order_without_gaps() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        let touch = |name: &str| std::fs::write(at(name), b"").unwrap();
        for n in [1, 2, 10, 9, 8, 7, 6, 5, 4, 3] {
            touch(&format!("run_data_{n}.h5"));
        }
        touch("runner_data_1.h5");
        let names = |v: Vec<PathBuf>| v.iter().map(|p| shown(p)).collect::<Vec<_>>();
        let found = names(siblings(&at("run_data_3.h5"), "run").unwrap());
        assert_eq!(found[1], "run_data_2.h5");
        assert_eq!(found[9], "run_data_10.h5");
        assert_eq!(found.len(), 10);
        std::fs::remove_file(at("run_data_4.h5")).unwrap();
        let error = siblings(&at("run_data_3.h5"), "run").unwrap_err();
        assert_eq!(error.code(), "missing_member");
        assert!(error.message().contains("run_data_4.h5"));
        touch("run_data_4.h5");
        touch("run_data_04.h5");
        assert_eq!(siblings(&at("run_data_3.h5"), "run").unwrap_err().code(), "ambiguous_source");
    }
}
