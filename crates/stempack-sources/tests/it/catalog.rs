//! Catalogs: what is found in folders, in which order, each acquisition once, and what is wrong beside the rest.

use crate::writer::{Companion, Folder};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use stempack_model::{Kind, Result, Task};
use stempack_sources::{Catalog, OpenOptions, explain, explain_all};

fn catalog(paths: &[PathBuf]) -> Result<Catalog> {
    stempack_sources::catalog(paths, &OpenOptions::default(), &Task::new())
}

fn labels(catalog: &Catalog) -> Vec<&str> {
    catalog.acquisitions.iter().map(|a| a.label.as_str()).collect()
}

fn issues(catalog: &Catalog) -> Vec<(PathBuf, &'static str)> {
    catalog.issues.iter().map(|i| (i.path.clone(), i.error.code())).collect()
}

/// An acquisition of one shard in a folder of its own.
fn acquisition(folder: &Folder, sub: &str, stem: &str) {
    std::fs::create_dir_all(folder.at(sub)).unwrap();
    let shard = format!("{stem}_data_000001.h5");
    folder.shard(&format!("{sub}/{shard}"), 3, 2, 3, 0);
    drop(folder.master(&format!("{sub}/{stem}_master.h5"), &[&shard]));
}

#[test]
fn a_folder_with_everything_below_it() {
    let folder = Folder::new();
    acquisition(&folder, "b", "two");
    acquisition(&folder, ".", "run");
    acquisition(&folder, "a/deep/er", "one");
    acquisition(&folder, ".hidden", "no");
    acquisition(&folder, "a", ".no");
    Companion::default().write(&folder.file("run_em_metadata.h5"));
    symlink(folder.path(), folder.at("loop")).unwrap();
    drop(folder.master("b/broken_master.h5", &["absent.h5"]));
    std::fs::write(folder.at("a/no_master.h5"), "no HDF5").unwrap();
    std::fs::write(folder.at("notes.txt"), "no acquisition").unwrap();
    let found = catalog(&[folder.path().to_owned()]).unwrap();
    assert_eq!(labels(&found), ["one", "two", "run"], "by path: a, b, then run_master.h5");
    let expected = [
        (folder.at("a/no_master.h5"), "unknown_format"),
        (folder.at("b/broken_master.h5"), "missing_member"),
    ];
    assert_eq!(issues(&found), expected);
}

#[test]
fn several_inputs_keep_their_order_and_give_each_acquisition_once() {
    let folder = Folder::new();
    acquisition(&folder, "a", "one");
    acquisition(&folder, "b", "two");
    let inputs = [
        folder.at("b/two_data_000001.h5"),
        folder.at("a"),
        folder.path().to_owned(),
        folder.at("b/two_master.h5"),
        folder.at("a/../a/one_master.h5"),
    ];
    assert_eq!(labels(&catalog(&inputs).unwrap()), ["two", "one"]);
    // By the file that it was entered by.
    let entries = catalog(&inputs).unwrap().entries;
    assert_eq!(entries, [folder.at("b/two_data_000001.h5"), folder.at("a/one_master.h5")]);
    // A second way to the same files, by a linked name.
    symlink(folder.at("a/one_master.h5"), folder.at("a/one_more_master.h5")).unwrap();
    assert_eq!(labels(&catalog(&[folder.at("a")]).unwrap()), ["one"]);
}

#[test]
fn named_files_must_open_and_folders_must_hold_something() {
    let folder = Folder::new();
    drop(folder.master("broken_master.h5", &["absent.h5"]));
    assert_eq!(catalog(&[folder.at("broken_master.h5")]).unwrap_err().code(), "missing_member");
    assert_eq!(catalog(&[folder.at("absent.h5")]).unwrap_err().code(), "io");
    let empty = Folder::new();
    std::fs::write(empty.at("notes.txt"), "no acquisition").unwrap();
    let error = catalog(&[empty.path().to_owned()]).unwrap_err();
    assert_eq!(error.code(), "no_acquisition");
    assert!(error.message().contains("ARINA"), "it says what it looked for: {error}");
}

