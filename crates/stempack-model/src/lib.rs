//! The vocabulary every other crate speaks: what an acquisition is, where each of its values was read,
//! how its frames are asked for, and how work reports progress, is cancelled and fails.
//!
//! Nothing here opens a file. Axes are always `(scan_row, scan_col, det_row, det_col)`.

mod acquisition;
pub mod derived;
mod error;
mod quantity;
mod sample;
mod shape;
mod source;
mod stated;
mod task;

pub use acquisition::{
    Acquisition, BackgroundSubtraction, Exclusions, MaskOrigin, Member, MemberRole, ScanEvidence,
    SourceDocument, Warning,
};
pub use error::{Detail, Error, ErrorCode, Kind, ModelCode, Result};
pub use quantity::{Origin, Quantity, Recorded};
pub use sample::{SampleType, Samples, SamplesMut, SamplesRef, little_endian_words};
pub use shape::{DetectorShape, ScanShape, Shape4};
pub use source::{FrameSource, MemberDigest};
pub use stated::{Overrides, Stated};
pub use task::{DEFAULT_MEMORY_BUDGET, Progress, Task};
