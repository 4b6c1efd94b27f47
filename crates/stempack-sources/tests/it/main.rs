//! The readers against files that others wrote, against files written here for one behaviour each, and against damage.
#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "helpers of tests panic and say what they skip"
)]

mod background;
mod common;
mod corpus_arina;
mod corpus_cases;
mod corpus_emd;
mod corpus_empad;
mod corpus_hdf5;
mod corpus_hdf5;
mod damage;
mod damage;
mod dark;
mod emd;
mod emd_stack;
mod emd_storage;
mod empad;
mod frames;
mod generated;
mod layout;
mod metadata;
mod scan;
mod writer;
