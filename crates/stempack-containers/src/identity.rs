//! The content identity of a source: which bytes, in which order, whatever they are called; that of a float tensor: which
//! numbers, whatever stores them; and whether a source's samples are those it records.

use crate::{ContainerCode, Digest};
use stempack_model::{Error, FrameSource, MemberDigest, MemberRole, Result, Shape4};

/// Whether all frames of a source, whose samples hash to `read`, are those that it records.
///
/// # Errors
/// `digest_mismatch`.
pub(crate) fn as_recorded(source: &dyn FrameSource, read: Option<Digest>) -> Result<()> {
    match (read, source.recorded_sha256().map(Digest)) {
        (Some(read), Some(recorded)) if read != recorded => Err(Error::new(
            ContainerCode::DigestMismatch,
            format!("the source's samples hash to {read}, it records {recorded}"),
        )
        .hint("the source is damaged: `stempack verify` says where; pack the original acquisition again")),
        _ => Ok(()),
    }
}

/// Aggregate identity over a master (if there is one) and the data members in frame order (facts sheet, section 6).
/// Companions are not part of it.
pub fn source_identity(members: &[MemberDigest]) -> Digest {
    let mut text = b"live4dstem.dataset/v0.1\0".to_vec();
    let of = |role| members.iter().filter(move |m| m.role == role);
    for master in of(MemberRole::Master) {
        text.extend_from_slice(hex::encode(master.sha256).as_bytes());
    }
    for data in of(MemberRole::Data) {
        text.push(0);
        text.extend_from_slice(hex::encode(data.sha256).as_bytes());
    }
    Digest::of(&text)
}

/// Identity of float32 samples of a shape (facts sheet of native formats, section 3.6): the same for every container that
/// holds them. `samples` is the digest of all of them as little-endian words, row-major.
pub fn tensor_identity(shape: Shape4, samples: &Digest) -> Digest {
    let mut text = b"quantem.gpu.empad-tensor/v1\0float32-le\0".to_vec();
    for size in shape.dims() {
        text.extend_from_slice(&(size as u64).to_le_bytes());
    }
    text.extend_from_slice(samples.to_hex().as_bytes());
    Digest::of(&text)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One frame of zeros.
    #[test]
    fn the_worked_tensor() {
        use stempack_model::{DetectorShape, ScanShape};
        let side = DetectorShape::new(128, 128).unwrap();
        let shape = Shape4 { scan: ScanShape::new(1, 1).unwrap(), detector: side };
        let samples = Digest::of(&[0; 65_536]);
        assert_eq!(samples.to_hex(), "de2f256064a0af797747c2b97505dc0b9f3df0de4f489eac731c23ae9ca9cc31");
        let identity = tensor_identity(shape, &samples).to_hex();
        assert_eq!(identity, "0357265d2450541eccd678f0c3bc87cf3b75a11d74d09053ef37ab390dd570e6");
        let narrow = Shape4 { detector: DetectorShape::new(64, 256).unwrap(), ..shape };
        assert_ne!(tensor_identity(narrow, &samples).to_hex(), identity, "the shape counts");
    }

    #[test]
    fn worked_examples_of_the_facts_sheet() {
        let member = |role, bytes: &[u8]| MemberDigest { member: 0, role, sha256: Digest::of(bytes).0 };
        let with_master = [
            member(MemberRole::Master, b"m"),
            member(MemberRole::Data, b"d1"),
            member(MemberRole::Data, b"d2"),
            member(MemberRole::Companion, b"ignored"),
        ];
        assert_eq!(
            source_identity(&with_master).to_hex(),
            "e5ad1be8a73b36c72dc17d5001ad2e8582acf5bf3b3ad843da23f89c257f0734"
        );
        assert_eq!(
            source_identity(&[member(MemberRole::Data, b"d1")]).to_hex(),
            "1b359d59520618b6f72cc4218e8bc6e2a993f48f5551fd7ea5ded7518d9df453"
        );
    }
}
