//! `enrich`: a new sealed copy of a pack with proven additions to its manifest; the input stays as it is.

use crate::CliCode;
use crate::args::Enrich;
use crate::clock::now_utc;
use crate::context::{Context, Outcome};
use serde_json::json;
use stempack::{
    BrightFieldDisk, DetectorCalibration, Digest, Enrichment, Error, OpenOptions, Opened, Result,
    bright_field_disk,
};

pub(crate) fn run(args: &Enrich, context: &Context) -> Result<Outcome> {
    let Opened::Pack(pack) = stempack::open(&args.file, &OpenOptions::default())? else {
        return Err(Error::new(CliCode::Usage, format!("`{}` is not a packed file", args.file.display()))
            .hint("pack it first"));
    };
    let calibration = calibration(args, &Opened::Pack(pack.clone()), context)?;
    if calibration.is_none() && args.raw_values.is_none() && !args.envelopes {
        return Err(Error::new(CliCode::Usage, "nothing to add")
            .hint("give --raw-values, --disk, --measure or --envelopes"));
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
        "bright_field_disk": calibration.map(|c| json!({
            "centre": c.centre_px, "bright_field_radius": c.bright_field_radius_px, "method": c.method,
        })),
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

/// The calibration that is stated or measured.
fn calibration(args: &Enrich, opened: &Opened, context: &Context) -> Result<Option<DetectorCalibration>> {
    let (centre_px, bright_field_radius_px, method) = match (&args.disk, args.measure) {
        (Some(numbers), _) => {
            let [row, col, radius] = numbers.0;
            ([row, col], radius, "stated-by-user")
        }
        (None, true) => {
            let products = opened.products(context.task())?;
            let BrightFieldDisk { centre_row, centre_col, radius, .. } =
                bright_field_disk(opened, products.as_ref(), context.task())?;
            ([centre_row, centre_col], radius, "mean-diffraction-half-maximum")
        }
        (None, false) => return Ok(None),
    };
    Ok(Some(DetectorCalibration { centre_px, bright_field_radius_px, dpc: None, method: method.to_owned() }))
}
