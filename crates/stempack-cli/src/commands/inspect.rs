//! `inspect`: what files and folders are, without reading frames.

use super::{info, opened};
use crate::CliCode;
use crate::args::Inspect;
use crate::context::{Context, Outcome};
use crate::describe::{self, View};
use crate::printer::{error_fields, hex};
use serde_json::{Map, Value, json};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use stempack::{
    Acquisition, Catalog, Error, Explanation, FrameSource, Issue, Kind, OpenOptions, Overrides, PackFile,
    QemFile, Result, explain_all, neither_container, require_shape, sha256_file,
};

pub(crate) fn run(args: &Inspect, context: &Context) -> Result<Outcome> {
    let options = opened::options(args.scan, args.allow_uncalibrated)?;
    let overrides = match &args.overrides {
        Some(file) => stempack::read_overrides(file)?,
        None => stempack::parse_overrides(&args.set, args.evidence.as_deref().unwrap_or_default())?,
    };
    let mut report = Report { overrides, metadata: args.metadata, ..Report::default() };
    for path in &args.paths {
        if path.is_dir() {
            folder(path, args, &options, &mut report, context)?;
        } else if !report.container(path, args.digest, context)? {
            let catalog = catalog(path, &options, args.explain, context).map_err(neither_container)?;
            report.catalog(&catalog, &options, args.digest, context)?;
        }
    }
    if !report.overrides.is_empty() && (report.originals, report.acquisitions.len()) != (1, 1) {
        let message = "quantities are stated, and the paths are not those of one original acquisition";
        return Err(Error::new(CliCode::SeveralAcquisitions, message).hint("name the one they are stated of"));
    }
    let mut document = json!({ "acquisitions": report.acquisitions, "issues": report.issues });
    let mut text = report.text();
    if args.explain {
        let all = explain_all(&args.paths, context.task())?;
        document["explanations"] = all.iter().map(explanation).collect();
        text.push_str(&all.iter().map(explanation_text).collect::<String>());
    }
    context.printer.result("stempack.inspect/1", document, || text);
    Ok(Outcome::Done)
}

/// The catalog of one input. What is to be explained need not open: why it does not is part of the answer.
fn catalog(path: &Path, options: &OpenOptions, explain: bool, context: &Context) -> Result<Catalog> {
    let inputs = [path.to_owned()];
    match stempack::catalog(&inputs, options, context.task()) {
        Err(error) if explain && error.kind() != Kind::Cancelled && path.exists() => {
            Ok(Catalog { issues: vec![Issue { path: path.to_owned(), error }], ..Catalog::default() })
        }
        other => other,
    }
}

/// The originals of a folder, and then its packs and `.qem` files.
fn folder(
    path: &Path,
    args: &Inspect,
    options: &OpenOptions,
    report: &mut Report,
    context: &Context,
) -> Result<()> {
    let containers = stempack::containers_below(path, context.task())?;
    let mut catalog = match catalog(path, options, args.explain, context) {
        Err(error) if error.code() == "no_acquisition" && !containers.is_empty() => Catalog::default(),
        other => other?,
    };
    // A pack may be named as originals are; that it is none is no news.
    catalog.issues.retain(|issue| !containers.contains(&issue.path));
    report.catalog(&catalog, options, args.digest, context)?;
    for container in containers {
        match report.container(&container, args.digest, context) {
            Err(error) if error.kind() == Kind::Cancelled => return Err(error),
            Err(error) => report.issue(&container, &error),
            Ok(_) => {}
        }
    }
    Ok(())
}

fn explanation(all: &Explanation) -> Value {
    let candidate = |c: &stempack::Candidate| json!({ "format": c.format, "score": c.score, "why": c.why });
    json!({
        "path": all.path.display().to_string(),
        "candidates": all.candidates.iter().map(candidate).collect::<Vec<_>>(),
    })
}

fn explanation_text(all: &Explanation) -> String {
    let line = |c: &stempack::Candidate| match c.score {
        Some(score) => format!("  {:<22} score {score}: {}\n", c.format, c.why),
        None => format!("  {:<22} refused: {}\n", c.format, c.why),
    };
    format!("{}\n{}", all.path.display(), all.candidates.iter().map(line).collect::<String>())
}

#[derive(Default)]
struct Report {
    overrides: Overrides,
    metadata: bool,
    acquisitions: Vec<Value>,
    issues: Vec<Value>,
    /// How many of the acquisitions are originals.
    originals: usize,
    /// One block for each acquisition.
    blocks: Vec<String>,
    /// One row for each, and the remarks below the table.
    rows: Vec<[String; 5]>,
    remarks: String,
    seen: BTreeSet<PathBuf>,
}

