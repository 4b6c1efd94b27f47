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
        /// An array of a `.qem` chunk does not have the length that scan positions and pixels ask for.
        QemArrayLength = "qem_array_length", Malformed;
        /// Stream offsets of a `.qem` chunk do not describe exactly its payload.
        QemOffsets = "qem_stream_offsets", Malformed;
        /// A `.qem` stream's selector names no way to code it.
        QemSelector = "qem_selector", Malformed;
        /// A `.qem` stream's length contradicts its selector.
        QemStreamLength = "qem_stream_length", Malformed;
        /// A `.qem` sparse stream's positions do not rise within the stream.
        QemSparse = "qem_sparse_positions", Malformed;
        /// A `.qem` entropy-coded stream is damaged.
        QemEntropy = "qem_entropy", Malformed;
        /// A decoded `.qem` count does not fit its sample type.
        QemValueRange = "qem_value_range", Malformed;
        /// The `.qem` spatial index contradicts its chunk's layout.
        QemSpatialLayout = "qem_spatial_layout", Malformed;
        /// A `.qem` spatial sum is not the sum of the decoded counts.
        QemSpatialSum = "qem_spatial_sum", Integrity;
        /// A `.qem` XOR row descriptor contradicts the payload.
        QemXorDescriptor = "qem_xor_descriptor", Malformed;
        /// Encoded streams do not fit the 32-bit offsets of a `.qem` chunk.
        QemPayloadLimit = "qem_payload_limit", Limit;
    }
}
