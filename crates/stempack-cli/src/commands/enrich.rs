//! `enrich`: a new sealed copy of a pack with proven additions to its manifest; the input stays as it is.

use super::provenance::{calibration_document, refuse_any};
use crate::CliCode;
use crate::args::Enrich;
use crate::clock::now_utc;
use crate::context::{Context, Outcome};
use crate::parse::Numbers;
use serde_json::json;
use stempack::{
    DetectorCalibration, Digest, Enrichment, Error, MEASURED_DISK_METHOD, OpenOptions, Opened, Result,
    measured_disk,
};

pub(crate) fn run(args: &Enrich, context: &Context) -> Result<Outcome> {
    let Opened::Pack(pack) = stempack::open(&args.file, &OpenOptions::default())? else {
        return Err(Error::new(CliCode::Usage, format!("`{}` is not a packed file", args.file.display()))
            .hint("pack it first"));
    };
    refuse_any([args.file.as_path()], &args.dest)?;
    let calibration = calibration(args, &Opened::Pack(pack.clone()), context)?;
    if calibration.is_none() && args.raw_values.is_none() && !args.envelopes {
        return Err(Error::new(CliCode::Usage, "nothing to add")
            .hint("give --raw-values, --disk, --measure, --rotation or --envelopes"));
    }
    let enrichment = Enrichment {
        raw_values: args.raw_values.clone(),
        calibration: calibration.clone(),
        envelopes: args.envelopes,
        completed_utc: now_utc(),
        force: args.force,
    };
    let expected = Digest(args.expect_sha256.0);
    let report = stempack::enrich(&pack, expected, &enrichment, &args.dest, context.task())?;
    let document = json!({
        "output": args.dest.display().to_string(),
        "output_bytes": report.output_bytes,
        "output_sha256": report.output_sha256.to_hex(),
        "receipt": report.receipt.display().to_string(),
        "enriched_from_sha256": expected.to_hex(),
        "bright_field_disk": calibration.as_ref().map(calibration_document),
    });
    context.printer.result("stempack.enrich/1", document, || {
        format!(
            "{}: enriched copy of {}\nSHA-256 {}\nreceipt {}\n",
            args.dest.display(),
            args.file.display(),
            report.output_sha256,
            report.receipt.display()
        )
    });
    Ok(Outcome::Done)
}

/// The calibration that is to be recorded: what is stated or measured now, else what the file records.
fn calibration(args: &Enrich, opened: &Opened, context: &Context) -> Result<Option<DetectorCalibration>> {
    if args.disk.is_none() && !args.measure && args.rotation.is_none() {
        return Ok(None);
    }
    let Opened::Pack(pack) = opened else { return Ok(None) };
    let recorded = pack.manifest().calibration.clone();
    let turn = args.rotation.map(|degrees| (degrees, args.exchanged));
    let dpc = turn.or_else(|| recorded.as_ref().and_then(|c| c.dpc));
    let of = |centre_px, bright_field_radius_px, method: &str| DetectorCalibration {
        centre_px,
        bright_field_radius_px,
        dpc,
        method: method.to_owned(),
    };
    if let Some(Numbers([row, col, radius])) = args.disk {
        return Ok(Some(of([row, col], radius, "stated-by-user")));
    }
    if args.measure {
        let products = opened.products(context.task())?;
        let disk = measured_disk(products.as_ref(), context.task())?;
        return Ok(Some(of([disk.centre_row, disk.centre_col], disk.radius, MEASURED_DISK_METHOD)));
    }
    match recorded {
        Some(recorded) => Ok(Some(DetectorCalibration { dpc, ..recorded })),
        None => {
            Err(Error::new(CliCode::Usage, "a rotation is recorded beside a disk, and the file records none")
                .hint("give --disk or --measure too"))
        }
    }
}
