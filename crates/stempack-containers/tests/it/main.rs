//! Packs as a whole: the shared corpus, and productions from sources in memory.

#![expect(clippy::unwrap_used, reason = "a failed expectation is a failed test")]

mod corpus;
mod enrich;
mod mutation;
mod produce;
mod properties;
mod qem_corpus;
mod qem_oracle;
mod qem_write;
