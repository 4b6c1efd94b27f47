//! Arbitrary sources: packed exactly, the same way every time, or refused by the rule that forbids it.

use proptest::prelude::*;
use sha2::{Digest as _, Sha256};
use stempack_codecs::shard::Profile;
use stempack_containers::pack::{
    Evidence, FrameKind, PackFile, PackOptions, ProfileChoice, RawAccess, pack, receipt_path, verify,
};
use stempack_model::{SampleType, Samples, Task};
use stempack_testkit::{MemorySource, count};

/// Pseudo-random counts up to `max`, small ones more often than large ones.
pub(super) fn counts(seed: u64, len: usize, max: u64) -> Vec<u64> {
    let mut state = seed;
    let mut next = || {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        state >> 33
    };
    (0..len).map(|_| (next() % (max + 1)) >> (next() % 9)).collect()
}

pub(super) fn samples(sample: SampleType, values: &[u64]) -> Samples {
    match sample {
        SampleType::U8 => Samples::U8(values.iter().map(|&v| v as u8).collect()),
        SampleType::U16 => Samples::U16(values.iter().map(|&v| v as u16).collect()),
        SampleType::U32 => Samples::U32(values.iter().map(|&v| v as u32).collect()),
        SampleType::U64 => Samples::U64(values.to_vec()),
        SampleType::I8 => Samples::I8(values.iter().map(|&v| v as i8).collect()),
        SampleType::I16 => Samples::I16(values.iter().map(|&v| v as i16).collect()),
        SampleType::I32 => Samples::I32(values.iter().map(|&v| v as i32).collect()),
        SampleType::I64 => Samples::I64(values.iter().map(|&v| v as i64).collect()),
        SampleType::F32 | SampleType::F64 => panic!("packs hold integers"),
    }
}

const INTEGERS: [SampleType; 8] = [
    SampleType::U8,
    SampleType::U16,
    SampleType::U32,
    SampleType::U64,
    SampleType::I8,
    SampleType::I16,
    SampleType::I32,
    SampleType::I64,
];

/// The largest value of an integer type.
fn largest_of(sample: SampleType) -> u64 {
    sample.max_unsigned().unwrap_or((1 << (8 * sample.bytes() - 1)) - 1)
}

/// What an excluded pixel holds.
#[derive(Clone, Copy, Debug)]
enum Stuck {
    At(u64),
    Flickering(u64),
    OnceAt(u64),
}

#[derive(Clone)]
struct Case {
    scan: (usize, usize),
    detector: (usize, usize),
    sample: SampleType,
    choice: ProfileChoice,
    budget: Option<u64>,
    excluded: Vec<u32>,
    values: Vec<u64>,
}

/// Without the values, which would drown the rest.
impl std::fmt::Debug for Case {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Case { scan, detector, sample, choice, budget, excluded, values } = self;
        let first = &values[..values.len().min(detector.0 * detector.1)];
        let max = values.iter().max();
        write!(f, "scan {scan:?}, detector {detector:?}, {sample}, {choice:?}, budget {budget:?}, ")?;
        write!(f, "excluded {excluded:?}, largest {max:?}, first frame {first:?}")
    }
}

