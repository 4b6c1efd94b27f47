//! The readers against files that others wrote, against files written here for one behaviour each, and against damage.
#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "helpers of tests panic and say what they skip"
)]

mod background;
mod catalog;
mod common;
mod contract;
mod contract_formats;
mod corpus_arina;
mod corpus_dm;
mod corpus_emd;
mod corpus_empad;
mod corpus_hdf5;
mod damage;
mod dark;
mod dm;
mod dm_hostile;
mod dm_writer;
mod emd;
mod emd_stack;
mod emd_storage;
mod empad;
mod frames;
mod generated;
mod layout;
mod metadata;
mod npy;
mod nxem;
mod retained;
mod scan;
mod silent_faults;
mod velox;
mod writer;
