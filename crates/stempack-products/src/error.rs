//! The stable failure codes of products.

use stempack_model::error_codes;

error_codes! {
    /// Failures of masks and products.
    pub enum ProductCode {
        /// A mask's geometry is not finite, negative or outside the detector.
        MaskGeometry = "mask_geometry", Usage;
        /// A mask array holds something other than 0 and 1.
        MaskNotBinary = "mask_not_binary", Usage;
        /// A mask belongs to a detector of another shape.
        MaskShape = "mask_shape", Conflict;
        /// A detector has more pixels than a mask may address.
        MaskTooLarge = "mask_too_large", Limit;
        /// 64 bits cannot be proved wide enough for a sum.
        SumOverflow = "sum_overflow", Limit;
        /// There is no bright-field disk to measure because every admitted count is zero.
        NoDisk = "no_disk", Conflict;
        /// No scan shape is recorded or stated, so frames have no scan positions.
        MissingScanShape = "missing_scan_shape", Conflict;
        /// The scan shape and the number of frames disagree.
        ScanFrameMismatch = "scan_frame_mismatch", Conflict;
        /// A scan has too few positions for what is asked.
        ScanTooSmall = "scan_too_small", Usage;
        /// A scan region is empty or leaves the scan.
        RegionOutside = "region_outside", Usage;
        /// A scan region holds no position.
        RegionEmpty = "region_empty", Usage;
        /// A scan region's centre or radius is not finite, or its radius negative.
        RegionGeometry = "region_geometry", Usage;
        /// A scan mask belongs to a scan of another shape.
        ScanMaskShape = "scan_mask_shape", Conflict;
    }
}
