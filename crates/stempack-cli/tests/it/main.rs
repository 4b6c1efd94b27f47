//! The command from outside: words in; exit code, stdout and stderr out.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod route;
mod usage;
mod util;
