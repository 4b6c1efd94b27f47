//! The `stempack` command: words in, exit code out. 0 done; 1 checked and different; 2 could not; 130 cancelled.

mod args;
mod clock;
mod commands;
mod context;
mod describe;
mod memory;
mod parse;
mod printer;
mod progress;
mod results;

use clap::Parser;
use context::{Context, Outcome};
use printer::Printer;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use stempack::{Error, Kind, error_codes};

error_codes! {
    /// Failures of the command line itself.
    pub(crate) enum CliCode {
        /// The words make no command.
        Usage = "usage", Usage;
        /// The output's extension names no format that this verb writes.
        OutputFormat = "output_format", Usage;
        /// A stated scan shape is not that of the pack.
        ScanConflict = "conflicting_scan_shape", Conflict;
        /// A destination is a file of the source.
        DestinationIsSource = "destination_is_source", Usage;
        /// The profile cannot be written by this version.
        UnsupportedProfile = "unsupported_profile", Unsupported;
        /// What is stated of one acquisition was given with several.
        SeveralAcquisitions = "several_acquisitions", Usage;
        /// A seal was required and the evidence does not give one.
        Unsealed = "unsealed", Integrity;
        /// A scalar image has no frames to be summed or corrected.
        ScalarImage = "scalar_image", Unsupported;
        /// An angle was stated and nothing recorded turns it into pixels.
        NoDetectorAngle = "no_detector_angle", Unsupported;
        /// The threads cannot be started.
        Threads = "threads", Io;
    }
}

fn main() -> ExitCode {
    let cli = match args::Cli::try_parse() {
        Ok(cli) => cli,
        Err(e) => return usage(&e),
    };
    let cancel = Arc::new(AtomicBool::new(false));
    let flag = cancel.clone();
    // Without the handler an interrupt still ends the program; only the tidy way out is lost.
    let _untidy = ctrlc::set_handler(move || flag.store(true, Ordering::Relaxed));
    let context = Context::new(&cli.global, cancel);
    match start_threads(cli.global.threads).and_then(|()| commands::run(&cli.verb, &context)) {
        Ok(_) if printer::undelivered() => ExitCode::from(2),
        Ok(Outcome::Done) => ExitCode::SUCCESS,
        Ok(Outcome::Different) => ExitCode::from(1),
        Err(e) => {
            context.printer.error(&e);
            ExitCode::from(if e.kind() == Kind::Cancelled { 130 } else { 2 })
        }
    }
}

fn start_threads(threads: Option<usize>) -> Result<(), Error> {
    let Some(threads) = threads else { return Ok(()) };
    rayon::ThreadPoolBuilder::new()
        .num_threads(threads)
        .build_global()
        .map_err(|e| Error::new(CliCode::Threads, format!("cannot start {threads} threads: {e}")))
}

/// Help and version go to stdout and succeed; every other complaint is an error like any other.
fn usage(complaint: &clap::Error) -> ExitCode {
    if !complaint.use_stderr() {
        // A reader that has gone away is no failure.
        let _gone = complaint.print();
        return ExitCode::SUCCESS;
    }
    if complaint.kind() == clap::error::ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand {
        // Bare `stempack`: the help is the best advice, and nothing was done.
        let _gone = complaint.print();
        return ExitCode::from(2);
    }
    let json = std::env::args_os().any(|word| word == "--json");
    let printer = Printer { json, quiet: false, muted: false };
    // clap separates what is wrong from its advice by empty lines.
    let text = complaint.render().to_string();
    let mut paragraphs = text.split("\n\n").map(|p| p.split_whitespace().collect::<Vec<_>>().join(" "));
    let message = paragraphs.next().unwrap_or_default();
    let message = message.strip_prefix("error: ").unwrap_or(&message).trim_end_matches('.');
    let advice: Vec<String> = paragraphs.filter(|p| !p.is_empty()).collect();
    printer.error(&Error::new(CliCode::Usage, message).hint(advice.join("; ")));
    ExitCode::from(2)
}
