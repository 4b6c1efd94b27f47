//! 4D-STEM acquisitions: open what the instrument wrote, pack it losslessly, prove it, look at it.
//!
//! ```no_run
//! use std::path::Path;
//! use stempack::{DetectorMask, OpenOptions, PackOptions, Products, Task};
//!
//! # fn main() -> stempack::Result<()> {
//! let task = Task::new();
//! let original = stempack::open_original(Path::new("scan_master.h5"), &OpenOptions::default())?;
//! stempack::pack(original.as_ref(), Path::new("scan.pack.h5"), &PackOptions::default(), &task)?;
//!
//! let opened = stempack::open(Path::new("scan.pack.h5"), &OpenOptions::default())?;
//! let products = opened.products(&task)?;
//! let mask = DetectorMask::disk(products.shape().detector, products.exclusions(), 95.5, 95.5, 40.0)?;
//! let bright_field = products.virtual_image(&mask, &task)?;
//! println!("{} counts", bright_field.sum());
//! # Ok(())
//! # }
//! ```

mod bench;
mod bright_field;
mod dark;
pub mod export;
mod opened;
mod qem;

pub use bench::{
    BenchOptions, BenchReport, CacheReport, CacheState, Machine, PHASES as BENCH_PHASES, Phase, Timing, bench,
};
pub use bright_field::{MEASURED_DISK_METHOD, bright_field_disk, measured_disk, recorded_disk};
pub use dark::{Dark, DarkProducts};
pub use opened::{
    Opened, PackInfo, containers_below, is_qem, neither_container, open, open_original, open_source,
    original_products,
};
pub use qem::QemProducts;
pub use stempack_codecs::shard::Profile;
pub use stempack_containers::pack::{
    Check, Comparison, DetectorCalibration, EnrichReport, Enrichment, Evidence, FrameKind, MappedPack,
    PackFile, PackOptions, PackReport, PackSource, Plan, ProfileChoice, RawAccess, Receipt, VerifyReport,
    compare, enrich, pack, plan_pack, receipt_path, verify,
};
pub use stempack_containers::qem::{
    Background, Override, OverrideChange, QemCodec, QemFile, QemInfo, QemOptions, QemPlan, QemReport,
    plan as plan_qem, write as write_qem,
};
pub use stempack_containers::{
    Difference, Digest, Draft, compare_sources, refuse_existing, sha256_file, source_identity,
    tensor_identity,
};
pub use stempack_engine::{
    Capability, DetectorSession, Resident, ResidentReport, Series, ShardReader, UpdateMode, UpdateReport,
    cpu::Kernel,
};
pub use stempack_model::{
    Acquisition, BackgroundSubtraction, DEFAULT_MEMORY_BUDGET, Detail, DetectorShape, Error, ErrorCode,
    Exclusions, FrameSource, Kind, MaskOrigin, Member, MemberDigest, MemberRole, Origin, Overrides, Progress,
    Quantity, Recorded, Result, SampleType, Samples, SamplesMut, SamplesRef, ScanEvidence, ScanShape, Shape4,
    SourceDocument, Stated, Task, Warning, derived, error_codes,
};
pub use stempack_products::{
    BrightFieldDisk, CenterOfMass, Deflections, DetectorMask, DetectorTurn, DiskEvidence, DpcRounding,
    FrameSourceProducts, Moments, PatternSum, Products, ScanRegion, ScanSelection, SumImage, Sums, Total,
    Values, VirtualDetector, disk, display, dpc::log_spectrum, reference, stream_region,
};
pub use stempack_sources::{
    Candidate, Catalog, Explanation, Issue, LAYOUT_PROTOCOL, OpenOptions, ScalarImage, catalog, explain,
    explain_all, is_scalar_image, layout_of, parse_overrides, read_overrides, require_shape, scalar_image,
};

/// The version of this library.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");
