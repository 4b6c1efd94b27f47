//! What can be wrong with encoded bytes.

stempack_model::error_codes! {
    /// Failures of the codecs.
    pub enum CodecCode {
        /// A sample width above what the profile allows.
        WidthOutOfRange = "width_out_of_range", Malformed;
        /// A pixel's base or a checkpoint disagrees with the widths before it.
        HeaderChain = "header_chain", Malformed;
        /// Nibbles past the last tile are not zero.
        UnusedNibbles = "unused_nibbles_not_zero", Malformed;
        /// An excluded pixel has payload where the profile forbids it.
        ExcludedHasPayload = "excluded_pixel_has_payload", Malformed;
        /// Widths do not describe exactly the payload that is there.
        PayloadCoverage = "payload_not_covered", Malformed;
        /// A word offset does not fit the descriptor's 27 bits.
        OffsetLimit = "word_offset_limit", Limit;
        /// Block lengths do not describe exactly the compressed payload.
        LengthsCoverage = "block_lengths_not_covered", Malformed;
        /// A compressed block is damaged.
        DamagedBlock = "damaged_block", Malformed;
    }
}
