//! A resident: an acquisition kept compressed in memory, of counts (`counted`) or of floats (`floats`).

use crate::counted::Counted;
use crate::cpu::Kernel;
use crate::floats::Floats;
use crate::frames::Frames;
use crate::held::Held;
use std::sync::Arc;
use stempack_containers::Digest;
use stempack_containers::pack::{MappedPack, PackFile, RawAccess};
use stempack_containers::qem::Background;
use stempack_model::{Exclusions, FrameSource, Result, SampleType, Samples, SamplesMut, Shape4, Task};
use stempack_products::{
    DetectorMask, IMAGE_BYTES, MOMENT_BYTES, Moments, PatternSum, Products, ScanSelection, SumImage,
    room_for_results,
};

/// An acquisition kept compressed in memory.
#[derive(Debug)]
pub struct Resident(pub(crate) Contents);

#[derive(Debug)]
pub(crate) enum Contents {
    Counts(Box<Counted>),
    Floats(Box<Floats>),
}

/// Whether a product can be had, by its stable name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Capability {
    /// Stable name of the product.
    pub product: &'static str,
    /// `resident-on-demand`: computed from the packed data when asked.
    pub availability: &'static str,
    /// `exactInteger` or `exact-integer-then-float64` of counts; of floats `exact-float32-bits` and
    /// `float32-compensated`: sums by the rule of [`reference`](stempack_products::reference), in double precision.
    pub numerics: &'static str,
}

/// What a resident is and takes.
#[derive(Clone, Debug)]
pub struct ResidentReport {
    /// Bytes of samples, tables and bounds held in memory.
    pub resident_bytes: u64,
    /// Bytes among them that lie in the map of a file, where the system may drop them and fetch them again.
    pub mapped_bytes: u64,
    /// Bytes of the dense raw array.
    pub logical_bytes: u64,
    /// `packed`, `bit-planes`, or `mixed` while it is being arranged; `float-lanes` of floats.
    pub layout: &'static str,
    /// Kernel in use.
    pub kernel: &'static str,
    /// How raw values can be read back.
    pub raw_access: RawAccess,
    /// Content identity of the source; absent when its files were not hashed.
    pub source_identity: Option<Digest>,
    /// Identity of the mean dark frame that everything but raw frames is less, if there is one.
    pub background: Option<Digest>,
    /// Products that can be asked for.
    pub capabilities: Vec<Capability>,
}

/// Asks whichever it is.
macro_rules! ask {
    ($resident:expr, $held:ident => $do:expr) => {
        match &$resident.0 {
            Contents::Counts($held) => $do,
            Contents::Floats($held) => $do,
        }
    };
}

impl Resident {
    /// The most memory that loading takes: the shards, and what each thread needs beside the one it loads.
    pub fn needed_bytes(pack: &PackFile) -> u64 {
        Counted::needed_bytes(pack)
    }

    /// Loads and authenticates every shard within the task's memory budget; nothing is returned before all passed.
    ///
    /// # Errors
    /// `resident_over_budget`; those of [`PackFile::load_shard`]; `cancelled`.
    pub fn load(pack: &PackFile, task: &Task) -> Result<Self> {
        Ok(Resident(Contents::Counts(Box::new(Counted::load(pack, task)?))))
    }

    /// As [`load`](Self::load), bitstreams of the u8 profile taken from the map of the file: they are hashed where they
    /// lie and not copied. After every answer the file is asked whether it is still what it was. Shards leave the map as
    /// they are [arranged](Self::arrange).
    ///
    /// # Errors
    /// Those of [`load`](Self::load); `container_changed`, which every later question may give as well.
    pub fn load_mapped(map: &Arc<MappedPack>, task: &Task) -> Result<Self> {
        Ok(Resident(Contents::Counts(Box::new(Counted::load_mapped(map, task)?))))
    }

    pub(crate) fn of(
        frames: Frames,
        shards: Vec<Held>,
        raw_access: RawAccess,
        source_identity: Option<Digest>,
    ) -> Self {
        Resident(Contents::Counts(Box::new(Counted::of(frames, shards, raw_access, source_identity))))
    }

