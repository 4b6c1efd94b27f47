//! What happens when the HDF5 library does not come back: a damaged file can send it round in circles for ever.
//!
//! Opening runs on a thread of its own, and whoever waits for it gives up when no call into the library has returned
//! for a while. The thread cannot be stopped and holds the library's lock, so until it comes back every other HDF5
//! file is refused at once. What a library call may take depends on the disk, so it is progress that is watched and
//! not the time of the whole.

use crate::error::SourceCode;
use crate::{refuse, shown};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::{Duration, Instant};
use stempack_model::{Error, Result};

/// Calls that came back, in the whole process.
static STEPS: AtomicU64 = AtomicU64::new(0);
/// Whether some thread is given up.
static STUCK: AtomicBool = AtomicBool::new(false);
static PATIENCE_MS: AtomicU64 = AtomicU64::new(20_000);

/// How often progress is looked at.
const LOOK: Duration = Duration::from_millis(50);

/// Sets how long one call into the HDF5 library may take; 20 s unless set.
pub fn set_patience(patience: Duration) {
    PATIENCE_MS.store(u64::try_from(patience.as_millis()).unwrap_or(u64::MAX), Ordering::Relaxed);
}

/// A call has come back.
pub(super) fn step() {
    STEPS.fetch_add(1, Ordering::Relaxed);
}

/// Refuses to wait for the library's lock while a given-up thread holds it.
pub(super) fn check(path: &Path) -> Result<()> {
    if !STUCK.load(Ordering::Relaxed) {
        return Ok(());
    }
    let message =
        format!("cannot open `{}`: the HDF5 library has not come back from an earlier file", shown(path));
    Err(refuse(SourceCode::Hdf5Stuck, message, path).hint("start the program again"))
}

/// Runs `work`, which opens `path`, and gives up on it when the library is stuck.
pub(crate) fn watched<T, F>(path: &Path, work: F) -> Result<T>
where
    T: Send + 'static,
    F: FnOnce() -> Result<T> + Send + 'static,
{
    let (done, result) = channel();
    let worker = std::thread::Builder::new()
        .name("open".to_owned())
        .spawn(move || {
            let opened = work();
            if done.send(opened).is_err() {
                // Nobody waits any more, but the library's lock is free again.
                STUCK.store(false, Ordering::Relaxed);
            }
        })
        .map_err(|e| Error::io("start a thread to open", path, e))?;
    let (mut seen, mut since) = (STEPS.load(Ordering::Relaxed), Instant::now());
    loop {
        match result.recv_timeout(LOOK) {
            Ok(opened) => return opened,
            Err(RecvTimeoutError::Disconnected) => match worker.join() {
                Err(panic) => std::panic::resume_unwind(panic),
                Ok(()) => unreachable!("a worker that ends has sent its result"),
            },
            Err(RecvTimeoutError::Timeout) => {}
        }
        let now = STEPS.load(Ordering::Relaxed);
        if now != seen {
            (seen, since) = (now, Instant::now());
        } else if since.elapsed() >= Duration::from_millis(PATIENCE_MS.load(Ordering::Relaxed)) {
            STUCK.store(true, Ordering::Relaxed);
            let message = format!(
                "the HDF5 library has not come back from `{}` for {} s: the file is damaged, or its disk hangs",
                shown(path),
                since.elapsed().as_secs()
            );
            return Err(refuse(SourceCode::Hdf5Stuck, message, path));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_errors_and_panics_come_through() {
        let path = Path::new("x.h5");
        assert_eq!(watched(path, || Ok(7)).unwrap(), 7);
        let refused = || Err::<(), _>(Error::new(SourceCode::NotHdf5, "no"));
        assert_eq!(watched(path, refused).unwrap_err().code(), "not_hdf5");
        let panicked = std::panic::catch_unwind(|| watched::<(), _>(path, || panic!("inside")));
        assert_eq!(panicked.unwrap_err().downcast_ref(), Some(&"inside"));
    }
}
