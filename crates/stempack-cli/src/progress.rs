//! How long work shows itself: a bar with rate and time left, on a terminal only.

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::io::IsTerminal;
use std::sync::Mutex;
use stempack::Progress;

/// Whether a bar may be shown at all.
pub(crate) fn wanted(quiet: bool) -> bool {
    !quiet && std::env::var_os("STEMPACK_NO_PROGRESS").is_none() && std::io::stderr().is_terminal()
}

/// One bar at a time on stderr; a new phase replaces the one before.
#[derive(Default)]
pub(crate) struct Bar {
    current: Mutex<Option<ProgressBar>>,
}

impl Bar {
    fn replace(&self, bar: Option<ProgressBar>) {
        let mut current = self.current.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        if let Some(old) = std::mem::replace(&mut *current, bar) {
            old.finish_and_clear();
        }
    }
}

impl Progress for Bar {
    fn begin(&self, phase: &str, total_bytes: u64) {
        let template = "{msg:>16} {wide_bar} {binary_bytes:>10} of {binary_total_bytes} \
                        {binary_bytes_per_sec:>12}, {eta} left";
        let style = ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar());
        let bar = ProgressBar::with_draw_target(Some(total_bytes), ProgressDrawTarget::stderr());
        bar.set_style(style);
        bar.set_message(phase.to_owned());
        self.replace(Some(bar));
    }
    fn advance(&self, bytes: u64) {
        if let Some(bar) = &*self.current.lock().unwrap_or_else(std::sync::PoisonError::into_inner) {
            bar.inc(bytes);
        }
    }
    fn finish(&self) {
        self.replace(None);
    }
}

impl Drop for Bar {
    fn drop(&mut self) {
        self.replace(None);
    }
}
