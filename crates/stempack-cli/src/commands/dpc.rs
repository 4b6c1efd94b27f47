//! `dpc`: beam deflections in the frame of the scan, or the phase they integrate to.

use super::opened::{self, Opened};
use crate::CliCode;
use crate::args::{Dpc, Rotation};
use crate::context::{Context, Outcome};
use crate::results::{Made, Shown, Target, picture};
use serde_json::{Map, json};
use stempack::display::{ColourMap, Picture};
use stempack::{Deflections, DetectorTurn, DpcRounding, Error, Result, SamplesRef};

pub(crate) fn run(args: &Dpc, context: &Context) -> Result<Outcome> {
    if args.exchanged && args.rotation == Some(Rotation::Automatic) {
        let message = "--rotation auto tries both orders of the components, --exchanged states one";
        return Err(Error::new(CliCode::Usage, message));
    }
    let target = Target::new(&args.out)?;
    let opened = opened::open(&args.input, args.dark.dark.as_deref(), context)?;
    let moments = opened.products().moments(context.task())?;
    let rounding = if args.prepared_rounding { DpcRounding::Prepared } else { DpcRounding::Once };
    let measured = Deflections::of(&moments.center_of_mass(), rounding);
    let (turn, evidence) = turn(args, &opened, &measured)?;
    let field = if turn == DetectorTurn::NONE { measured } else { measured.turned(turn) };
    let (rows, cols) = (field.shape.rows(), field.shape.cols());
    let turned = format!("turned by {} degrees ({evidence})", turn.degrees);
    let what = if args.integrate { "integrated phase" } else { "deflections" };
    let mut said = Map::new();
    said.insert("product".into(), if args.integrate { "idpc" } else { "dpc" }.into());
    said.insert("values".into(), "working".into());
    said.insert("rounding".into(), if args.prepared_rounding { "prepared" } else { "once" }.into());
    said.insert(
        "rotation".into(),
        json!({ "degrees": turn.degrees, "exchanged": turn.exchanged, "evidence": evidence }),
    );
    // Two forward, one back.
    said.insert("fft_transforms".into(), if args.integrate { 3 } else { 0 }.into());
    let text = format!("{what}, {turned}");
    let (schema, provenance) = ("stempack.dpc/1", opened.provenance());
    if args.integrate {
        let phase = field.integrated();
        let made = Made { array: SamplesRef::F32(&phase), shape: &[rows, cols], names: &["idpc"] };
        let show = || {
            let numbers: Vec<f64> = phase.iter().map(|&v| f64::from(v)).collect();
            let counted = numbers.iter().copied();
            let (picture, contrast) = picture((rows, cols), &numbers, counted, &args.look, ColourMap::Grey);
            let description = format!("integrated phase of {}, {turned}", opened.label());
            Shown { picture, contrast, scale: opened.scan_scale(), description }
        };
        provenance.deliver(schema, target, &made, said, &text, show, context)?;
    } else {
        let both: Vec<f32> = field.row.iter().chain(&field.col).copied().collect();
        let names = ["dpc_row", "dpc_col"];
        let made = Made { array: SamplesRef::F32(&both), shape: &[2, rows, cols], names: &names };
        let show = || Shown {
            picture: Picture::of_field(&field),
            contrast: None,
            scale: opened.scan_scale(),
            description: format!(
                "deflections of {}, {turned}: hue is direction, brightness size",
                opened.label()
            ),
        };
        provenance.deliver(schema, target, &made, said, &text, show, context)?;
    }
    Ok(Outcome::Done)
}

/// What was asked for, else what the file records, else none.
fn turn(args: &Dpc, opened: &Opened, field: &Deflections) -> Result<(DetectorTurn, &'static str)> {
    match args.rotation {
        Some(Rotation::Automatic) => Ok((field.least_curl()?, "least curl")),
        Some(Rotation::Degrees(degrees)) => {
            Ok((DetectorTurn { degrees, exchanged: args.exchanged }, "stated"))
        }
        None => Ok(match opened.recorded_turn() {
            Some(turn) => (turn, "recorded"),
            None => (DetectorTurn::NONE, "none recorded"),
        }),
    }
}
