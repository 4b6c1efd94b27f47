//! What can keep a resident from being loaded or asked.

stempack_model::error_codes! {
    /// Failures of the engine.
    pub enum EngineCode {
        /// The resident does not fit the memory budget.
        OverBudget = "resident_over_budget", Limit;
        /// A count does not fit the 16 bits of a resident.
        CountTooLarge = "count_too_large", Unsupported;
        /// Samples of this type have no resident.
        SampleType = "resident_sample_type", Unsupported;
        /// An excluded pixel holds values that a resident cannot give back.
        ExcludedNotConstant = "excluded_pixel_not_constant", Unsupported;
        /// A mean dark frame would be taken twice.
        DarkTwice = "dark_twice", Conflict;
        /// A resident holds something else than its source.
        NotEqual = "resident_not_equal", Integrity;
        /// A buffer is not a whole number of frames of the right type.
        BufferShape = "buffer_shape", Usage;
        /// A scan position does not exist.
        OutsideScan = "outside_scan", Usage;
        /// A series of no resident.
        SeriesEmpty = "series_empty", Usage;
        /// A resident is in a series twice.
        SeriesTwice = "series_twice", Usage;
        /// Residents of a series have different detectors.
        SeriesDetectors = "series_detectors", Conflict;
    }
}
