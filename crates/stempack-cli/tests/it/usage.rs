//! Words that make no command.

use crate::util::stempack;

#[test]
fn help_and_version_are_data() {
    for args in [&["--help"][..], &["--version"], &["image", "--help"], &["help", "pack"]] {
        let said = stempack(args);
        assert_eq!((said.code, said.stderr.as_str()), (0, ""), "{args:?}");
        assert!(!said.stdout.is_empty());
    }
    let bare = stempack::<&str>([]);
    assert_eq!((bare.code, bare.stdout.as_str()), (2, ""));
    assert!(bare.stderr.contains("Usage: stempack"));
}

#[test]
fn usage_errors_are_errors_like_any_other() {
    let cases: &[(&[&str], &str)] = &[
        (&["frobnicate"], "frobnicate"),
        (&["frame", "a.h5", "1", "-o", "x.npy"], "<COL>"),
        (&["frame", "a.h5", "1", "-2", "-o", "x.npy"], "-2"),
        (&["image", "a.h5", "-o", "x.npy"], "--bf"),
        (&["image", "a.h5", "--bf"], "--output"),
        (&["image", "a.h5", "--bf", "--adf", "-o", "x.npy"], "--adf"),
        (&["image", "a.h5", "--disk", "1,2", "-o", "x.npy"], "3 numbers"),
        (&["image", "a.h5", "--total", "-o", "x.png", "--contrast", "99,1"], "LOW < HIGH"),
        (&["unpack", "a.h5", "x.npy", "--raw", "--working"], "--working"),
        (&["unpack", "a.h5", "x.npy", "--region", "1:3"], "R0:R1,C0:C1"),
        (&["mean", "a.h5", "-o", "x.npy", "--scan", "16"], "rows x columns"),
        (&["pack", "a.h5", "b.h5", "--max-memory", "5Q"], "512M"),
        (&["pack", "a.h5", "b.h5", "--threads", "0"], "threads"),
        (&["verify", "a.h5", "--expect-sha256", "abc"], "64 hexadecimal"),
    ];
    for (args, named) in cases {
        let text = stempack(*args);
        assert_eq!((text.code, text.stdout.as_str()), (2, ""), "{args:?}");
        assert!(text.stderr.starts_with("error[usage]: "), "{}", text.stderr);
        assert!(text.stderr.contains(named), "{args:?}: {}", text.stderr);
        let json = stempack(args.iter().chain(&["--json"]));
        let document = json.json();
        assert_eq!(json.code, 2);
        assert_eq!(document["schema"], "stempack.error/1");
        assert_eq!((&document["code"], &document["kind"]), (&"usage".into(), &"Usage".into()));
        assert!(!document["message"].as_str().unwrap().ends_with('.'));
    }
}

#[test]
fn outputs_are_judged_before_any_work() {
    let dir = tempfile::tempdir().unwrap();
    let taken = dir.path().join("taken.npy");
    std::fs::write(&taken, b"mine").unwrap();
    let missing = dir.path().join("none").join("x.npy");
    let cases = [("x.jpg".into(), "output_format"), (taken.clone(), "destination_exists"), (missing, "io")];
    for (output, code) in cases {
        let output = output.as_os_str().to_owned();
        // The input does not exist either; the output is what is complained of.
        let word = |w: &str| std::ffi::OsString::from(w);
        let said = stempack([word("mean"), word("no-such-file"), word("-o"), output, word("--json")]);
        assert_eq!((said.code, said.json()["code"].as_str().unwrap()), (2, code));
    }
    assert_eq!(std::fs::read(&taken).unwrap(), b"mine");
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1);
}