fn case() -> impl Strategy<Value = Case> {
    // Multiples of 32 are what the u8 profile needs, so they must not be rare.
    let side = prop_oneof![2 => 1usize..=40, 1 => prop::sample::select(vec![8, 16, 32])];
    let scan = (side.clone(), side);
    let detector = (1usize..=12, 1usize..=12);
    let sample = prop_oneof![
        3 => prop::sample::select(vec![SampleType::U8, SampleType::U16, SampleType::U32]),
        1 => prop::sample::select(INTEGERS.to_vec()),
    ];
    let choice = prop::sample::select(vec![ProfileChoice::Auto, ProfileChoice::U8, ProfileChoice::U16]);
    // Bits of the largest count; 32 of them only in one admitted sample of the whole source.
    let bits = prop_oneof![4 => 0u32..=8, 3 => 9u32..=16, 1 => 17u32..=32];
    let value = prop_oneof![Just(0), Just(255), Just(65535), Just(u64::from(u32::MAX)), 0u64..=70_000];
    let stuck = prop_oneof![
        5 => value.clone().prop_map(Stuck::At),
        1 => value.clone().prop_map(Stuck::Flickering),
        1 => value.prop_map(Stuck::OnceAt),
    ];
    let stuck = prop_oneof![1 => Just(Vec::new()), 2 => prop::collection::vec((any::<u32>(), stuck), 1..4)];
    // A little above what the program itself takes: small shards, or none.
    let budget = prop_oneof![2 => Just(None), 1 => (12u32..=21).prop_map(|b| Some((24 << 20) + (1 << b)))];
    (scan, detector, sample, choice, bits, stuck, budget, any::<u64>()).prop_map(
        |(scan, detector, sample, choice, bits, stuck, budget, seed)| {
            let (positions, pixels) = (scan.0 * scan.1, detector.0 * detector.1);
            let clip = largest_of(sample);
            let max = ((1u64 << bits) - 1).min(clip);
            let mut values = counts(seed, positions * pixels, if bits > 16 { 300.min(clip) } else { max });
            let at = (seed >> 7) as usize % values.len();
            values[at] = max;
            let mut excluded = Vec::new();
            for (pixel, stuck) in stuck {
                let pixel = pixel as usize % pixels;
                excluded.push(pixel as u32);
                for (k, frame) in values.chunks_mut(pixels).enumerate() {
                    frame[pixel] = match stuck {
                        Stuck::At(v) => v.min(clip),
                        Stuck::Flickering(v) => v.min(clip) >> (k % 3),
                        Stuck::OnceAt(v) => v.min(clip) * u64::from(k + 1 == positions),
                    };
                }
            }
            excluded.sort_unstable();
            excluded.dedup();
            Case { scan, detector, sample, choice, budget, excluded, values }
        },
    )
}

/// The rules, told by the whole array at once.
struct Rules {
    /// The profile that must be chosen, with how raw values come back; or the codes of the rules that forbid it.
    outcome: Result<(Profile, RawAccess), Vec<&'static str>>,
}

impl Rules {
    fn of(case: &Case) -> Self {
        let pixels = case.detector.0 * case.detector.1;
        let is_excluded = |p: usize| case.excluded.contains(&(p as u32));
        let frames = || case.values.chunks(pixels);
        let largest = |excluded: bool| {
            frames()
                .flat_map(|f| f.iter().enumerate().filter(|(p, _)| is_excluded(*p) == excluded))
                .map(|(_, v)| *v)
                .max()
                .unwrap_or(0)
        };
        let (admitted, narrow) = (largest(false), largest(true) <= 0xffff);
        let constant =
            case.excluded.iter().all(|&p| frames().all(|f| f[p as usize] == case.values[p as usize]));
        let mut not_u8 = Vec::new();
        let mut not_u16 = Vec::new();
        let mut unless = |holds: bool, code, u8_only: bool| {
            if !holds {
                not_u8.push(code);
                not_u16.extend((!u8_only).then_some(code));
            }
        };
        unless((case.scan.0 * case.scan.1).is_multiple_of(32), "scan_count_not_supported", true);
        unless(admitted <= 0xff, "count_too_large", true);
        unless(admitted <= 0xffff, "count_too_large", false);
        unless(constant, "excluded_pixel_not_constant", true);
        unless(narrow, "count_too_large", true);
        // Wider constants have a place in the container only as those of u32 sources.
        unless(narrow || case.sample == SampleType::U32, "count_too_large", false);
        unless(narrow || constant, "excluded_pixel_not_constant", false);
        // A u8 payload must not be empty, and excluded pixels have none.
        unless(case.excluded.len() < pixels, "no_admitted_pixel", true);
        let u16_access = match (case.excluded.is_empty(), narrow) {
            (true, _) => RawAccess::NoExclusions,
            (false, true) => RawAccess::RetainedPayload,
            (false, false) => RawAccess::ExtensionConstants,
        };
        let u8_possible = not_u8.is_empty() && case.choice != ProfileChoice::U16;
        let outcome = if u8_possible {
            Ok((Profile::U8, RawAccess::ExclusionConstants))
        } else if case.choice == ProfileChoice::U8 {
            Err(not_u8)
        } else if not_u16.is_empty() {
            Ok((Profile::U16, u16_access))
        } else {
            Err(not_u16)
        };
        Rules { outcome }
    }
}

