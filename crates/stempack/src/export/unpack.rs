//! How a region of frames becomes one `.npy` array: streamed, hashed on the way, never dense in memory.

use super::npy::NpyWriter;
use crate::{Error, Products, Result, SampleType, ScanRegion, Task, Values, stream_region};
use sha2::{Digest, Sha256};
use std::path::Path;
use stempack_containers::ContainerCode;

/// What was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unpacked {
    /// Scan rows and columns of the region, detector rows and columns.
    pub shape: [u64; 4],
    /// Type of the samples.
    pub sample: SampleType,
    /// SHA-256 of the little-endian C-order stream that was written, without the header.
    pub logical_sha256: [u8; 32],
    /// Size of the file.
    pub file_bytes: u64,
}

/// Writes the frames of `region` to `destination`. `recorded` is the digest that the stream must have, where something
/// records one: [`Opened::recorded_sha256`](crate::Opened::recorded_sha256).
///
/// # Errors
/// `digest_mismatch` when the stream has another digest; as [`stream_region`] and [`Output::create`](super::Output::create); nothing is left behind.
pub fn unpack_npy(
    products: &dyn Products,
    region: &ScanRegion,
    values: Values,
    recorded: Option<[u8; 32]>,
    destination: &Path,
    replace: bool,
    task: &Task,
) -> Result<Unpacked> {
    let (detector, sample) = (products.shape().detector, values.sample_type(products));
    let shape =
        [region.rows().len(), region.cols().len(), detector.rows(), detector.cols()].map(|n| n as u64);
    let mut writer = NpyWriter::create(destination, replace, sample, &shape)?;
    let mut digest = Sha256::new();
    let bytes = (region.positions() as u64)
        .saturating_mul(detector.pixels() as u64)
        .saturating_mul(sample.bytes() as u64);
    task.begin("unpack", bytes);
    let streamed = stream_region(products, region, values, task, |_, samples| {
        let bytes = samples.little_endian();
        digest.update(&bytes);
        writer.write_bytes(&bytes)
    });
    task.finish();
    streamed?;
    let logical_sha256: [u8; 32] = digest.finalize().into();
    if let Some(recorded) = recorded.filter(|&recorded| recorded != logical_sha256) {
        return Err(Error::new(
            ContainerCode::DigestMismatch,
            format!(
                "the {} samples hash to {}, the file records {}",
                values.as_str(),
                crate::Digest(logical_sha256),
                crate::Digest(recorded)
            ),
        )
        .hint("the file is damaged: `stempack verify` says where"));
    }
    let file_bytes = writer.publish()?;
    Ok(Unpacked { shape, sample, logical_sha256, file_bytes })
}
