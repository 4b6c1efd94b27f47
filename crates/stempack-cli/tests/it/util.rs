//! Running the binary.

use serde_json::Value;
use std::ffi::OsStr;
use std::process::Command;

pub(crate) struct Said {
    pub(crate) code: i32,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Said {
    /// The one JSON document on stdout.
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.stdout)
            .unwrap_or_else(|e| panic!("no JSON ({e}): {}{}", self.stdout, self.stderr))
    }
}

pub(crate) fn stempack<A: AsRef<OsStr>>(args: impl IntoIterator<Item = A>) -> Said {
    let out = Command::new(env!("CARGO_BIN_EXE_stempack")).args(args).output().unwrap();
    Said {
        code: out.status.code().unwrap_or(-1),
        stdout: String::from_utf8(out.stdout).unwrap(),
        stderr: String::from_utf8(out.stderr).unwrap(),
    }
}