fn hex(bytes: impl IntoIterator<Item = u8>) -> String {
    hex::encode(Sha256::digest(bytes.into_iter().collect::<Vec<_>>()))
}
fn stream(values: &[u64], bytes: usize) -> String {
    hex(values.iter().flat_map(|v| v.to_le_bytes().into_iter().take(bytes)))
}

fn array(pack: &PackFile, kind: FrameKind) -> (SampleType, Vec<u64>) {
    let decoder = pack.decoder(kind).unwrap();
    let mut all = Vec::new();
    for ordinal in 0..pack.shards().len() {
        let loaded = pack.load_shard(ordinal).unwrap();
        let len = pack.scans_per_shard() * pack.shape().detector.pixels();
        let mut frames = Samples::zeroed(decoder.sample_type(), len);
        decoder.decode(&loaded.shard, 0, frames.as_mut());
        all.extend((0..len).map(|i| count(&frames, i)));
    }
    (decoder.sample_type(), all)
}

fn holds(case: &Case) -> Result<(), TestCaseError> {
    let source = MemorySource::new(case.scan, case.detector, samples(case.sample, &case.values))
        .excluding(&case.excluded);
    let dir = tempfile::tempdir().unwrap();
    let to = dir.path().join("out.h5");
    let options = PackOptions { profile: case.choice, ..PackOptions::default() };
    let task = case.budget.map_or_else(Task::new, |b| Task::new().with_memory_budget(b));
    let expected = Rules::of(case).outcome;
    let report = match (pack(&source, &to, &options, &task), &expected) {
        (Ok(report), Ok(_)) => report,
        (Err(e), _) if e.code() == "over_budget" && case.budget.is_some() => {
            prop_assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
            return Ok(());
        }
        (Err(e), Err(codes)) => {
            prop_assert!(codes.contains(&e.code()), "refused as {}, expected one of {codes:?}", e);
            prop_assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
            return Ok(());
        }
        (Ok(report), Err(codes)) => {
            return Err(TestCaseError::fail(format!(
                "packed as {:?}, forbidden by {codes:?}",
                report.profile
            )));
        }
        (Err(e), Ok(expected)) => {
            return Err(TestCaseError::fail(format!("refused as {e}, expected {expected:?}")));
        }
    };
    let (profile, access) = expected.unwrap();
    prop_assert_eq!(report.profile, profile, "{}", report.reason);
    let packed = PackFile::open(&to).unwrap();
    let manifest = packed.manifest();
    prop_assert_eq!(manifest.raw_access, access);
    prop_assert_eq!(packed.excluded(), &case.excluded[..]);

    let pixels = case.detector.0 * case.detector.1;
    let mut working = case.values.clone();
    working.chunks_mut(pixels).for_each(|f| case.excluded.iter().for_each(|&p| f[p as usize] = 0));
    let (working_type, key) = match profile {
        Profile::U8 => (SampleType::U8, "prepared_uint8_sha256"),
        Profile::U16 => (SampleType::U16, "working_logical_sha256"),
    };
    prop_assert!(array(&packed, FrameKind::Working) == (working_type, working.clone()), "working array");
    prop_assert!(array(&packed, FrameKind::Raw) == (case.sample, case.values.clone()), "raw array");

    let object = serde_json::to_value(&manifest.object).unwrap();
    prop_assert_eq!(&object[key], &stream(&working, working_type.bytes()));
    if access == RawAccess::ExtensionConstants {
        prop_assert!(object.get("source_raw_logical_sha256").is_none());
    } else {
        prop_assert_eq!(&object["source_raw_logical_sha256"], &stream(&case.values, 2));
    }
    if case.sample == SampleType::U16 {
        prop_assert!(object.get("stempack_source").is_none());
    } else {
        let digest = stream(&case.values, case.sample.bytes());
        prop_assert_eq!(&object["stempack_source"]["logical_sha256"], &digest);
    }
    let member = stream(&case.values, case.sample.bytes());
    let identity = hex(b"live4dstem.dataset/v0.1\0\0".iter().copied().chain(member.bytes()));
    prop_assert_eq!(packed.source_identity().to_hex(), identity);

    let bytes = std::fs::read(&to).unwrap();
    prop_assert_eq!(report.output_sha256.to_hex(), hex(bytes.iter().copied()));
    let evidence = Evidence { receipt: Some(receipt_path(&to)), raw_digest: true, ..Evidence::default() };
    let verified = verify(&packed, &evidence, &Task::new()).unwrap();
    prop_assert!(verified.ok() && verified.sealed, "{verified:?}");
    let again = dir.path().join("again.h5");
    pack(&source, &again, &options, &task).unwrap();
    prop_assert!(bytes == std::fs::read(&again).unwrap(), "the second file differs");
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 160, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_source_is_packed_exactly_or_refused_by_its_rule(case in case()) {
        holds(&case)?;
    }
}