impl Report {
    /// A block for one acquisition, a table for several unless everything is asked for.
    fn text(&self) -> String {
        let mut text = if self.blocks.len() > 1 && !self.metadata {
            describe::table(&self.rows)
        } else {
            self.blocks.concat()
        };
        text.push_str(&self.remarks);
        text
    }

    /// What is seen for the first time.
    fn is_new(&mut self, path: &Path) -> bool {
        self.seen.insert(path.canonicalize().unwrap_or_else(|_| path.to_owned()))
    }

    /// Reports a pack or a `.qem` file; false for anything else.
    fn container(&mut self, path: &Path, digest: bool, context: &Context) -> Result<bool> {
        if PackFile::probe(path)? {
            let pack = PackFile::open(path)?;
            if self.is_new(path) {
                self.pack(&pack, digest, context)?;
            }
        } else if stempack::is_qem(path)? {
            let file = QemFile::open(path)?;
            if self.is_new(path) {
                self.qem(&file, digest, context)?;
            }
        } else {
            return Ok(false);
        }
        Ok(true)
    }

    fn catalog(
        &mut self,
        catalog: &Catalog,
        options: &OpenOptions,
        digest: bool,
        context: &Context,
    ) -> Result<()> {
        for issue in &catalog.issues {
            self.issue(&issue.path, &issue.error);
        }
        for (acquisition, given) in catalog.acquisitions.iter().zip(&catalog.entries) {
            self.acquisition(acquisition, given, options, digest, context)?;
        }
        Ok(())
    }

    /// `given` opens the acquisition again; its first member need not, for two XML files may name one RAW.
    fn acquisition(
        &mut self,
        acquisition: &Acquisition,
        given: &Path,
        options: &OpenOptions,
        digest: bool,
        context: &Context,
    ) -> Result<()> {
        let entry = acquisition.members.first().map_or_else(|| given.to_owned(), |m| m.path.clone());
        if !self.is_new(&entry) {
            return Ok(());
        }
        let digests = if digest {
            let bytes = acquisition.members.iter().map(|m| m.bytes).sum();
            context.task().begin("hash members", bytes);
            let source = stempack::open_original(given, options)?;
            let digests = source.digest_members(context.task())?;
            context.task().finish();
            Some(digests)
        } else {
            None
        };
        let path = entry.display().to_string();
        let view = View { digests: digests.as_deref(), overrides: &self.overrides, metadata: self.metadata };
        self.acquisitions.push(describe::document(acquisition, &path, &view));
        self.originals += 1;
        self.blocks.push(describe::text(acquisition, &path, &view));
        self.rows.push(describe::row(acquisition, &path));
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
            "quantities": super::provenance::pack_quantities(pack),
            "identity": {},
            "source_identity_sha256": pack.source_identity().to_hex(),
            "excluded_pixels": {
                "count": exclusions.pixels.len(), "indices": exclusions.pixels,
                "mask_sha256": pack.manifest().detector_mask_sha256.map(|d| d.to_hex()),
            },
            "members": [member],
            "warnings": [],
        }));
        let size = crate::printer::human_bytes(pack.bytes());
        let shown = pack.shape().to_string();
        self.rows.push([path.clone(), "Lossless Pack Format v1".into(), shown, source.into(), size]);
        self.blocks.push(info::text(pack));
        Ok(())
    }

    fn qem(&mut self, file: &QemFile, digest: bool, context: &Context) -> Result<()> {
        let digests = if digest { Some(super::qem::digests(file, context)?) } else { None };
        let (document, text) = super::qem::inspect(file, digests.as_deref(), self.metadata);
        self.acquisitions.push(document);
        self.rows.push(describe::row(file.acquisition(), &file.path().display().to_string()));
        self.blocks.push(text);
        Ok(())
    }

    fn issue(&mut self, path: &Path, error: &Error) {
        let mut issue = Map::new();
        issue.insert("path".into(), path.display().to_string().into());
        for (key, value) in error_fields(error) {
            issue.entry(key).or_insert(value);
        }
        self.issues.push(Value::Object(issue));
        self.remarks.push_str(&format!("{}: {error}\n", path.display()));
        if let Some(hint) = error.advice() {
            self.remarks.push_str(&format!("  hint: {hint}\n"));
        }
    }
}
