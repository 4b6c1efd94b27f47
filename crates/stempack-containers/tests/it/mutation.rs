//! Every single byte of a small file of each kind, changed: refused, or nothing that is read has changed. With a
//! receipt as evidence: always refused. Prelude, index, payload and tables take every other value; the manifest, whose
//! checksum finds them all, every flipped bit and two values more; what nobody reads, one flipped bit in every byte that is
//! not zero and in some of the others.
//!
//! What guards a byte when nobody brings evidence:
//!
//! | bytes | guard |
//! |---|---|
//! | prelude | magic, CRC-32 of the manifest, the index's own magic and its exact length |
//! | manifest | CRC-32, which finds every change of one byte: never accepted, whether anybody reads the key or not |
//! | index | agreement with the manifest, the rules of records, ranges, and the digest of the bitstream |
//! | u8 payload | the bitstream is the payload: its digest |
//! | u16 payload and lengths | the decoded blocks are the bitstream: its digest. LZ4 has several spellings of the same bytes, so a change may decode to what it was, and then nothing that is read has changed |
//! | u8 headers, u16 widths | no digest inside the file. Sums and chains find most changes; two widths in one byte of u8 headers can be exchanged with every sum intact, and then the digest of the working array in the manifest disagrees |
//! | the rest of the user block, HDF5 structure, alignment | nobody reads them |

use super::properties::{counts, samples};
use rayon::prelude::*;
use std::collections::BTreeMap;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Mutex;
use stempack_codecs::shard::Profile;
use stempack_containers::pack::{
    DetectorCalibration, Evidence, FrameKind, PackFile, PackOptions, ProfileChoice, RawAccess, pack, verify,
};
use stempack_model::{Kind, Result, SampleType, Samples, Task};
use stempack_testkit::{MemorySource, count};

/// Everything that a reader of a pack can get out of it.
#[derive(Debug, PartialEq)]
struct View {
    shape: [usize; 4],
    scans_per_shard: usize,
    excluded: Vec<u32>,
    access: RawAccess,
    identity: String,
    mask: [u8; 32],
    manifest: serde_json::Map<String, serde_json::Value>,
    calibration: Option<DetectorCalibration>,
    widths: Vec<u8>,
    working: (SampleType, Vec<u64>),
    raw: (SampleType, Vec<u64>),
}

fn view(pack: &PackFile) -> Result<View> {
    let mut widths = Vec::new();
    let mut array = |kind| {
        let decoder = pack.decoder(kind)?;
        let mut all = Vec::new();
        for ordinal in 0..pack.shards().len() {
            let loaded = pack.load_shard(ordinal)?;
            let len = pack.scans_per_shard() * pack.shape().detector.pixels();
            let mut frames = Samples::zeroed(decoder.sample_type(), len);
            decoder.decode(&loaded.shard, 0, frames.as_mut());
            all.extend((0..len).map(|i| count(&frames, i)));
            widths.extend(loaded.max_widths);
        }
        Ok::<_, stempack_model::Error>((decoder.sample_type(), all))
    };
    let (working, raw) = (array(FrameKind::Working)?, array(FrameKind::Raw)?);
    Ok(View {
        shape: pack.shape().dims(),
        scans_per_shard: pack.scans_per_shard(),
        excluded: pack.excluded().to_vec(),
        access: pack.manifest().raw_access,
        identity: pack.source_identity().to_hex(),
        mask: pack.exclusions().mask_sha256,
        manifest: pack.manifest().object.clone(),
        calibration: pack.manifest().calibration.clone(),
        widths,
        working,
        raw,
    })
}

