//! Which detector pixels a virtual detector holds.
//!
//! Distances are between pixel indices and the centre (pixel centres lie at integers), compared as squared `f64`:
//! a disk holds `d ≤ r`, an annulus `inner < d ≤ outer`, so a disk and the annulus around it share no pixel. Where pixels
//! have steps in another unit, each axis is scaled by its own before the distance is taken: what is round in that unit
//! is an ellipse of pixels where the steps differ. Excluded pixels are never members.

use crate::ProductCode;
use std::ops::Range;
use stempack_model::{DetectorShape, Error, Exclusions, Result};

/// Largest detector a mask is made for: far beyond any camera, and a membership table of it is still 256 MiB.
const MAX_MASK_PIXELS: usize = 1 << 28;

/// A validated set of admitted detector pixels.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DetectorMask {
    shape: DetectorShape,
    members: Vec<bool>,
    selected: Vec<u32>,
}

impl DetectorMask {
    /// Every admitted pixel.
    ///
    /// # Errors
    /// `mask_too_large`, or `mask_geometry` when an exclusion lies outside the detector.
    pub fn all(shape: DetectorShape, exclusions: &Exclusions) -> Result<Self> {
        Self::build(shape, exclusions, |_, _| true)
    }

    /// Pixels at most `radius` from the centre.
    ///
    /// # Errors
    /// `mask_geometry` when a number is not finite or the radius is negative; otherwise as [`all`](Self::all).
    pub fn disk(
        shape: DetectorShape,
        exclusions: &Exclusions,
        centre_row: f64,
        centre_col: f64,
        radius: f64,
    ) -> Result<Self> {
        Self::disk_of_steps(shape, exclusions, [centre_row, centre_col], radius, [1.0; 2])
    }

    /// Pixels at most `radius` from the centre, which is a pixel (row, column), where neighbouring rows and columns are
    /// `steps` apart in the unit of the radius.
    ///
    /// # Errors
    /// `mask_geometry` for a step that is not finite and positive; otherwise as [`disk`](Self::disk).
    pub fn disk_of_steps(
        shape: DetectorShape,
        exclusions: &Exclusions,
        centre: [f64; 2],
        radius: f64,
        steps: [f64; 2],
    ) -> Result<Self> {
        let distance = squared_distances(centre, steps)?;
        length("radius", radius)?;
        let limit = radius * radius;
        Self::build(shape, exclusions, |r, c| distance(r, c) <= limit)
    }

    /// Pixels more than `inner` and at most `outer` from the centre.
    ///
    /// # Errors
    /// `mask_geometry` when a number is not finite, a radius is negative or `outer < inner`; otherwise as
    /// [`all`](Self::all).
    pub fn annulus(
        shape: DetectorShape,
        exclusions: &Exclusions,
        centre_row: f64,
        centre_col: f64,
        inner: f64,
        outer: f64,
    ) -> Result<Self> {
        Self::annulus_of_steps(shape, exclusions, [centre_row, centre_col], [inner, outer], [1.0; 2])
    }

    /// Pixels more than the first and at most the second of `radii` from the centre; otherwise as
    /// [`disk_of_steps`](Self::disk_of_steps).
    ///
    /// # Errors
    /// `mask_geometry` for a step that is not finite and positive; otherwise as [`annulus`](Self::annulus).
    pub fn annulus_of_steps(
        shape: DetectorShape,
        exclusions: &Exclusions,
        centre: [f64; 2],
        [inner, outer]: [f64; 2],
        steps: [f64; 2],
    ) -> Result<Self> {
        let distance = squared_distances(centre, steps)?;
        length("inner radius", inner)?;
        length("outer radius", outer)?;
        if outer < inner {
            return Err(geometry(format!("outer radius {outer} is smaller than inner radius {inner}")));
        }
        let (above, limit) = (inner * inner, outer * outer);
        Self::build(shape, exclusions, |r, c| {
            let d = distance(r, c);
            d > above && d <= limit
        })
    }

    /// One pixel.
    ///
    /// # Errors
    /// `mask_geometry` outside the detector; otherwise as [`all`](Self::all).
    pub fn point(shape: DetectorShape, exclusions: &Exclusions, row: usize, col: usize) -> Result<Self> {
        if row >= shape.rows() || col >= shape.cols() {
            return Err(geometry(format!("pixel ({row}, {col}) lies outside the {shape} detector")));
        }
        Self::build(shape, exclusions, |r, c| r == row && c == col)
    }

    /// Pixels of half-open row and column ranges.
    ///
    /// # Errors
    /// `mask_geometry` when a range is empty or leaves the detector; otherwise as [`all`](Self::all).
    pub fn rectangle(
        shape: DetectorShape,
        exclusions: &Exclusions,
        rows: Range<usize>,
        cols: Range<usize>,
    ) -> Result<Self> {
        for (name, range, size) in [("rows", &rows, shape.rows()), ("columns", &cols, shape.cols())] {
            if range.start >= range.end || range.end > size {
                return Err(geometry(format!(
                    "{name} {}:{} are empty or leave the {shape} detector",
                    range.start, range.end
                )));
            }
        }
        Self::build(shape, exclusions, |r, c| rows.contains(&r) && cols.contains(&c))
    }

