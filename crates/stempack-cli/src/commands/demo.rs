//! `demo`: the whole route on a sample that the binary makes itself.

use crate::args::{Cli, Demo, Verb};
use crate::context::{Context, Outcome};
use clap::Parser;
use serde_json::json;
use std::ffi::OsString;
use std::path::Path;
use stempack::{Error, Result};
use stempack_sample::{SampleSpec, write_acquisition};

/// Pictures of the demo: name and the verb that makes it.
const PICTURES: [(&str, &[&str]); 4] = [
    ("bright-field.png", &["image", "--bf"]),
    ("annular-dark-field.png", &["image", "--adf"]),
    ("centre-of-mass.png", &["com"]),
    ("mean-pattern.png", &["mean"]),
];

pub(crate) fn run(args: &Demo, context: &Context) -> Result<Outcome> {
    let dir = &args.dir;
    let packed = dir.join("scan.pack.h5");
    let inner = context.inner();
    context.printer.heading(&format!("making a sample acquisition in `{}`", dir.display()));
    let sample = write_acquisition(dir, &SampleSpec::default(), context.task())?;
    let master = sample.master.as_os_str();
    step(&inner, &["inspect".as_ref(), master])?;
    step(&inner, &["pack".as_ref(), master, packed.as_os_str()])?;
    let verified = step(&inner, &["verify".as_ref(), packed.as_os_str(), "--against".as_ref(), master])?;
    let mut pictures = Vec::new();
    for (name, verb) in PICTURES {
        let output = dir.join(name);
        let (verb, options) = (&verb[0], &verb[1..]);
        let mut words = vec![verb.as_ref(), packed.as_os_str()];
        words.extend(options.iter().map(|o| std::ffi::OsStr::new(*o)));
        words.extend(["-o".as_ref(), output.as_os_str()]);
        step(&inner, &words)?;
        pictures.push(shown(&output));
    }
    let document = json!({
        "dir": shown(dir),
        "source": shown(&sample.master),
        "pack": shown(&packed),
        "verified": verified == Outcome::Done,
        "pictures": pictures,
    });
    context
        .printer
        .result("stempack.demo/1", document, || format!("\nlook at the pictures in `{}`\n", dir.display()));
    Ok(verified)
}

fn shown(path: &Path) -> String {
    path.display().to_string()
}

/// Runs one verb exactly as the words would on the command line, and shows the words.
fn step(context: &Context, words: &[&std::ffi::OsStr]) -> Result<Outcome> {
    let line = words.iter().map(|w| w.to_string_lossy()).collect::<Vec<_>>().join(" ");
    context.printer.heading(&format!("\n$ stempack {line}"));
    let all = std::iter::once(OsString::from("stempack")).chain(words.iter().map(|w| (*w).to_owned()));
    let cli = Cli::try_parse_from(all)
        .map_err(|e| Error::new(crate::CliCode::Usage, format!("the demo's own words are wrong: {e}")))?;
    match cli.verb {
        // The demo never runs itself.
        Verb::Demo(_) => Ok(Outcome::Done),
        verb => super::run(&verb, context),
    }
}