#[test]
fn members_may_be_linked_and_names_may_be_anything() {
    let (folder, elsewhere) = (Folder::new(), Folder::new());
    acquisition(&elsewhere, ".", "far");
    acquisition(&folder, "Messung Ä µ 試料", "Probe № 3");
    for name in ["far_master.h5", "far_data_000001.h5"] {
        symlink(elsewhere.at(name), folder.at(name)).unwrap();
    }
    // Latin-1 bytes, no text.
    let raw = folder.path().join(OsStr::from_bytes(b"gr\xf6\xdfe_master.h5"));
    let odd = folder.path().join(OsStr::from_bytes(b"\xe4"));
    std::fs::create_dir(&odd).unwrap();
    std::fs::copy(elsewhere.at("far_data_000001.h5"), odd.join("x_data_000001.h5")).unwrap();
    drop(elsewhere.master("x_master.h5", &["x_data_000001.h5"]));
    std::fs::rename(elsewhere.at("x_master.h5"), odd.join("x_master.h5")).unwrap();
    std::fs::write(&raw, "no HDF5").unwrap();
    symlink(folder.at("nowhere"), folder.at("gone_master.h5")).unwrap();
    let found = catalog(&[folder.path().to_owned()]).unwrap();
    assert_eq!(labels(&found), ["Probe № 3", "far", "x"]);
    assert_eq!(issues(&found), [(folder.at("gone_master.h5"), "io"), (raw, "unknown_format")]);
    assert!(stempack_sources::open(&odd.join("x_data_000001.h5"), &OpenOptions::default()).is_ok());
}

#[test]
fn what_cannot_be_read_is_an_issue() {
    let folder = Folder::new();
    acquisition(&folder, "good", "run");
    acquisition(&folder, "locked", "no");
    drop(folder.master("secret_master.h5", &["good/run_data_000001.h5"]));
    let lock = |name: &str, mode| {
        std::fs::set_permissions(folder.at(name), std::fs::Permissions::from_mode(mode)).unwrap();
    };
    lock("locked", 0o000);
    lock("secret_master.h5", 0o000);
    // The administrator may read everything, and then nothing is wrong.
    let enforced = std::fs::read_dir(folder.at("locked")).is_err();
    let found = catalog(&[folder.path().to_owned()]);
    lock("locked", 0o755);
    lock("secret_master.h5", 0o644);
    let found = found.unwrap();
    if enforced {
        assert_eq!(labels(&found), ["run"]);
        assert_eq!(issues(&found), [(folder.at("locked"), "io"), (folder.at("secret_master.h5"), "io")]);
    } else {
        assert_eq!(labels(&found), ["run", "no"], "the secret master has the frames of the good one");
    }
}

/// A folder that may not be written to is read like any other.
#[test]
fn a_write_protected_folder_is_read() {
    let folder = Folder::new();
    acquisition(&folder, "a", "run");
    let mode =
        |mode| std::fs::set_permissions(folder.at("a"), std::fs::Permissions::from_mode(mode)).unwrap();
    mode(0o555);
    let found = catalog(&[folder.at("a")]);
    mode(0o755);
    assert_eq!(labels(&found.unwrap()), ["run"]);
}

#[test]
fn cancelling_is_no_issue() {
    let folder = Folder::new();
    acquisition(&folder, "a", "run");
    let task = Task::new().with_cancel(Arc::new(AtomicBool::new(true)));
    let inputs = [folder.path().to_owned()];
    let error = stempack_sources::catalog(&inputs, &OpenOptions::default(), &task).unwrap_err();
    assert_eq!(error.kind(), Kind::Cancelled);
    assert_eq!(explain_all(&inputs, &task).unwrap_err().kind(), Kind::Cancelled);
}

/// Two masters that link the same shards are one acquisition; one shard more makes another.
#[test]
fn an_acquisition_is_known_by_its_frames() {
    let folder = Folder::new();
    for (name, first) in [("a.h5", 0), ("b.h5", 9)] {
        folder.shard(name, 2, 2, 3, first);
    }
    drop(folder.master("1_master.h5", &["a.h5", "b.h5"]));
    drop(folder.master("2_master.h5", &["a.h5", "b.h5"]));
    drop(folder.master("3_master.h5", &["a.h5"]));
    assert_eq!(labels(&catalog(&[folder.path().to_owned()]).unwrap()), ["1", "3"]);
}

