//! `unpack`: frames back as one array, raw unless told otherwise.

use super::opened;
use crate::CliCode;
use crate::args::Unpack;
use crate::context::{Context, Outcome};
use crate::printer::{hex, human_bytes};
use serde_json::{Map, json};
use stempack::export::{Output, unpack_npy};
use stempack::{Digest, Error, Result, SampleType, ScanRegion, Values, tensor_identity};

pub(crate) fn run(args: &Unpack, context: &Context) -> Result<Outcome> {
    if args.output.extension().is_none_or(|e| !e.eq_ignore_ascii_case("npy")) {
        return Err(Error::new(
            CliCode::OutputFormat,
            format!("`{}` does not end in .npy", args.output.display()),
        )
        .with("path", args.output.display().to_string()));
    }
    // Found out before any work: an existing file, a folder that cannot be written.
    drop(Output::create(&args.output, args.force)?);
    let opened = opened::open_frames(&args.input, None, context)?;
    opened.provenance().refuse_source(&args.output)?;
    let products = opened.products();
    let scan = products.shape().scan;
    let region = match &args.region {
        Some(region) => ScanRegion::new(scan, region.rows.clone(), region.cols.clone())?,
        None => ScanRegion::whole(scan),
    };
    let values = if args.working { Values::Working } else { Values::Raw };
    let whole = region == ScanRegion::whole(scan);
    let recorded = opened.what().recorded_sha256(values).filter(|_| whole);
    if let (stempack::Opened::Pack(pack), Values::Working, true, None) =
        (opened.what(), values, whole, recorded)
    {
        // Older files record a digest of the raw samples alone.
        pack.check_raw(context.task())?;
    }
    let done = unpack_npy(products, &region, values, recorded, &args.output, args.force, context.task())?;
    let mut said = Map::new();
    said.insert("output".into(), args.output.display().to_string().into());
    said.insert("shape".into(), json!(done.shape));
    said.insert("dtype".into(), done.sample.as_str().into());
    said.insert("values".into(), values.as_str().into());
    let (rows, cols) = (region.rows(), region.cols());
    said.insert("region".into(), json!([[rows.start, rows.end], [cols.start, cols.end]]));
    said.insert("logical_sha256".into(), hex(&done.logical_sha256).into());
    // The name of these numbers in whatever holds them.
    let whole = rows == (0..scan.rows()) && cols == (0..scan.cols());
    if whole && !args.working && done.sample == SampleType::F32 {
        let identity = tensor_identity(products.shape(), &Digest(done.logical_sha256));
        said.insert("tensor_identity_sha256".into(), identity.to_hex().into());
    }
    said.insert("output_bytes".into(), done.file_bytes.into());
    let text = format!(
        "{} frames of scan rows {}:{}, columns {}:{}, {}, {}, SHA-256 of the samples {}",
        values.as_str(),
        rows.start,
        rows.end,
        cols.start,
        cols.end,
        done.sample,
        human_bytes(done.file_bytes),
        hex(&done.logical_sha256)
    );
    opened.provenance().report("stempack.unpack/1", said, &text, context)?;
    Ok(Outcome::Done)
}
