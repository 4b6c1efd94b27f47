//! What can be wrong with a container, and what can keep one from being made.

stempack_model::error_codes! {
    /// Failures of containers.
    pub enum ContainerCode {
        /// The first bytes are not those of a pack.
        NotAPack = "not_a_pack", NotThisFormat;
        /// The prelude's ranges contradict each other or the file.
        Prelude = "prelude_range", Malformed;
        /// Floats cannot be packed as counts.
        FloatSamples = "float_samples", Unsupported;
        /// The manifest or index is larger than any real one.
        TooLarge = "metadata_too_large", Limit;
        /// The manifest's checksum does not match.
        ManifestCrc = "manifest_crc", Integrity;
        /// The manifest is not strict UTF-8 JSON with one object.
        ManifestJson = "manifest_json", Malformed;
        /// A manifest key is missing or has another type than required.
        ManifestKey = "manifest_key", Malformed;
        /// A manifest value is not what the profile requires.
        ManifestValue = "manifest_value", Malformed;
        /// The manifest and the binary index disagree.
        Disagreement = "index_manifest_disagree", Malformed;
        /// The binary index contradicts itself.
        Index = "index_malformed", Malformed;
        /// A profile revision or header encoding that is not supported.
        UnsupportedRevision = "unsupported_revision", Unsupported;
        /// A shard record contradicts the format.
        Record = "shard_record", Malformed;
        /// A data range lies outside the file or overlaps another.
        Range = "data_range", Malformed;
        /// The detector calibration is invalid or belongs to another source.
        Calibration = "detector_calibration", Malformed;
        /// Prepared moments or images contradict the rest of the file.
        Prepared = "prepared_results", Malformed;
        /// A stored digest does not match the bytes.
        DigestMismatch = "digest_mismatch", Integrity;
        /// A width above eight at an admitted pixel of a file labelled uint8.
        LabelConflict = "uint8_label_conflict", Malformed;
        /// Raw values cannot be reconstructed from this file.
        RawNotAvailable = "raw_not_available", Unsupported;
        /// A pack and a source that it is compared with have other shapes.
        ShapesDiffer = "shapes_differ", Conflict;
        /// A seal was required and none was given.
        Unsealed = "unsealed", Integrity;
        /// The receipt is not a receipt of the expected schema.
        Receipt = "receipt_malformed", Malformed;
        /// The destination exists.
        DestinationExists = "destination_exists", Usage;
        /// The scan shape is not known.
        NoScanShape = "missing_scan_shape", Conflict;
        /// A count does not fit the profile.
        CountTooLarge = "count_too_large", Unsupported;
        /// An excluded pixel is not constant where the profile needs it.
        ExcludedNotConstant = "excluded_pixel_not_constant", Unsupported;
        /// The scan count does not fit the profile.
        ScanCount = "scan_count_not_supported", Unsupported;
        /// Every detector pixel is excluded, which leaves the u8 profile nothing to store.
        NoAdmittedPixel = "no_admitted_pixel", Unsupported;
        /// No shard size satisfies the memory budget and the format's limits.
        NoShardSize = "no_shard_size", Limit;
        /// The first bytes are not those of a `.qem` file.
        NotAQem = "not_a_qem", NotThisFormat;
        /// A predecessor of `.qem` that is no longer used.
        QemRetired = "qem_retired", Unsupported;
        /// A `.qem` file of a container version, codec, codec version or metadata schema that is not known here.
        QemUnsupported = "qem_unsupported", Unsupported;
        /// The prefix of a `.qem` file contradicts itself or the file.
        QemEnvelope = "qem_envelope", Malformed;
        /// The header of a `.qem` file does not match its digest.
        QemHeaderDigest = "qem_header_digest", Integrity;
        /// The header of a `.qem` file is not strict JSON, or one of its keys is not what the format requires.
        QemHeader = "qem_header", Malformed;
        /// The scientific metadata of a `.qem` file contradict their schema.
        QemMetadata = "qem_metadata", Malformed;
        /// The chunk table of a `.qem` file does not describe its body.
        QemLayout = "qem_layout", Malformed;
        /// The stream offsets of a `.qem` chunk do not describe its payload.
        QemStreams = "qem_streams", Malformed;
        /// The spatial index of a `.qem` chunk contradicts itself.
        QemSpatialIndex = "qem_spatial_index", Malformed;
        /// A container is no longer the file that was opened.
        ContainerChanged = "container_changed", Changed;
        /// A sample cannot be stored bit for bit in what the format has.
        NotRepresentable = "not_representable", Unsupported;
        /// A destination has the wrong sample type or is no whole number of frames.
        WrongBuffer = "wrong_buffer", Usage;
        /// Exact integer sums were asked of a file of floats.
        NotCounts = "not_counts", Unsupported;
        /// A calibration that a caller states is not one that the format can carry.
        BadOverride = "invalid_override", Usage;
        /// The name of a `.qem` file does not end in `.qem`.
        QemName = "not_a_qem_name", Usage;
        /// The HDF5 library refused to write.
        Hdf5Write = "hdf5_write", Io;
    }
}
