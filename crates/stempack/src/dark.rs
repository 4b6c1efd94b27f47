//! Products less a mean dark frame: taken once from what products are made of, never from raw frames.

use crate::{
    Background, DetectorMask, Digest, Error, Exclusions, FrameSource, FrameSourceProducts, Moments,
    OpenOptions, Opened, PatternSum, Products, Result, SampleType, Samples, SamplesMut, Shape4, SumImage,
    Task,
};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use stempack_containers::qem::DarkSubtracted;
use stempack_sources::{SourceCode, mean_dark};

/// A mean dark frame that belongs to some acquisition, and where it comes from.
#[derive(Clone, Debug, PartialEq)]
pub struct Dark {
    /// The plane and its identity.
    pub background: Background,
    /// The dark frames, or the file that the plane is saved in.
    pub source: PathBuf,
}

impl Dark {
    /// The mean of all frames of the acquisition at `path`, for the frames of `data`. The dark needs no scan shape.
    ///
    /// # Errors
    /// `background_already_subtracted` when evidence says so of either, or a `.qem` file carries a dark frame already;
    /// `dark_mismatch` for a dark of another format, detector, type or exposure, and for the data themselves; those of
    /// opening and reading.
    pub fn of(data: &Opened, path: &Path, options: &OpenOptions, task: &Task) -> Result<Self> {
        let frames = uncorrected(data)?;
        let opened = crate::open(path, &OpenOptions { scan: None, ..*options })?;
        let dark = mean_dark(frames.as_ref(), uncorrected(&opened)?.as_ref(), task)?;
        let background = Background { identity: Digest(dark.identity), values: dark.values };
        Ok(Dark { background, source: path.to_owned() })
    }

    /// The one that is saved in a `.qem` file, which its products are corrected by.
    ///
    /// # Errors
    /// `qem_metadata` when there is something else in its place.
    pub fn saved(opened: &Opened) -> Result<Option<Self>> {
        let Opened::Qem(file) = opened else { return Ok(None) };
        if file.acquisition().sample != SampleType::F32 {
            return Ok(None);
        }
        let background = file.background()?;
        Ok(background.map(|background| Dark { background, source: file.path().to_owned() }))
    }
}

/// Frames from which no dark has been taken yet, as far as anybody says.
fn uncorrected(opened: &Opened) -> Result<Arc<dyn FrameSource>> {
    match opened {
        Opened::Original(source) => Ok(source.clone()),
        Opened::Qem(file) if file.background()?.is_none() => Ok(file.clone()),
        Opened::Qem(file) => Err(Error::new(
            SourceCode::AlreadySubtracted,
            format!("`{}` carries a mean dark frame, which its products subtract", file.path().display()),
        )
        .hint("use it as it is; a second subtraction would be wrong")),
        Opened::Pack(pack) => Err(Error::new(
            SourceCode::DarkMismatch,
            format!(
                "`{}` is a packed file of integers; a mean dark is taken from float32 frames",
                pack.path().display()
            ),
        )),
    }
}

/// Products less a mean dark frame.
pub struct DarkProducts {
    /// What was measured.
    raw: FrameSourceProducts,
    /// What products are made of.
    working: FrameSourceProducts,
}

impl DarkProducts {
    /// Takes frames and what is to be subtracted from each.
    ///
    /// # Errors
    /// Those of [`original_products`](crate::original_products), and `not_representable` for a plane that does not fit.
    pub fn new(source: Arc<dyn FrameSource>, background: Background) -> Result<Self> {
        let raw = crate::original_products(source.clone())?;
        let working = FrameSourceProducts::new(Arc::new(DarkSubtracted::new(source, background)?))?;
        Ok(DarkProducts { raw, working })
    }
}

impl Products for DarkProducts {
    fn shape(&self) -> Shape4 {
        self.raw.shape()
    }
    fn exclusions(&self) -> &Exclusions {
        self.raw.exclusions()
    }
    fn sample_type(&self) -> SampleType {
        self.raw.sample_type()
    }
    fn virtual_image(&self, mask: &DetectorMask, task: &Task) -> Result<SumImage> {
        self.working.virtual_image(mask, task)
    }
    fn pattern_sum(&self, task: &Task) -> Result<PatternSum> {
        self.working.pattern_sum(task)
    }
    fn moments(&self, task: &Task) -> Result<Moments> {
        self.working.moments(task)
    }
    fn working_frame(&self, row: usize, col: usize) -> Result<Samples> {
        self.working.working_frame(row, col)
    }
    fn raw_frame(&self, row: usize, col: usize) -> Result<Samples> {
        self.raw.raw_frame(row, col)
    }
    fn raw_positions(&self, first: u64, into: SamplesMut<'_>, task: &Task) -> Result<()> {
        self.raw.raw_positions(first, into, task)
    }
    fn working_positions(&self, first: u64, into: SamplesMut<'_>, task: &Task) -> Result<()> {
        self.working.working_positions(first, into, task)
    }
    fn check_unchanged(&self) -> Result<()> {
        self.raw.check_unchanged()
    }
}
