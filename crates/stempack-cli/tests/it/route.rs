//! The verbs on a small sample: what is said, where, and with which exit code. Values are judged elsewhere, against
//! independent readers.

use crate::util::stempack;
use serde_json::json;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use stempack_model::{DetectorShape, ScanShape, Task};
use stempack_sample::{SampleSpec, write_acquisition};

struct Sample {
    dir: tempfile::TempDir,
    master: String,
    pack: String,
}

impl Sample {
    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }
    fn text(&self, name: &str) -> String {
        self.path(name).display().to_string()
    }
}

fn packed() -> Sample {
    let dir = tempfile::tempdir().unwrap();
    let spec = SampleSpec {
        scan: ScanShape::new(8, 12).unwrap(),
        detector: DetectorShape::new(24, 20).unwrap(),
        ..SampleSpec::default()
    };
    let paths = write_acquisition(dir.path(), &spec, &Task::new()).unwrap();
    let (master, pack) = (paths.master.display().to_string(), dir.path().join("p.h5").display().to_string());
    let said = stempack(["pack", &master, &pack]);
    assert_eq!(said.code, 0, "{}", said.stderr);
    Sample { dir, master, pack }
}

#[test]
fn results_say_what_they_were_made_from() {
    let s = packed();
    for (file, kind, mode) in [(&s.pack, "pack", "rebase"), (&s.master, "original", "streamed")] {
        let out = s.text(&format!("{kind}.npy"));
        let said = stempack(["image", file, "--bf", "-o", &out, "--json"]).json();
        assert_eq!((&said["source"]["kind"], &said["mode"]), (&json!(kind), &json!(mode)));
        assert_eq!((&said["shape"], &said["values"]), (&json!([8, 12]), &json!("working")));
        assert_eq!(
            (&said["detector"]["kind"], &said["detector"]["evidence"]),
            (&json!("bf"), &json!("measured"))
        );
        assert_eq!(said["output"], json!(out));
    }
    let bytes = |name| std::fs::read(s.path(name)).unwrap();
    // Both bounds, by sample type and by widths, fit 32 bits here.
    assert_eq!(bytes("pack.npy"), bytes("original.npy"));
}

#[test]
fn a_pack_knows_its_scan_shape() {
    let s = packed();
    let out = s.text("a.npy");
    assert_eq!(stempack(["mean", &s.pack, "--scan", "8x12", "-o", &out]).code, 0);
    let said = stempack(["mean", &s.pack, "--scan", "12x8", "-o", &out, "--force", "--json"]);
    assert_eq!((said.code, &said.json()["kind"]), (2, &json!("Conflict")));
    assert_eq!(said.json()["candidates"], json!(["8x12"]));
}

#[test]
fn pictures_have_a_scale_bar_where_the_step_is_known() {
    let s = packed();
    let said = stempack(["image", &s.pack, "--total", "-o", &s.text("a.png"), "--json"]).json();
    // 12 columns of 0.5 Å: a third is 2 Å.
    assert_eq!(said["picture"]["scale_bar"], json!("2 Å"));
    assert!(said["picture"]["low"].as_f64().unwrap() < said["picture"]["high"].as_f64().unwrap());
    let tiff = stempack(["com", &s.pack, "-o", &s.text("a.tif"), "--json"]).json();
    assert_eq!((&tiff["shape"], &tiff["file_dtype"]), (&json!([2, 8, 12]), &json!("float32")));
    assert_eq!(std::fs::read(s.path("a.tif")).unwrap()[..4], *b"II*\0");
}

#[test]
fn a_seal_is_what_the_caller_brings() {
    let s = packed();
    let receipt = format!("{}.receipt.json", s.pack);
    let beside = stempack(["verify", &s.pack, "--json"]);
    assert_eq!((beside.code, &beside.json()["sealed"]), (0, &json!(false)));
    let refused = stempack(["verify", &s.pack, "--require-seal", "--json"]);
    assert_eq!((refused.code, &refused.json()["code"]), (2, &json!("unsealed")));
    let sealed = stempack(["verify", &s.pack, "--require-seal", "--receipt", &receipt, "--json"]);
    assert_eq!((sealed.code, &sealed.json()["sealed"]), (0, &json!(true)), "{}", sealed.stderr);
}

#[cfg(target_os = "linux")]
#[test]
fn data_that_cannot_be_delivered_is_a_failure_and_a_reader_that_left_is_none() {
    let s = packed();
    let run = |stdout: Stdio| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_stempack"));
        command.args(["inspect", &s.master, "--json"]).stdout(stdout).stderr(Stdio::null());
        command
    };
    let full = std::fs::OpenOptions::new().write(true).open(Path::new("/dev/full")).unwrap();
    assert_eq!(run(full.into()).status().unwrap().code(), Some(2));
    let mut child = run(Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    assert_eq!(child.wait().unwrap().code(), Some(0));
}

#[test]
fn inputs_that_do_not_exist_are_told_in_one_line() {
    for verb in ["inspect", "info", "verify"] {
        let said = stempack([verb, "no/such/file.h5"]);
        assert_eq!((said.code, said.stdout.as_str()), (2, ""));
        assert!(said.stderr.starts_with("error[io]: cannot open `no/such/file.h5`"), "{}", said.stderr);
    }
}
