//! `.qem`, the portable saved copy: one self-describing file with checksums, metadata and independently coded columns.
//!
//! ```text
//! offset 0   prefix (56 bytes)      envelope.rs
//! offset 56  JSON header            header.rs, scientific.rs, documents.rs, sample.rs, processing.rs
//! 56 + n     body, chunk by chunk   layout.rs, body.rs
//! ```
//!
//! Reading: [`QemFile::open`] validates everything the header says and reads nothing of the body; frames, products and
//! [`QemFile::verify`] use no byte of it before the checksum of its block has been compared. Writing: [`write`] from
//! any [`FrameSource`](stempack_model::FrameSource); another `.qem` is copied without touching what is encoded.
//! The format is documented in `docs/formats/qem.md`.

mod background;
mod blocks;
mod body;
mod calibration;
mod describe;
mod documents;
mod envelope;
mod file;
mod frames;
mod header;
mod layout;
mod narrow;
mod processing;
mod products;
mod resave;
mod sample;
mod scientific;
mod units;
mod values;
mod verify;
mod write;
mod write_header;

pub use background::{Background, DarkSubtracted};
pub use calibration::Override;
pub use file::{QemFile, QemInfo};
pub use products::QemMoments;
pub use resave::OverrideChange;
pub use write::{QemOptions, QemPlan, QemReport, plan, write};

/// Scan positions that are coded together, in every codec.
pub(crate) const INTERVAL: usize = 512;
/// The reader's contract.
pub const READER: &str = "quantem-qem/v1";

/// How the body is coded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum QemCodec {
    /// Counts of 8 or 16 bits by detector column, with sums of detector tiles.
    Columns,
    /// Single-precision floats as two columns of 16 bits.
    Lanes,
    /// Single-precision floats row by row; read only.
    Xor,
    /// Codes of 16 bits on a scale, restored to single precision; read only.
    Scaled,
}

impl QemCodec {
    /// Every codec.
    pub const ALL: [QemCodec; 4] = [QemCodec::Columns, QemCodec::Lanes, QemCodec::Xor, QemCodec::Scaled];
    /// The identifier in the header.
    pub fn as_str(self) -> &'static str {
        match self {
            QemCodec::Columns => "runtime-column-rans-spatial-v2",
            QemCodec::Lanes => "float32-bit-lanes-rans-v1",
            QemCodec::Xor => "empad-xor-row-packed-v1",
            QemCodec::Scaled => "scaled-uint16-column-rans-v1",
        }
    }
    fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|c| c.as_str() == name)
    }
}