/// A small valid file, and where its parts are.
struct Specimen {
    dir: tempfile::TempDir,
    bytes: Vec<u8>,
    parts: Vec<(&'static str, std::ops::Range<usize>)>,
    view: View,
}

impl Specimen {
    fn new(source: &MemorySource, choice: ProfileChoice, profile: Profile, access: RawAccess) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("out.h5");
        let options = PackOptions { profile: choice, ..PackOptions::default() };
        assert_eq!(pack(source, &path, &options, &Task::new()).unwrap().profile, profile);
        let bytes = std::fs::read(&path).unwrap();
        let opened = PackFile::open(&path).unwrap();
        assert_eq!(opened.manifest().raw_access, access);
        let view = view(&opened).unwrap();
        assert_eq!(
            view.raw.1,
            (0..source.frames().len()).map(|i| count(source.frames(), i)).collect::<Vec<_>>()
        );
        let word = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap()) as usize;
        let (json, index, index_bytes) = (word(8), word(16), word(20));
        let mut parts =
            vec![("prelude", 0..24), ("manifest", 24..24 + json), ("index", index..index + index_bytes)];
        for shard in opened.shards() {
            for (name, at, len) in [
                ("payload", shard.payload_offset, shard.payload_bytes),
                ("lengths", shard.lengths_offset, shard.lengths_bytes),
                ("widths", shard.widths_offset, shard.widths_bytes),
            ] {
                parts.push((name, at as usize..(at + len) as usize));
            }
        }
        // The receipt moves away, so that only evidence that is brought counts.
        std::fs::rename(dir.path().join("out.h5.receipt.json"), dir.path().join("kept.json")).unwrap();
        Specimen { dir, bytes, parts, view }
    }

    fn part(&self, at: usize) -> &'static str {
        self.parts.iter().find(|(_, range)| range.contains(&at)).map_or("rest", |(name, _)| name)
    }

    /// Judges every change in `changes` (place, new value), each in a copy of the file that is otherwise intact.
    fn judge(&self, changes: &[(usize, u8)], evidence: &Evidence) -> BTreeMap<(&'static str, String), usize> {
        let found = Mutex::new(BTreeMap::new());
        changes.par_chunks(4096).for_each(|changes| {
            let copy = tempfile::NamedTempFile::new_in(self.dir.path()).unwrap();
            std::fs::write(copy.path(), &self.bytes).unwrap();
            let mut counts = BTreeMap::new();
            for &(at, value) in changes {
                copy.as_file().write_all_at(&[value], at as u64).unwrap();
                let outcome = self.outcome(copy.path(), at, value, evidence);
                copy.as_file().write_all_at(&self.bytes[at..=at], at as u64).unwrap();
                *counts.entry((self.part(at), outcome)).or_default() += 1;
            }
            let mut found = found.lock().unwrap();
            counts.into_iter().for_each(|(k, n): (_, usize)| *found.entry(k).or_default() += n);
        });
        found.into_inner().unwrap()
    }

    /// The code of the refusal, the name of the check that fails, or `accepted` after the proof that nothing changed.
    fn outcome(&self, path: &Path, at: usize, value: u8, evidence: &Evidence) -> String {
        let place = || format!("byte {at} ({}): {:#04x} → {value:#04x}", self.part(at), self.bytes[at]);
        let verified = PackFile::open(path).and_then(|p| Ok((verify(&p, evidence, &Task::new())?, p)));
        match verified {
            Err(e) => {
                use Kind::{Integrity, Limit, Malformed, NotThisFormat, Unsupported};
                let said = [Integrity, Limit, Malformed, NotThisFormat, Unsupported].contains(&e.kind());
                assert!(said, "{} is refused as {:?}: {e}", place(), e.kind());
                e.code().to_owned()
            }
            Ok((report, pack)) => match report.checks.iter().find(|c| !c.ok) {
                Some(check) => {
                    assert!(!report.sealed, "{}", place());
                    check.name.to_owned()
                }
                None => {
                    assert_eq!(view(&pack).unwrap(), self.view, "{} is accepted", place());
                    "accepted".to_owned()
                }
            },
        }
    }

    fn check(&self) {
        let (mut all, mut some) = (Vec::new(), Vec::new());
        for (at, &old) in self.bytes.iter().enumerate() {
            let bits = (0..8).map(|bit| old ^ 1 << bit);
            let one = old ^ 1 << (at % 8);
            let (values, few): (Vec<u8>, Vec<u8>) = match self.part(at) {
                "rest" if old == 0 && at % 13 > 0 => continue,
                "rest" => (vec![one], vec![one]),
                "manifest" => (bits.chain([0x00, 0xff]).collect(), vec![one, 0x00, 0xff]),
                _ => ((0..=255).collect(), vec![one, 0x00, 0xff]),
            };
            all.extend(values.into_iter().filter(|v| *v != old).map(|v| (at, v)));
            some.extend(few.into_iter().filter(|v| *v != old).map(|v| (at, v)));
        }
        let found = self.judge(&all, &Evidence::default());
        for ((part, outcome), n) in &found {
            let never = ["prelude", "manifest"].contains(part) && outcome == "accepted";
            assert!(!never, "{n} changes in the {part} are accepted");
        }
        // The test itself must see what it is about: refusals by the digest of the bitstream and by the checksum.
        let count = |part, outcome: &str| found.get(&(part, outcome.to_owned())).copied().unwrap_or(0);
        assert!(count("manifest", "manifest_crc") > 0 && count("payload", "decoded") > 0, "{found:?}");
        let sealed = Evidence { receipt: Some(self.dir.path().join("kept.json")), ..Evidence::default() };
        for ((part, outcome), n) in self.judge(&some, &sealed) {
            assert_ne!(outcome, "accepted", "{n} changes in {part} pass with a receipt");
        }
        let intact = PackFile::open(&self.dir.path().join("out.h5")).unwrap();
        assert!(verify(&intact, &sealed, &Task::new()).unwrap().sealed);
    }
}

