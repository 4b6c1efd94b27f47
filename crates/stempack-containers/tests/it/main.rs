//! Packs as a whole: the shared corpus, and productions from sources in memory.

mod corpus;
mod produce;
