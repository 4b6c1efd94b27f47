//! The `.qem` codecs against files that others wrote, against damage, and against every array that chance proposes.
#![expect(clippy::unwrap_used, reason = "helpers of tests panic")]

mod qem_corpus;
mod qem_damage;
mod qem_properties;