/// Small counts with bright pixels at the end of the scan, so that the widths of a pixel differ from tile to tile.
fn values(seed: u64, positions: usize, pixels: usize) -> Vec<u64> {
    let mut values = counts(seed, positions * pixels, 6);
    values.chunks_mut(pixels).skip(96).for_each(|f| f[..5].iter_mut().for_each(|v| *v *= 40));
    values
}
fn stuck(values: &mut [u64], pixels: usize, pixel: usize, value: u64) {
    values.chunks_mut(pixels).for_each(|f| f[pixel] = value);
}

#[test]
fn u8_with_constants() {
    let mut values = values(1, 128, 12);
    stuck(&mut values, 12, 2, 65535);
    stuck(&mut values, 12, 11, 7);
    let source = MemorySource::new((8, 16), (3, 4), samples(SampleType::U16, &values)).excluding(&[2, 11]);
    Specimen::new(&source, ProfileChoice::Auto, Profile::U8, RawAccess::ExclusionConstants).check();
}

/// A whole tile and a short one.
#[test]
fn u16_with_everything_retained() {
    let mut values = values(2, 144, 8);
    values[3] = 4000;
    stuck(&mut values, 8, 7, 60000);
    let source = MemorySource::new((9, 16), (2, 4), samples(SampleType::U16, &values)).excluding(&[5, 7]);
    Specimen::new(&source, ProfileChoice::Auto, Profile::U16, RawAccess::RetainedPayload).check();
}

#[test]
fn u16_with_wide_constants() {
    let mut values = values(3, 144, 6);
    stuck(&mut values, 6, 0, u64::from(u32::MAX));
    let source = MemorySource::new((9, 16), (2, 3), samples(SampleType::U32, &values)).excluding(&[0]);
    Specimen::new(&source, ProfileChoice::Auto, Profile::U16, RawAccess::ExtensionConstants).check();
}

/// An exchange of widths that every sum inside the file survives is found by the working array's digest alone.
#[test]
fn exchanged_widths_are_found_by_the_working_digest() {
    let mut values = values(4, 128, 12);
    values[..96 * 12].iter_mut().for_each(|v| *v = 1);
    let source = MemorySource::new((8, 16), (3, 4), samples(SampleType::U16, &values));
    let specimen = Specimen::new(&source, ProfileChoice::U8, Profile::U8, RawAccess::ExclusionConstants);
    let widths = specimen.parts.iter().find(|(name, _)| *name == "widths").unwrap().1.clone();
    // Per pixel one word of base and one of eight widths; tiles 2 and 3 are the second byte of the latter.
    let at = widths.start + 5;
    let byte = specimen.bytes[at];
    assert!(byte & 15 == 1 && byte >> 4 > 1, "tile 2 holds ones, tile 3 more: {byte:#04x}");
    let found = specimen.judge(&[(at, byte.rotate_left(4))], &Evidence::default());
    assert_eq!(found.into_keys().collect::<Vec<_>>(), [("widths", "working".to_owned())]);
}