    /// As [`from_source`](Self::from_source), with a mean dark frame that everything but raw frames is less. It is taken
    /// once, in single precision, from each sample before that is summed.
    ///
    /// # Errors
    /// Those of [`from_source`](Self::from_source); `not_representable` for a dark frame of another detector, with
    /// values that are not finite, or for samples that are no float32; `dark_twice` where the source carries one already.
    pub fn from_source_less(
        source: &Arc<dyn FrameSource>,
        background: Background,
        task: &Task,
    ) -> Result<Self> {
        background.check_fits(source.acquisition())?;
        Ok(Resident(Contents::Floats(Box::new(Floats::from_source(source, Some(background), task)?))))
    }

    /// Rearranges every shard in bit planes, in which all questions are answered several times faster. One shard is
    /// unpacked at a time and the packed form of each is given up when its planes are there, so memory grows by no more
    /// than one shard's. Questions may be asked meanwhile; they get the same answers. Floats have one form only, and are
    /// in it.
    ///
    /// # Errors
    /// `resident_over_budget` before a shard is touched whose planes may not fit; `cancelled`. What was arranged until
    /// then stays so.
    pub fn arrange(&self, task: &Task) -> Result<()> {
        match &self.0 {
            Contents::Counts(counts) => counts.arrange(task),
            Contents::Floats(_) => task.check(),
        }
    }

    /// The same resident with another kernel; for tests and benchmarks.
    #[must_use]
    pub fn with_kernel(self, kernel: Kernel) -> Self {
        Resident(match self.0 {
            Contents::Counts(counts) => Contents::Counts(Box::new(counts.with_kernel(kernel))),
            Contents::Floats(floats) => Contents::Floats(Box::new(floats.with_kernel(kernel))),
        })
    }
    /// What it is and takes.
    pub fn report(&self) -> ResidentReport {
        ask!(self, held => held.report())
    }
    /// Bytes that hold the samples of each pixel, in the layout that the resident has by now.
    pub(crate) fn pixel_bytes(&self) -> Vec<u64> {
        ask!(self, held => held.pixel_bytes())
    }
    pub(crate) fn layout(&self) -> &'static str {
        ask!(self, held => held.layout())
    }
    /// One entry per detector pixel.
    pub(crate) fn excluded(&self) -> &[bool] {
        ask!(self, held => held.excluded())
    }
    fn products(&self) -> &dyn Products {
        match &self.0 {
            Contents::Counts(counts) => counts.as_ref(),
            Contents::Floats(floats) => floats.as_ref(),
        }
    }
}

impl Products for Resident {
    fn shape(&self) -> Shape4 {
        self.products().shape()
    }
    fn exclusions(&self) -> &Exclusions {
        self.products().exclusions()
    }
    fn sample_type(&self) -> SampleType {
        self.products().sample_type()
    }
    fn working_type(&self) -> SampleType {
        self.products().working_type()
    }
    fn virtual_image(&self, mask: &DetectorMask, task: &Task) -> Result<SumImage> {
        room_for_results(self.shape(), IMAGE_BYTES, task)?;
        self.products().virtual_image(mask, task)
    }
    fn pattern_sum(&self, task: &Task) -> Result<PatternSum> {
        self.products().pattern_sum(task)
    }
    fn moments(&self, task: &Task) -> Result<Moments> {
        room_for_results(self.shape(), MOMENT_BYTES, task)?;
        self.products().moments(task)
    }
    fn selection_sum(&self, selection: &ScanSelection, task: &Task) -> Result<PatternSum> {
        self.products().selection_sum(selection, task)
    }
    fn working_frame(&self, row: usize, col: usize) -> Result<Samples> {
        self.products().working_frame(row, col)
    }
    fn raw_frame(&self, row: usize, col: usize) -> Result<Samples> {
        self.products().raw_frame(row, col)
    }
    fn raw_positions(&self, first: u64, into: SamplesMut<'_>, task: &Task) -> Result<()> {
        self.products().raw_positions(first, into, task)
    }
    fn working_positions(&self, first: u64, into: SamplesMut<'_>, task: &Task) -> Result<()> {
        self.products().working_positions(first, into, task)
    }
}
