//! The suite for readers finds the faults it is there for: a small reader with one fault at a time.
#![expect(clippy::unwrap_used, reason = "helpers of tests panic")]

use sha2::{Digest, Sha256};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use stempack_model::{
    Acquisition, Error, ErrorCode, FrameSource, Kind, Member, MemberDigest, MemberRole, ModelCode, Result,
    SampleType, SamplesMut, Task,
};
use stempack_testkit::{SourceContract, quiet_acquisition};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    None,
    /// The last frame of a window of three is not written.
    ShortWindow,
    /// Frames beyond the end are zeros.
    NoRange,
    /// Any buffer will do.
    AnyBuffer,
    Uncancellable,
    /// Digest of something else.
    WrongDigest,
    /// Changes are not looked for.
    Unwatched,
    /// What is missing at the end of the file is zeros.
    Padding,
    /// Fewer frames when the file is shorter.
    Fewer,
    /// A header that is cut is no error but a panic.
    Panic,
    /// A quantity that nobody can believe.
    ZeroStep,
}

#[derive(Clone, Copy)]
struct Code(&'static str, Kind);

impl ErrorCode for Code {
    fn code(self) -> &'static str {
        self.0
    }
    fn kind(self) -> Kind {
        self.1
    }
}

const HEADER: usize = 4;
const FRAMES: usize = 6;
const PIXELS: usize = 4;

struct Small {
    acquisition: Acquisition,
    path: PathBuf,
    taken: (u64, u64, i64, i64),
    fault: Fault,
}

fn fingerprint(path: &Path) -> Result<(u64, u64, i64, i64)> {
    let m = std::fs::metadata(path).map_err(|e| Error::io("stat", path, e))?;
    Ok((m.ino(), m.size(), m.mtime_nsec(), m.ctime_nsec()))
}

impl Small {
    fn open(path: &Path, fault: Fault) -> Result<Arc<dyn FrameSource>> {
        let bytes = std::fs::read(path).map_err(|e| Error::io("read", path, e))?;
        let malformed = |text: &str| Err(Error::new(Code("length_mismatch", Kind::Malformed), text));
        if fault == Fault::Panic {
            assert_eq!(&bytes[..HEADER], b"SMAL");
        } else if !bytes.starts_with(b"SMAL") {
            return malformed("no header");
        }
        let mut frames = (bytes.len() - HEADER) / PIXELS;
        if frames != FRAMES {
            match fault {
                Fault::Padding => frames = FRAMES,
                Fault::Fewer if frames > 0 => {}
                _ => return malformed("too short"),
            }
        }
        let mut acquisition = quiet_acquisition((1, frames), (2, 2), SampleType::U8);
        acquisition.members =
            vec![Member { path: path.to_owned(), role: MemberRole::Data, bytes: bytes.len() as u64 }];
        if fault == Fault::ZeroStep {
            let origin = stempack_model::Origin { file: "a".into(), path: "b".into() };
            let step = stempack_model::Recorded { value: 0.0, origin, conversion: String::new(), flag: None };
            acquisition.quantities.insert(stempack_model::Quantity::ScanStepRow, step);
        }
        Ok(Arc::new(Small { acquisition, path: path.to_owned(), taken: fingerprint(path)?, fault }))
    }
}

impl FrameSource for Small {
    fn acquisition(&self) -> &Acquisition {
        &self.acquisition
    }
    fn read(&self, first: u64, into: SamplesMut<'_>, task: &Task) -> Result<()> {
        if self.fault != Fault::Uncancellable {
            task.check()?;
        }
        self.check_unchanged()?;
        let SamplesMut::U8(out) = into else {
            if self.fault == Fault::AnyBuffer {
                return Ok(());
            }
            return Err(Error::new(Code("wrong_buffer", Kind::Usage), "bytes only"));
        };
        if !out.len().is_multiple_of(PIXELS) {
            return Err(Error::new(Code("wrong_buffer", Kind::Usage), "whole frames only"));
        }
        let frames = self.acquisition.frame_count;
        if first.checked_add((out.len() / PIXELS) as u64).is_none_or(|end| end > frames) {
            if self.fault == Fault::NoRange {
                out.fill(0);
                return Ok(());
            }
            return Err(Error::new(ModelCode::OutOfRange, "no such frame"));
        }
        let bytes = std::fs::read(&self.path).map_err(|e| Error::io("read", &self.path, e))?;
        let mut samples = bytes.get(HEADER + first as usize * PIXELS..).unwrap_or_default().to_vec();
        samples.resize(samples.len().max(out.len()), 0);
        let skipped = if self.fault == Fault::ShortWindow && out.len() == 3 * PIXELS { PIXELS } else { 0 };
        let end = out.len() - skipped;
        out[..end].copy_from_slice(&samples[..end]);
        Ok(())
    }
    fn digest_members(&self, task: &Task) -> Result<Vec<MemberDigest>> {
        task.check()?;
        self.check_unchanged()?;
        let bytes = std::fs::read(&self.path).map_err(|e| Error::io("read", &self.path, e))?;
        task.advance(bytes.len() as u64);
        let skipped = if self.fault == Fault::WrongDigest { HEADER } else { 0 };
        let sha256 = Sha256::digest(&bytes[skipped..]).into();
        Ok(vec![MemberDigest { member: 0, role: MemberRole::Data, sha256 }])
    }
    fn check_unchanged(&self) -> Result<()> {
        let changed = || Error::new(Code("source_changed", Kind::Changed), "`small.dat` has changed");
        let same = self.fault == Fault::Unwatched || fingerprint(&self.path).ok() == Some(self.taken);
        if same { Ok(()) } else { Err(changed()) }
    }
}

fn check(fault: Fault) {
    let samples: Vec<u8> = (1..=(FRAMES * PIXELS) as u8).collect();
    SourceContract {
        write: &|folder| {
            let path = folder.join("small.dat");
            std::fs::write(&path, [b"SMAL", samples.as_slice()].concat()).unwrap();
            path
        },
        open: &|path| Small::open(path, fault),
        expected: &samples,
        boundaries: &[("small.dat", &[HEADER as u64])],
    }
    .check();
}

#[test]
fn a_faultless_reader_passes() {
    check(Fault::None);
}

macro_rules! faults {
    ($($name:ident: $fault:ident, $says:literal;)*) => { $(
        #[test]
        #[should_panic(expected = $says)]
        fn $name() {
            check(Fault::$fault);
        }
    )* };
}

faults! {
    a_window_that_is_not_filled_is_found: ShortWindow, "differ";
    frames_that_do_not_exist_are_found: NoRange, "out_of_range";
    a_buffer_of_another_type_is_found: AnyBuffer, "wrong_buffer";
    deafness_to_cancelling_is_found: Uncancellable, "Cancelled";
    a_digest_of_something_else_is_found: WrongDigest, "small.dat";
    a_change_unnoticed_is_found: Unwatched, "goes unnoticed";
    padding_is_found: Padding, "breaks the contract";
    a_part_taken_for_the_whole_is_found: Fewer, "breaks the contract";
    a_panic_is_found: Panic, "breaks the contract";
    an_impossible_quantity_is_found: ZeroStep, "scan_step_row is 0";
}
