//! What one acquisition is, established from file contents before any frame is read.

use crate::{DetectorShape, Quantity, Recorded, SampleType, ScanShape, Shape4};
use std::collections::BTreeMap;
use std::path::PathBuf;

/// Any source, whatever its vendor: nothing downstream asks where it came from.
#[derive(Clone, Debug)]
pub struct Acquisition {
    /// Short name for people, usually the file stem.
    pub label: String,
    /// Display label of the format, for example `ARINA HDF5`.
    pub format: String,
    /// Identifier of the reader contract that interpreted it.
    pub reader: String,
    /// Number of frames (detector readouts).
    pub frame_count: u64,
    /// Scan shape with its evidence; `None` when nothing records one and nobody stated one.
    pub scan: Option<ScanEvidence>,
    /// Detector rows and columns.
    pub detector: DetectorShape,
    /// Type of the stored samples.
    pub sample: SampleType,
    /// Pixels that never enter a product.
    pub excluded: Exclusions,
    /// Recorded quantities in their one unit each.
    pub quantities: BTreeMap<Quantity, Recorded<f64>>,
    /// Identity texts: `camera_model`, `acquisition_date`, ….
    pub identity: BTreeMap<&'static str, String>,
    /// Sources chosen for calibration and metadata, by the documented keys
    /// (`spatial_calibration_source`, `microscope_metadata_source`, `microscope_metadata_warning`).
    pub provenance: BTreeMap<&'static str, String>,
    /// What a careful reader should know.
    pub warnings: Vec<Warning>,
    /// Files the acquisition consists of: master, data in frame order, companions.
    pub members: Vec<Member>,
    /// Descriptive texts retained from the source, bounded, without interpretation.
    pub retained: Vec<(String, String)>,
    /// How many retainable texts did not fit the bound.
    pub retained_left_out: usize,
    /// Original XML or JSON texts, kept whole.
    pub documents: Vec<SourceDocument>,
    /// What the supplier declared about background subtraction.
    pub background: BackgroundSubtraction,
    /// Unit of the samples, where the file says so.
    pub signal_unit: Option<String>,
}

impl Acquisition {
    /// An acquisition about which nothing but its frames is known.
    pub fn new(
        format: impl Into<String>,
        reader: impl Into<String>,
        frame_count: u64,
        detector: DetectorShape,
        sample: SampleType,
        excluded: Exclusions,
    ) -> Self {
        Acquisition {
            label: String::new(),
            format: format.into(),
            reader: reader.into(),
            frame_count,
            scan: None,
            detector,
            sample,
            excluded,
            quantities: BTreeMap::new(),
            identity: BTreeMap::new(),
            provenance: BTreeMap::new(),
            warnings: Vec::new(),
            members: Vec::new(),
            retained: Vec::new(),
            retained_left_out: 0,
            documents: Vec::new(),
            background: BackgroundSubtraction::Unknown,
            signal_unit: None,
        }
    }

    /// Applies the one rule of quantities to everything recorded: what is impossible is absent, what is unusual is
    /// flagged. Every source does this when it is made.
    pub fn judge_quantities(&mut self) {
        self.quantities.retain(|_, recorded| Quantity::is_possible(recorded.value));
        for (quantity, recorded) in &mut self.quantities {
            if recorded.flag.is_none() {
                recorded.flag = quantity.doubt(recorded.value);
            }
        }
    }

    /// The four axes, when the scan shape is known.
    pub fn shape(&self) -> Option<Shape4> {
        self.scan.as_ref().map(|s| Shape4 { scan: s.shape, detector: self.detector })
    }
}

/// A scan shape and why it is believed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScanEvidence {
    /// Rows × columns.
    pub shape: ScanShape,
    /// Where it was read, or `stated by the user`.
    pub evidence: String,
    /// Whether the caller stated it.
    pub stated: bool,
}

/// A remark with a stable key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Warning {
    /// Stable key.
    pub code: &'static str,
    /// Sentence for people.
    pub message: String,
}

/// Where the mask behind [`Exclusions`] came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MaskOrigin {
    /// The source's own mask, hashed as little-endian u32 words, zeros included.
    SourceMask,
    /// The source has no mask: every pixel is admitted and the identity is that of all zeros.
    ImplicitAllAdmitted,
}

/// Excluded detector pixels and the identity of the mask they were read from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Exclusions {
    /// Row-major pixel indices, strictly increasing.
    pub pixels: Vec<u32>,
    /// SHA-256 of the whole mask as little-endian u32 words (not of the index list).
    pub mask_sha256: [u8; 32],
    /// Whether the source carried a mask.
    pub origin: MaskOrigin,
}

/// What a member file is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemberRole {
    /// Master or header file.
    Master,
    /// File with frames.
    Data,
    /// Metadata beside the data; not part of the content identity.
    Companion,
}

impl MemberRole {
    /// The name used in receipts.
    pub fn as_str(self) -> &'static str {
        match self {
            MemberRole::Master => "master",
            MemberRole::Data => "data",
            MemberRole::Companion => "companion",
        }
    }
}

/// One file of an acquisition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    /// Path as opened.
    pub path: PathBuf,
    /// What it is for.
    pub role: MemberRole,
    /// Size in bytes at open.
    pub bytes: u64,
}

/// An original metadata text, kept whole beside what was interpreted of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourceDocument {
    /// File name without its folder.
    pub filename: String,
    /// `application/xml` or `application/json`.
    pub media_type: &'static str,
    /// The text.
    pub content: String,
    /// SHA-256 of its UTF-8 bytes.
    pub sha256: [u8; 32],
}

/// Whether the supplier says that a background was already subtracted. It proves neither a gain calibration nor that
/// samples are electrons.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum BackgroundSubtraction {
    /// Nothing, or something contradictory, is said.
    #[default]
    Unknown,
    /// A README says so.
    AlreadySubtracted {
        /// Name of the README.
        file: String,
        /// The sentence.
        sentence: String,
    },
}
