//! Digests of the streams that a production proves, taken on a thread of their own behind the encoder.
//!
//! A digest is one long chain of instructions that cannot be split over threads. Windows are therefore handed over
//! after they were packed, and come back when they are hashed, so that the chain never waits for reading and packing
//! and these seldom wait for it.

use super::encode::Mode;
use crate::Digest;
use crate::digest::Hasher;
use std::borrow::Cow;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::{Scope, ScopedJoinHandle};
use stempack_model::{Acquisition, SampleType, Samples, little_endian_words};

/// Frames on their way from the source to the hashing thread, with what the encoder makes of them.
#[derive(Debug)]
pub(super) struct Window {
    /// As the source gives them; the first [`Self::len`] are valid.
    pub(super) samples: Samples,
    /// Valid samples.
    pub(super) len: usize,
    /// Raw values as u16, of sources that are not u16.
    pub(super) raw16: Vec<u16>,
    /// Working values of the u8 profile.
    pub(super) working8: Vec<u8>,
    /// Working values of the u16 profile, where they are not the raw ones.
    pub(super) working16: Vec<u16>,
}

impl Window {
    /// Raw values as u16.
    pub(super) fn raw16(&self) -> &[u16] {
        match &self.samples {
            Samples::U16(v) => &v[..self.len],
            _ => &self.raw16,
        }
    }
}

/// Whether the working stream is the raw one, so that one digest serves for both.
pub(super) fn working_is_raw(mode: Mode, acquisition: &Acquisition) -> bool {
    mode == Mode::U16Retained && acquisition.excluded.pixels.is_empty()
}

/// Digests of the streams of one production.
#[derive(Debug)]
pub(super) struct Streams {
    /// Of the source's own stream, for sources that are not u16.
    pub(super) original: Option<Digest>,
    /// Of the raw stream as u16, where it exists.
    pub(super) raw: Option<Digest>,
    /// Of the working stream: u8 in the u8 profile, else u16.
    pub(super) working: Digest,
}

struct Hashers {
    mode: Mode,
    same: bool,
    original: Option<Hasher>,
    raw: Option<Hasher>,
    working: Hasher,
}

impl Hashers {
    fn feed(&mut self, window: &Window) {
        if let Some(hasher) = &mut self.original {
            hasher.update(&window.samples.head(window.len).little_endian());
        }
        let raw16 = || bytes(window.raw16());
        match (&mut self.raw, self.mode) {
            (Some(raw), Mode::U8) => raw.update_both(&raw16(), &mut self.working, &window.working8),
            (Some(raw), _) if self.same => raw.update(&raw16()),
            (Some(raw), _) => raw.update_both(&raw16(), &mut self.working, &bytes(&window.working16)),
            (None, _) => self.working.update_u16(&window.working16),
        }
    }
    fn finish(self) -> Streams {
        let raw = self.raw.map(Hasher::finish);
        Streams {
            original: self.original.map(Hasher::finish),
            raw,
            working: raw.filter(|_| self.same).unwrap_or_else(|| self.working.finish()),
        }
    }
}

fn bytes(samples: &[u16]) -> Cow<'_, [u8]> {
    little_endian_words(samples, |s| s.to_le_bytes())
}

/// The encoder's end: windows to fill, and the way to the hashing thread.
pub(super) struct Hashing<'scope> {
    free: Receiver<Window>,
    full: Sender<Window>,
    thread: ScopedJoinHandle<'scope, Streams>,
}

impl<'scope> Hashing<'scope> {
    /// Starts the thread with `windows` empty windows of `samples` samples each.
    pub(super) fn start<'env>(
        scope: &'scope Scope<'scope, 'env>,
        mode: Mode,
        acquisition: &Acquisition,
        windows: usize,
        samples: usize,
    ) -> Self {
        let ((give_back, free), (full, waiting)) = (channel(), channel::<Window>());
        for _ in 0..windows {
            let empty = Window {
                samples: Samples::zeroed(acquisition.sample, samples),
                len: 0,
                raw16: Vec::new(),
                working8: Vec::new(),
                working16: Vec::new(),
            };
            // The receiver is in this function.
            let _ = give_back.send(empty);
        }
        let mut hashers = Hashers {
            mode,
            same: working_is_raw(mode, acquisition),
            original: (acquisition.sample != SampleType::U16).then(Hasher::default),
            raw: (mode != Mode::U16Constants).then(Hasher::default),
            working: Hasher::default(),
        };
        let thread = scope.spawn(move || {
            for window in waiting {
                hashers.feed(&window);
                // Nobody takes the last windows back.
                let _ = give_back.send(window);
            }
            hashers.finish()
        });
        Hashing { free, full, thread }
    }
    /// A window to fill, as soon as one is hashed. `None` when the thread has died, which [`Self::finish`] reports.
    pub(super) fn window(&self) -> Option<Window> {
        self.free.recv().ok()
    }
    /// Hands a packed window over.
    pub(super) fn hash(&self, window: Window) {
        // A thread that has died is noticed when the next window is asked for.
        let _ = self.full.send(window);
    }
    /// Waits for the last window and returns the digests.
    pub(super) fn finish(self) -> Streams {
        drop(self.full);
        match self.thread.join() {
            Ok(streams) => streams,
            Err(panic) => std::panic::resume_unwind(panic),
        }
    }
}
