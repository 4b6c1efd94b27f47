//! Every way in which an original can be refused.

stempack_model::error_codes! {
    /// Failures of the readers.
    pub enum SourceCode {
        /// No reader recognises the contents.
        UnknownFormat = "unknown_format", NotThisFormat;
        /// A file that should be HDF5 has no HDF5 signature.
        NotHdf5 = "not_hdf5", NotThisFormat;
        /// A folder holds nothing that looks like an acquisition.
        NoAcquisition = "no_acquisition", NotThisFormat;
        /// The HDF5 library cannot make sense of a file that has the signature.
        UnreadableHdf5 = "unreadable_hdf5", Malformed;
        /// A file is marked as being written: another program has it open, or ended without closing it.
        BeingWritten = "being_written", Changed;
        /// Another program has locked a file, and the environment asks for locks to be respected.
        FileLocked = "file_locked", Io;
        /// The HDF5 library does not come back from a file.
        Hdf5Stuck = "hdf5_stuck", Malformed;
        /// A referenced file or dataset is not there.
        MissingMember = "missing_member", Conflict;
        /// Members disagree with each other or with the recorded frame count.
        InconsistentMembers = "inconsistent_members", Conflict;
        /// Several readings are possible and nothing says which one is meant.
        AmbiguousSource = "ambiguous_source", Conflict;
        /// A metadata file names another data file, or none.
        WrongPairing = "wrong_pairing", Conflict;
        /// A metadata text is too large, not UTF-8, malformed, contradicts itself, or asks for more than plain reading.
        UnsafeMetadata = "unsafe_metadata", Malformed;
        /// Words are declared as samples but are encoded.
        EncodedWords = "encoded_words", Unsupported;
        /// A background that is to be subtracted already was.
        AlreadySubtracted = "background_already_subtracted", Conflict;
        /// Dark frames are not those of the data they are meant for.
        DarkMismatch = "dark_mismatch", Conflict;
        /// A link leaves the folder of its file.
        OutsideLink = "outside_link", Unsupported;
        /// Nothing records a scan shape and nobody stated one.
        MissingScanShape = "missing_scan_shape", Conflict;
        /// Recorded or stated scan shapes disagree, or do not fit the frame count.
        ConflictingScanShape = "conflicting_scan_shape", Conflict;
        /// A recorded scan shape is not two positive integers.
        InvalidScanShape = "invalid_scan_shape", Malformed;
        /// A dataset has a rank, type, byte order or layout that is not read.
        UnsupportedLayout = "unsupported_layout", Unsupported;
        /// A dataset is stored through a filter that is not read.
        UnsupportedFilter = "unsupported_filter", Unsupported;
        /// A metadata document does not parse, or lacks or contradicts what its format demands.
        InvalidMetadata = "invalid_metadata", Malformed;
        /// A file holds an image with one number for each scan position, and no frames.
        NotFourDimensional = "not_4d", Unsupported;
        /// Stored samples do not decode, or lie outside their file.
        CorruptPayload = "corrupt_payload", Malformed;
        /// The header or the tags of a file contradict their own grammar.
        MalformedHeader = "malformed_header", Malformed;
        /// A calibration that the format demands is not recorded.
        MissingCalibration = "missing_calibration", Conflict;
        /// A file is shorter or longer than what it describes.
        LengthMismatch = "length_mismatch", Malformed;
        /// Part of a dataset was never written.
        MissingChunk = "missing_chunk", Malformed;
        /// A pixel mask does not describe the detector.
        BadPixelMask = "bad_pixel_mask", Malformed;
        /// A size is beyond what the readers take.
        TooLarge = "too_large", Limit;
        /// A file is no longer the one that was opened.
        SourceChanged = "source_changed", Changed;
        /// A destination has the wrong sample type or is no whole number of frames.
        WrongBuffer = "wrong_buffer", Usage;
    }
}
