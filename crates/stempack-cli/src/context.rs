//! What every verb is given: how to print, when to stop, how much memory to use.

use crate::args::Global;
use crate::memory;
use crate::printer::Printer;
use crate::progress::{self, Bar};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use stempack::Task;

/// How a verb ended when it did not fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// Exit code 0.
    Done,
    /// Exit code 1: checked, and something does not agree.
    Different,
}

/// Printing, cancellation and memory of one run.
pub(crate) struct Context {
    /// Text or JSON, talk or silence.
    pub(crate) printer: Printer,
    task: Task,
}

impl Context {
    pub(crate) fn new(global: &Global, cancel: Arc<AtomicBool>) -> Self {
        let printer = Printer { json: global.json, quiet: global.quiet, muted: false };
        let budget = global.max_memory.map_or_else(memory::default_budget, |b| b.0);
        let mut task = Task::new().with_cancel(cancel).with_memory_budget(budget);
        if progress::wanted(global.quiet) {
            task = task.with_progress(Arc::new(Bar::default()));
        }
        Context { printer, task }
    }

    /// The same run as part of another verb, which prints the one JSON document itself.
    pub(crate) fn inner(&self) -> Self {
        let printer = Printer { muted: self.printer.json, ..self.printer };
        Context { printer, task: self.task.clone() }
    }

    /// The task of this run.
    pub(crate) fn task(&self) -> &Task {
        &self.task
    }
}
