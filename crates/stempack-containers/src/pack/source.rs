//! A pack as a source of frames: what it proves to be raw, for those who write other containers or compare.

use super::{FrameDecoder, FrameKind, LoadedShard, PackFile};
use crate::unchanged::Identity;
use crate::{ContainerCode, sha256_file};
use serde_json::Value;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use stempack_model::{
    Acquisition, Error, FrameSource, Member, MemberDigest, MemberRole, ModelCode, Origin, Quantity, Recorded,
    Result, SamplesMut, ScanEvidence, Task,
};

/// Identifier of this reader.
const READER: &str = "stempack-pack/v1";

/// Raw frames of a pack, each shard authenticated before it is used.
pub struct PackSource {
    pack: Arc<PackFile>,
    acquisition: Acquisition,
    identity: Identity,
    decoder: FrameDecoder,
    /// The shard that was read last.
    kept: Mutex<Option<(usize, Arc<LoadedShard>)>>,
}

impl PackSource {
    /// Takes a pack that can prove its raw values.
    ///
    /// # Errors
    /// `raw_not_available`.
    pub fn new(pack: Arc<PackFile>) -> Result<Self> {
        let decoder = pack.decoder(FrameKind::Raw)?;
        let path = pack.path();
        let identity = Identity::of(&std::fs::metadata(path).map_err(|e| Error::io("stat", path, e))?);
        let shape = pack.shape();
        let mut a = Acquisition::new(
            format!("Lossless Pack Format v1, {} profile", pack.profile().as_str()),
            READER,
            shape.scan.positions() as u64,
            shape.detector,
            decoder.sample_type(),
            pack.exclusions(),
        );
        a.label = pack.path().file_stem().unwrap_or_default().to_string_lossy().into_owned();
        a.scan =
            Some(ScanEvidence { shape: shape.scan, evidence: "index of the pack".into(), stated: false });
        a.members =
            vec![Member { path: pack.path().to_owned(), role: MemberRole::Data, bytes: pack.bytes() }];
        quantities(&mut a, &pack);
        Ok(PackSource { identity, pack, acquisition: a, decoder, kept: Mutex::new(None) })
    }

    fn shard(&self, ordinal: usize, task: &Task) -> Result<Arc<LoadedShard>> {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        match &*kept {
            Some((at, shard)) if *at == ordinal => Ok(shard.clone()),
            _ => {
                // The old one goes before the new one comes: one shard is what the budget was made for.
                *kept = None;
                self.pack.room_beside_a_shard(task)?;
                let shard = Arc::new(self.pack.load_shard(ordinal)?);
                *kept = Some((ordinal, shard.clone()));
                Ok(shard)
            }
        }
    }
}

/// The samplings that the manifest records.
fn quantities(a: &mut Acquisition, pack: &PackFile) {
    let file = PathBuf::from(pack.path());
    let file = file.file_name().unwrap_or_default().to_string_lossy();
    let Some(calibration) = pack.manifest().object.get("source_calibration") else { return };
    let number =
        |key: &str| calibration.get(key).and_then(Value::as_f64).filter(|v| v.is_finite() && *v > 0.0);
    let mut put = |quantity: Quantity, key: &str, factor: f64, conversion: &str| {
        if let Some(value) = number(key) {
            let origin =
                Origin { file: file.clone().into_owned(), path: format!("source_calibration/{key}") };
            let conversion = conversion.to_owned();
            a.quantities.insert(
                quantity,
                Recorded { value: value * factor, origin, conversion, flag: quantity.doubt(value * factor) },
            );
        }
    };
    put(Quantity::ScanStepRow, "scan_row_sampling_nm", 10.0, "nm × 10");
    put(Quantity::ScanStepCol, "scan_column_sampling_nm", 10.0, "nm × 10");
    match calibration.get("detector_sampling_unit").and_then(Value::as_str) {
        Some("mrad") => {
            put(Quantity::DetectorAngleRow, "detector_row_sampling", 1.0, "as recorded");
            put(Quantity::DetectorAngleCol, "detector_column_sampling", 1.0, "as recorded");
        }
        Some("1/angstrom") => {
            put(Quantity::DetectorReciprocalRow, "detector_row_sampling", 1.0, "as recorded");
            put(Quantity::DetectorReciprocalCol, "detector_column_sampling", 1.0, "as recorded");
        }
        _ => {}
    }
}

impl FrameSource for PackSource {
    fn acquisition(&self) -> &Acquisition {
        &self.acquisition
    }

    fn read(&self, first_frame: u64, mut into: SamplesMut<'_>, task: &Task) -> Result<()> {
        let pixels = self.acquisition.detector.pixels();
        let count = (into.len() / pixels) as u64;
        if into.sample_type() != self.acquisition.sample || !into.len().is_multiple_of(pixels) {
            return Err(Error::new(
                ContainerCode::WrongBuffer,
                format!(
                    "a buffer of {} {} samples is no whole number of {} {} frames",
                    into.len(),
                    into.sample_type(),
                    self.acquisition.detector,
                    self.acquisition.sample
                ),
            ));
        }
        let Some(stop) = first_frame.checked_add(count).filter(|&stop| stop <= self.acquisition.frame_count)
        else {
            let total = self.acquisition.frame_count;
            return Err(Error::new(
                ModelCode::OutOfRange,
                format!("{count} frames from {first_frame} leave the {total} of the acquisition"),
            ));
        };
        let mut next = first_frame as usize;
        while (next as u64) < stop {
            task.check()?;
            let per_shard = self.pack.scans_per_shard();
            let (ordinal, skip) = (next / per_shard, next % per_shard);
            let loaded = self.shard(ordinal, task)?;
            let scans = (loaded.shard.scans() - skip).min(stop as usize - next);
            let offset = (next - first_frame as usize) * pixels;
            let out = into.reborrow().split_at(offset).1.split_at(scans * pixels).0;
            self.decoder.decode(&loaded.shard, skip, out);
            next += scans;
        }
        Ok(())
    }

    fn frames_together(&self) -> u64 {
        self.pack.profile().tile_scans() as u64
    }

    fn digest_members(&self, task: &Task) -> Result<Vec<MemberDigest>> {
        self.check_unchanged()?;
        let sha256 = sha256_file(self.pack.path(), task)?.0;
        self.check_unchanged()?;
        Ok(vec![MemberDigest { member: 0, role: MemberRole::Data, sha256 }])
    }

    fn check_unchanged(&self) -> Result<()> {
        self.identity.check(self.pack.path())
    }

    fn recorded_sha256(&self) -> Option<[u8; 32]> {
        self.pack.manifest().raw_digest().map(|d| d.0)
    }
}