/// Every pixel excluded, all zeros, one sample: what the generator meets too seldom.
#[test]
fn the_edges_of_the_rules() {
    for sample in INTEGERS {
        for choice in [ProfileChoice::Auto, ProfileChoice::U8, ProfileChoice::U16] {
            for scan in [(1, 1), (4, 8)] {
                for value in [0, 1, 255, 256, 65535, 65536, u64::from(u32::MAX)] {
                    if value > largest_of(sample) {
                        continue;
                    }
                    for (detector, excluded) in [((1, 1), vec![]), ((1, 1), vec![0]), ((1, 3), vec![0, 1, 2])]
                    {
                        let values = vec![value; scan.0 * scan.1 * detector.0 * detector.1];
                        let case = Case { scan, detector, sample, choice, budget: None, excluded, values };
                        holds(&case).unwrap_or_else(|e| panic!("{case:?}: {e}"));
                    }
                }
            }
        }
    }
}

/// A negative sample is no count: refused with its value and place, whatever the profile.
#[test]
fn negative_samples_are_refused() {
    let frames = Samples::I16((0..32 * 4).map(|i| if i == 77 { -3 } else { 1 }).collect());
    let source = MemorySource::new((4, 8), (2, 2), frames);
    let dir = tempfile::tempdir().unwrap();
    for profile in [ProfileChoice::Auto, ProfileChoice::U8, ProfileChoice::U16] {
        let options = PackOptions { profile, ..PackOptions::default() };
        let error = pack(&source, &dir.path().join("out.h5"), &options, &Task::new()).unwrap_err();
        assert_eq!(error.code(), "count_too_large");
        assert!(
            error.message().contains("count -3 at scan position 19, pixel 1 (row 0, column 1)"),
            "{error}"
        );
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
    }
}

#[test]
fn floats_are_refused_with_what_to_use_instead() {
    let source = MemorySource::new((4, 8), (1, 1), Samples::F32(vec![0.0; 32]));
    let dir = tempfile::tempdir().unwrap();
    let error = pack(&source, &dir.path().join("out.h5"), &PackOptions::default(), &Task::new()).unwrap_err();
    assert_eq!(error.code(), "float_samples");
    assert!(error.advice().is_some_and(|h| h.contains(".qem")));
}
