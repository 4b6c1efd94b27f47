//! What travels with long work: cancellation, progress and the memory budget.

use crate::{Error, ModelCode, Result};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Memory a task may use when the caller does not say: 2 GiB.
pub const DEFAULT_MEMORY_BUDGET: u64 = 2 << 30;

/// Receives progress; implementations must be cheap.
pub trait Progress: Send + Sync {
    /// A phase with `total` units of work begins.
    fn begin(&self, phase: &str, total_bytes: u64);
    /// `bytes` more are done.
    fn advance(&self, bytes: u64);
    /// The phase is over.
    fn finish(&self);
}

/// Cancellation, progress and memory budget of one piece of work.
#[derive(Clone)]
pub struct Task {
    cancel: Vec<Arc<AtomicBool>>,
    progress: Option<Arc<dyn Progress>>,
    memory_budget: u64,
}

impl Default for Task {
    fn default() -> Self {
        Task { cancel: Vec::new(), progress: None, memory_budget: DEFAULT_MEMORY_BUDGET }
    }
}

impl Task {
    /// A task that cannot be cancelled from outside, reports nothing and has the default budget.
    pub fn new() -> Self {
        Self::default()
    }
    /// Cancels when `flag` becomes true, besides every flag given before: a part of the work can be stopped alone.
    #[must_use]
    pub fn with_cancel(mut self, flag: Arc<AtomicBool>) -> Self {
        self.cancel.push(flag);
        self
    }
    /// Reports to `progress`.
    #[must_use]
    pub fn with_progress(mut self, progress: Arc<dyn Progress>) -> Self {
        self.progress = Some(progress);
        self
    }
    /// Limits memory to `bytes`.
    #[must_use]
    pub fn with_memory_budget(mut self, bytes: u64) -> Self {
        self.memory_budget = bytes;
        self
    }
    /// The same task without progress, for work inside a phase that is already reported.
    #[must_use]
    pub fn quiet(&self) -> Self {
        Task { progress: None, ..self.clone() }
    }
    /// Bytes this task may allocate.
    pub fn memory_budget(&self) -> u64 {
        self.memory_budget
    }
    /// Fails with `cancelled` once the caller cancelled.
    ///
    /// # Errors
    /// `cancelled`.
    pub fn check(&self) -> Result<()> {
        if self.cancel.iter().any(|flag| flag.load(Ordering::Relaxed)) {
            return Err(Error::new(ModelCode::Cancelled, "cancelled"));
        }
        Ok(())
    }
    /// Begins a reported phase.
    pub fn begin(&self, phase: &str, total_bytes: u64) {
        if let Some(p) = &self.progress {
            p.begin(phase, total_bytes);
        }
    }
    /// Reports work done.
    pub fn advance(&self, bytes: u64) {
        if let Some(p) = &self.progress {
            p.advance(bytes);
        }
    }
    /// Ends the phase.
    pub fn finish(&self) {
        if let Some(p) = &self.progress {
            p.finish();
        }
    }
}