    /// Pixels whose byte is 1 in a row-major array of zeros and ones.
    ///
    /// # Errors
    /// `mask_shape` when the array has another number of pixels, `mask_not_binary` when a byte is neither 0 nor 1;
    /// otherwise as [`all`](Self::all).
    pub fn from_array(shape: DetectorShape, exclusions: &Exclusions, bytes: &[u8]) -> Result<Self> {
        if bytes.len() != shape.pixels() {
            return Err(Error::new(
                ProductCode::MaskShape,
                format!("the mask has {} pixels, the {shape} detector has {}", bytes.len(), shape.pixels()),
            ));
        }
        if let Some((pixel, &value)) = bytes.iter().enumerate().find(|&(_, &b)| b > 1) {
            let (row, col) = (pixel / shape.cols(), pixel % shape.cols());
            return Err(Error::new(
                ProductCode::MaskNotBinary,
                format!("mask value {value} at pixel ({row}, {col}) is neither 0 nor 1"),
            )
            .with("pixel", pixel)
            .hint("a mask says which pixels are summed; weights are not supported"));
        }
        Self::build(shape, exclusions, |r, c| bytes[r * shape.cols() + c] == 1)
    }

    fn build(
        shape: DetectorShape,
        exclusions: &Exclusions,
        member: impl Fn(usize, usize) -> bool,
    ) -> Result<Self> {
        if shape.pixels() > MAX_MASK_PIXELS {
            return Err(Error::new(
                ProductCode::MaskTooLarge,
                format!("a {shape} detector has more than the {MAX_MASK_PIXELS} pixels a mask may hold"),
            ));
        }
        let mut members = Vec::with_capacity(shape.pixels());
        for row in 0..shape.rows() {
            members.extend((0..shape.cols()).map(|col| member(row, col)));
        }
        for &pixel in &exclusions.pixels {
            let Some(m) = members.get_mut(pixel as usize) else {
                return Err(geometry(format!("excluded pixel {pixel} lies outside the {shape} detector")));
            };
            *m = false;
        }
        // The bound above keeps every index within u32.
        let selected = members.iter().enumerate().filter(|&(_, &m)| m).map(|(i, _)| i as u32).collect();
        Ok(DetectorMask { shape, members, selected })
    }

    /// The detector it belongs to.
    pub fn shape(&self) -> DetectorShape {
        self.shape
    }
    /// Row-major membership, one entry for each pixel.
    pub fn members(&self) -> &[bool] {
        &self.members
    }
    /// Row-major indices of the members, strictly increasing.
    pub fn selected(&self) -> &[u32] {
        &self.selected
    }
    /// Number of members.
    pub fn count(&self) -> usize {
        self.selected.len()
    }
    /// Row-major membership as bytes 0 and 1.
    pub fn to_bytes(&self) -> Vec<u8> {
        self.members.iter().map(|&m| m.into()).collect()
    }
    /// Maximal runs of consecutive member indices, in order; a run may pass from one row to the next.
    pub fn runs(&self) -> Vec<Range<usize>> {
        let mut runs: Vec<Range<usize>> = Vec::new();
        for &pixel in &self.selected {
            let pixel = pixel as usize;
            match runs.last_mut() {
                Some(last) if last.end == pixel => last.end = pixel + 1,
                _ => runs.push(pixel..pixel + 1),
            }
        }
        runs
    }
    /// Fails unless the mask was made for `shape`.
    ///
    /// # Errors
    /// `mask_shape`.
    pub fn check_shape(&self, shape: DetectorShape) -> Result<()> {
        if self.shape == shape {
            return Ok(());
        }
        Err(Error::new(
            ProductCode::MaskShape,
            format!("the mask is for a {} detector, the acquisition has {shape}", self.shape),
        ))
    }
}

/// The squared distance of a pixel from the centre, in the unit of the steps.
fn squared_distances(
    [centre_row, centre_col]: [f64; 2],
    [row_step, col_step]: [f64; 2],
) -> Result<impl Fn(usize, usize) -> f64> {
    finite("centre row", centre_row)?;
    finite("centre column", centre_col)?;
    for (name, step) in [("row step", row_step), ("column step", col_step)] {
        finite(name, step)?;
        if step <= 0.0 {
            return Err(geometry(format!("{name} {step} is not positive")));
        }
    }
    Ok(move |row: usize, col: usize| {
        let (dr, dc) = ((row as f64 - centre_row) * row_step, (col as f64 - centre_col) * col_step);
        dr * dr + dc * dc
    })
}

fn geometry(message: String) -> Error {
    Error::new(ProductCode::MaskGeometry, message)
}

fn finite(name: &str, value: f64) -> Result<()> {
    if value.is_finite() { Ok(()) } else { Err(geometry(format!("{name} {value} is not a finite number"))) }
}

fn length(name: &str, value: f64) -> Result<()> {
    finite(name, value)?;
    if value >= 0.0 { Ok(()) } else { Err(geometry(format!("{name} {value} is negative"))) }
}
