//! The readers against files that others wrote, against files written here for one behaviour each, and against damage.
#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "helpers of tests panic and say what they skip"
)]

mod common;
mod corpus_arina;
mod corpus_cases;
mod corpus_emd;
mod corpus_hdf5;
mod damage;
mod emd;
mod emd_stack;
mod emd_storage;
mod frames;
mod generated;
mod layout;
mod metadata;
mod nxem;
mod scan;
mod velox;
mod writer;
