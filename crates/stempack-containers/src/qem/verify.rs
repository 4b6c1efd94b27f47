//! Verification: every checksum, every stream, every sum, each as a check with a name.

use super::layout::Block;
use super::{QemCodec, QemFile};
use crate::digest::{Digest, Hasher, sha256_file};
use crate::pack::VerifyReport;
use rayon::prelude::*;
use stempack_model::{FrameSource, Kind, Result, Samples, SamplesRef, Task};

impl QemFile {
    /// Authenticates the whole file: `header`, `background` where a mean dark frame is saved, `body`, `decoded`, `logical` where a digest of the array is recorded,
    /// `spatial-index` for counts, and `whole-file` when the caller says what the file's SHA-256 should be. Strict
    /// verification compares every stored tile sum with the decoded counts; else the index is only held to its bounds.
    ///
    /// A digest or a sum that does not agree is a failed check; streams that contradict the format are an error.
    ///
    /// # Errors
    /// The codecs' codes for malformed streams; `qem_streams`, `qem_spatial_index`; `container_changed`; `io`;
    /// `cancelled`.
    pub fn verify(&self, expected: Option<Digest>, strict: bool, task: &Task) -> Result<VerifyReport> {
        let mut report = VerifyReport::default();
        let info = self.info();
        report.push(
            "header",
            true,
            format!("{}, {} in {} chunks", info.codec.as_str(), info.shape, info.chunks),
        );
        // Products subtract it, so that a file with something else in its place cannot be used.
        if self.background()?.is_some() {
            report.push("background", true, "a finite value for every detector pixel");
        }
        if let Some(expected) = expected {
            task.begin("hash container", info.file_bytes);
            let found = sha256_file(self.path(), task)?;
            task.finish();
            let ok = found == expected;
            let but = if ok { String::new() } else { format!(", expected {expected}") };
            report.push("whole-file", ok, format!("SHA-256 of the file is {found}{but}"));
            report.sealed = ok;
        } else {
            report
                .not_authenticated
                .push("header (its digest lies in the same file; give the expected SHA-256 to seal it)");
        }
        if !self.verify_body(&mut report, task)? {
            return Ok(report);
        }
        self.verify_streams(strict, &mut report, task)?;
        self.check_unchanged()?;
        Ok(report)
    }

    /// Compares every checksum of the body, and decodes nothing.
    ///
    /// # Errors
    /// `digest_mismatch`; `container_changed`; `io`; `cancelled`.
    pub fn verify_checksums(&self, task: &Task) -> Result<()> {
        let quiet = task.quiet();
        (0..self.body.blocks()).into_par_iter().try_for_each(|block| self.body.verify(block, &quiet))
    }

    fn verify_body(&self, report: &mut VerifyReport, task: &Task) -> Result<bool> {
        let blocks = self.body.blocks();
        task.begin("verify checksums", self.header.body_bytes);
        let failed = (0..blocks)
            .into_par_iter()
            .map(|block| {
                let outcome = self.body.verify(block, &task.quiet());
                task.advance(self.header.body_bytes / blocks as u64);
                outcome
            })
            .find_map_first(Result::err);
        task.finish();
        match failed {
            None => report.push("body", true, format!("{blocks} checksums of at most 64 MiB each")),
            Some(e) if e.kind() == Kind::Integrity => report.push("body", false, e.message().to_owned()),
            Some(e) => return Err(e),
        }
        Ok(report.ok())
    }

    fn verify_streams(&self, strict: bool, report: &mut VerifyReport, task: &Task) -> Result<()> {
        let pixels = self.shape().detector.pixels();
        let sample = self.described().sample;
        // Two windows: one is decoded while the other is hashed.
        let room = task.memory_budget() / 4 / (pixels * (sample.bytes() + 4)) as u64;
        let window = (room as usize).clamp(1, super::INTERVAL).min(self.shape().scan.positions());
        let mut now = Samples::zeroed(sample, window * pixels);
        let mut next = Samples::zeroed(sample, window * pixels);
        let mut hasher = Hasher::default();
        let quiet = task.quiet();
        let mut wrong_sum = None;
        let mut pending = 0;
        task.begin("verify frames", self.shape().samples().unwrap_or(u64::MAX));
        for block in self.header.layout.blocks() {
            let spatial = self.encoded_spatial(block, &quiet)?;
            // Bounds of the index, whatever else is asked.
            spatial.as_ref().map_or(Ok(()), |s| self.with_spatial(block, s, |_| Ok(())))?;
            for first in (0..block.scans).step_by(window) {
                task.check()?;
                let count = window.min(block.scans - first);
                let (decoded, ()) = rayon::join(
                    || self.decode(block, first..first + count, next.head_mut(count * pixels), &quiet),
                    || hasher.update(&now.head(pending * pixels).little_endian()),
                );
                decoded?;
                if let (true, None, Some(spatial)) = (strict, &wrong_sum, &spatial) {
                    let frames = next.head(count * pixels);
                    wrong_sum = self.wrong_sum(block, first, spatial, frames)?;
                }
                std::mem::swap(&mut now, &mut next);
                pending = count;
                task.advance((count * pixels) as u64);
            }
        }
        hasher.update(&now.head(pending * pixels).little_endian());
        task.finish();
        report.push("decoded", true, format!("every stream of {} blocks", self.info().blocks));
        let found = hasher.finish();
        match self.logical_sha256() {
            Some(expected) => {
                let ok = found == expected;
                let but = if ok { String::new() } else { format!(", the header says {expected}") };
                report.push("logical", ok, format!("SHA-256 of the array is {found}{but}"));
            }
            None => report.not_authenticated.push("array (the header has no digest of it)"),
        }
        if self.header.codec == QemCodec::Columns {
            match wrong_sum {
                Some(message) => report.push("spatial-index", false, message),
                None if strict => report.push("spatial-index", true, "every tile sum of every scan position"),
                None => {
                    report.push("spatial-index", true, "within its bounds");
                    report
                        .not_authenticated
                        .push("tile sums (compared with the counts by strict verification)");
                }
            }
        }
        Ok(())
    }

    fn wrong_sum(
        &self,
        block: Block,
        first: usize,
        spatial: &super::blocks::EncodedSpatial,
        frames: SamplesRef<'_>,
    ) -> Result<Option<String>> {
        let valid = self.header.valid.as_deref().unwrap_or_default();
        let compared = self.with_spatial(block, spatial, |index| match frames {
            SamplesRef::U8(v) => index.compare(first, v, valid),
            SamplesRef::U16(v) => index.compare(first, v, valid),
            _ => Ok(()),
        });
        match compared {
            Ok(()) => Ok(None),
            Err(e) if e.code() == "qem_spatial_sum" => Ok(Some(e.message().to_owned())),
            Err(e) => Err(e),
        }
    }
}