#[test]
fn every_format_says_why_it_takes_a_file_or_not() {
    let folder = Folder::new();
    acquisition(&folder, "a", "run");
    std::fs::write(folder.at("a/notes.txt"), "no acquisition").unwrap();
    // The signature of HDF5, and nothing behind it: no format can look, none fails the others.
    std::fs::write(folder.at("a/cut.h5"), b"\x89HDF\r\n\x1a\n").unwrap();
    let all = explain_all(&[folder.path().to_owned(), folder.at("a/notes.txt")], &Task::new()).unwrap();
    let names: Vec<_> = all.iter().map(|e| e.path.file_name().unwrap().to_str().unwrap()).collect();
    assert_eq!(names, ["cut.h5", "notes.txt", "run_data_000001.h5", "run_master.h5", "notes.txt"]);
    for explanation in &all {
        assert!(explanation.candidates.iter().all(|c| !c.why.is_empty() && !c.format.is_empty()));
        let scores: Vec<_> = explanation.candidates.iter().map(|c| c.score).collect();
        assert!(scores.is_sorted_by(|a, b| a >= b), "the likeliest first: {scores:?}");
        let taken = explanation.candidates[0].score.is_some();
        assert_eq!(taken, explanation.path.to_string_lossy().contains("run"), "{explanation:?}");
    }
    assert_eq!(
        stempack_sources::open(&folder.at("a/cut.h5"), &OpenOptions::default()).err().unwrap().code(),
        "unreadable_hdf5"
    );
    assert_eq!(explain(folder.path()).unwrap_err().code(), "unknown_format");
}

/// Arrays that are kept beside an acquisition and are none: images and tables are passed over, and what may have been
/// meant as one is an issue with its reason.
#[test]
fn arrays_beside_an_acquisition() {
    let folder = Folder::new();
    acquisition(&folder, ".", "run");
    let file = crate::npy::file;
    let write = |name: &str, bytes: Vec<u8>| std::fs::write(folder.at(name), bytes).unwrap();
    write("cube.npy", file("'<u2'", false, "(2, 3, 1, 1)", &[0; 12]));
    write("image.npy", file("'<f8'", false, "(2, 3)", &[0; 48]));
    write("scalar.npy", file("'<f8'", false, "()", &[0; 8]));
    write("table.npy", file("[('row', '<u2'), ('col', '<u2')]", false, "(3,)", &[0; 12]));
    write("structured.npy", file("[('count', '<u2')]", false, "(2, 3, 1, 1)", &[0; 12]));
    write("complex.npy", file("'<c8'", false, "(1, 1, 1, 1)", &[0; 8]));
    write("short.npy", file("'<u2'", false, "(2, 3, 1, 1)", &[0; 11]));
    write("empty.npy", Vec::new());
    write("text.npy", b"no array".to_vec());
    let found = catalog(&[folder.path().to_owned()]).unwrap();
    assert_eq!(labels(&found), ["cube", "run"]);
    let expected = [
        ("complex.npy", "unsupported_layout", "complex"),
        ("short.npy", "length_mismatch", "139 bytes"),
        ("structured.npy", "unsupported_layout", "records"),
        ("table.npy", "unsupported_layout", "records"),
    ];
    let all: Vec<_> = found.issues.iter().map(|i| (i.path.file_name().unwrap(), i.error.code())).collect();
    assert_eq!(all, expected.map(|(name, code, _)| (OsStr::new(name), code)), "{:?}", found.issues);
    for (issue, (name, _, why)) in found.issues.iter().zip(expected) {
        let message = issue.error.message();
        assert!(message.contains(name) && message.contains(why), "{message}");
    }
    // Named alone, every one of them says what it is.
    for (name, said) in [("image.npy", "2 axes (2×3)"), ("table.npy", "records"), ("scalar.npy", "0 axes")] {
        let error = catalog(&[folder.at(name)]).unwrap_err();
        assert!(error.code() == "unsupported_layout" && error.message().contains(said), "{name}: {error}");
    }
}
