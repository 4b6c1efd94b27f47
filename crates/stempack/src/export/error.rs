//! What can keep a result from becoming a file, or a file from being a mask.

stempack_model::error_codes! {
    /// Failures of exports.
    pub enum ExportCode {
        /// The bytes are no `.npy` array.
        NotNpy = "not_npy", NotThisFormat;
        /// An `.npy` array contradicts its own header.
        MalformedNpy = "malformed_npy", Malformed;
        /// A valid `.npy` array of a type or order that is not accepted here.
        UnsupportedNpy = "unsupported_npy", Unsupported;
        /// The destination cannot be a file name.
        InvalidDestination = "invalid_destination", Usage;
        /// A picture cannot be encoded.
        Picture = "picture", Limit;
        /// A name that an image cannot have, or that another has.
        ImageName = "image_name", Usage;
        /// More metadata than a file of images carries.
        MetadataTooLarge = "metadata_too_large", Limit;
        /// The HDF5 library refused to write.
        Hdf5Write = "hdf5_write", Io;
    }
}
