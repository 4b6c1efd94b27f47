//! One thin file for each verb; what the verbs share is how they open files and how they describe them.

mod angles;
mod bench;
mod com;
mod demo;
mod disk;
mod dpc;
mod enrich;
mod frame;
mod image;
mod info;
mod inspect;
mod mean;
mod opened;
mod pack;
mod provenance;
mod qem;
mod region;
mod unpack;
mod verify;

pub(crate) use provenance::SOFTWARE;

use crate::args::Verb;
use crate::context::{Context, Outcome};
use stempack::Result;

/// Runs a verb.
pub(crate) fn run(verb: &Verb, context: &Context) -> Result<Outcome> {
    match verb {
        Verb::Inspect(args) => inspect::run(args, context),
        Verb::Pack(args) => pack::run(args, context),
        Verb::Verify(args) => verify::run(args, context),
        Verb::Info(args) => info::run(args, context),
        Verb::Frame(args) => frame::run(args, context),
        Verb::Image(args) => image::run(args, context),
        Verb::Com(args) => com::run(args, context),
        Verb::Dpc(args) => dpc::run(args, context),
        Verb::Mean(args) => mean::run(args, context),
        Verb::Disk(args) => disk::run(args, context),
        Verb::Unpack(args) => unpack::run(args, context),
        Verb::Enrich(args) => enrich::run(args, context),
        Verb::Bench(args) => bench::run(args, context),
        Verb::Demo(args) => demo::run(args, context),
    }
}
