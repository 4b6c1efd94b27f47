//! `inspect`: what files and folders are, without reading frames.

use super::{info, opened};
use crate::args::Inspect;
use crate::context::{Context, Outcome};
use crate::describe;
use crate::printer::{error_fields, hex};
use serde_json::{Map, Value, json};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use stempack::{Acquisition, Error, OpenOptions, PackFile, QemFile, Result, require_shape, sha256_file};

pub(crate) fn run(args: &Inspect, context: &Context) -> Result<Outcome> {
    let options = opened::options(args.scan, args.allow_uncalibrated)?;
    let mut report = Report::default();
    for path in &args.paths {
        if !path.is_dir() && PackFile::probe(path)? {
            report.pack(&PackFile::open(path)?, args.digest, context)?;
            continue;
        }
        if stempack::is_qem(path)? {
            report.qem(&QemFile::open(path)?, args.digest, context)?;
            continue;
        }
        let catalog = stempack::catalog(std::slice::from_ref(path), &options, context.task())?;
        for acquisition in &catalog.acquisitions {
            report.acquisition(acquisition, path, &options, args.digest, context)?;
        }
        for issue in &catalog.issues {
            report.issue(&issue.path, &issue.error);
        }
    }
    let document = json!({ "acquisitions": report.acquisitions, "issues": report.issues });
    context.printer.result("stempack.inspect/1", document, || report.text);
    Ok(Outcome::Done)
}

#[derive(Default)]
struct Report {
    acquisitions: Vec<Value>,
    issues: Vec<Value>,
    text: String,
    seen: BTreeSet<PathBuf>,
}

impl Report {
    fn acquisition(
        &mut self,
        acquisition: &Acquisition,
        given: &Path,
        options: &OpenOptions,
        digest: bool,
        context: &Context,
    ) -> Result<()> {
        let entry = acquisition.members.first().map_or_else(|| given.to_owned(), |m| m.path.clone());
        if !self.seen.insert(entry.canonicalize().unwrap_or_else(|_| entry.clone())) {
            return Ok(());
        }
        let digests = if digest {
            let bytes = acquisition.members.iter().map(|m| m.bytes).sum();
            context.task().begin("hash members", bytes);
            let source = stempack::open_original(&entry, options)?;
            let digests = source.digest_members(context.task())?;
            context.task().finish();
            Some(digests)
        } else {
            None
        };
        let path = entry.display().to_string();
        self.acquisitions.push(describe::document(acquisition, &path, digests.as_deref()));
        self.text.push_str(&describe::text(acquisition, &path, digests.as_deref()));
        // Its frames are described all the same, but nothing can be imaged before the shape is stated.
        if let Err(e) = require_shape(acquisition) {
            self.issue(&entry, &e);
        }
        Ok(())
    }

    fn pack(&mut self, pack: &PackFile, digest: bool, context: &Context) -> Result<()> {
        let path = pack.path().display().to_string();
        let mut member = json!({ "path": path, "role": "container", "bytes": pack.bytes() });
        if digest {
            member["sha256"] = hex(&sha256_file(pack.path(), context.task())?.0).into();
        }
        let (shape, exclusions) = (pack.shape().dims(), pack.exclusions());
        let source = pack.manifest().source_note.as_ref().map_or("uint16", |n| n.sample.as_str());
        let axes = ["scan_row", "scan_col", "det_row", "det_col"].into_iter().zip(shape);
        self.acquisitions.push(json!({
            "path": path,
            "format": "Lossless Pack Format v1",
            "reader": "quantem.gpu.lossless-pack-format/v1",
            "profile": pack.profile().as_str(),
            "shape": shape,
            "dtype": source,
            "axes": axes.map(|(name, size)| json!({ "name": name, "size": size })).collect::<Vec<_>>(),
            "quantities": info::quantities(pack),
            "identity": {},
            "source_identity_sha256": pack.source_identity().to_hex(),
            "excluded_pixels": {
                "count": exclusions.pixels.len(), "indices": exclusions.pixels,
                "mask_sha256": pack.manifest().detector_mask_sha256.map(|d| d.to_hex()),
            },
            "members": [member],
            "warnings": [],
        }));
        self.text.push_str(&info::text(pack));
        Ok(())
    }

    fn qem(&mut self, file: &QemFile, digest: bool, context: &Context) -> Result<()> {
        let digests = if digest { Some(super::qem::digests(file, context)?) } else { None };
        let (document, text) = super::qem::inspect(file, digests.as_deref());
        self.acquisitions.push(document);
        self.text.push_str(&text);
        Ok(())
    }

    fn issue(&mut self, path: &Path, error: &Error) {
        let mut issue = Map::new();
        issue.insert("path".into(), path.display().to_string().into());
        for (key, value) in error_fields(error) {
            issue.entry(key).or_insert(value);
        }
        self.issues.push(Value::Object(issue));
        self.text.push_str(&format!("{}: {error}\n", path.display()));
        if let Some(hint) = error.advice() {
            self.text.push_str(&format!("  hint: {hint}\n"));
        }
    }
}
