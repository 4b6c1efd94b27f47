//! Counts of 16 bits from samples of any integer type, where excluded pixels may be marked by a larger number.

use crate::error::EngineCode;
use rayon::prelude::*;
use stempack_model::{Error, FrameSource, Result, SampleType, Samples, SamplesRef, Task};

/// What a count must fit: 16 bits.
const LARGEST: u32 = 0xffff;

/// The excluded pixels of an acquisition, and which of them hold a mark.
#[derive(Debug)]
pub(crate) struct Marks {
    pixels: usize,
    /// One entry per detector pixel.
    excluded: Vec<bool>,
    excluded_pixels: Vec<u32>,
    /// Excluded pixels with the value they hold everywhere, where it is no count of 16 bits.
    constants: Vec<(u32, u32)>,
}

impl Marks {
    /// Takes the marks from the first frame, where the samples are such that there may be any.
    ///
    /// # Errors
    /// `count_too_large` for a mark of more than 32 bits; those of the source.
    pub(crate) fn of(source: &dyn FrameSource, task: &Task) -> Result<Self> {
        let acquisition = source.acquisition();
        let pixels = acquisition.detector.pixels();
        let excluded_pixels = acquisition.excluded.pixels.clone();
        let mut excluded = vec![false; pixels];
        excluded_pixels.iter().for_each(|&p| excluded[p as usize] = true);
        let mut constants = Vec::new();
        let narrow = matches!(acquisition.sample, SampleType::U8 | SampleType::U16);
        if !narrow && !excluded_pixels.is_empty() {
            let mut first = Samples::zeroed(acquisition.sample, pixels);
            source.read(0, first.as_mut(), task)?;
            for &pixel in &excluded_pixels {
                let value = integer(first.as_ref(), pixel as usize);
                if u16::try_from(value).is_err() {
                    let wide = u32::try_from(value).map_err(|_| too_large((0, pixel as usize), value))?;
                    constants.push((pixel, wide));
                }
            }
        }
        Ok(Marks { pixels, excluded, excluded_pixels, constants })
    }

    /// Excluded pixels with their marks, in order.
    pub(crate) fn constants(&self) -> &[(u32, u32)] {
        &self.constants
    }
    pub(crate) fn into_excluded(self) -> Vec<bool> {
        self.excluded
    }

    /// The counts of whole frames, `first` being the scan position of the first of them; marks become zero.
    ///
    /// # Errors
    /// `count_too_large`, `excluded_pixel_not_constant`, for the first frame that has such a count.
    pub(crate) fn counts(&self, frames: SamplesRef<'_>, first: usize, counts: &mut Vec<u16>) -> Result<()> {
        counts.resize(frames.len(), 0);
        let each = counts.par_chunks_exact_mut(self.pixels).enumerate();
        let failed = each.filter_map(|(k, counts)| {
            let at = k * self.pixels;
            let frame = frames.slice(at..at + self.pixels);
            self.frame(frame, first + k, counts).err().map(|error| (k, error))
        });
        failed.min_by_key(|(k, _)| *k).map_or(Ok(()), |(_, error)| Err(error))
    }

    fn frame(&self, frame: SamplesRef<'_>, scan: usize, counts: &mut [u16]) -> Result<()> {
        if let SamplesRef::U32(frame) = frame {
            let admitted = frame.iter().zip(&self.excluded).map(|(&v, &e)| if e { 0 } else { v });
            if admitted.fold(0, |or, v| or | v) <= LARGEST {
                counts.iter_mut().zip(frame).for_each(|(count, &v)| *count = v as u16);
                for &pixel in &self.excluded_pixels {
                    let pixel = pixel as usize;
                    counts[pixel] = self.count((scan, pixel), frame[pixel].into())?;
                }
                return Ok(());
            }
        }
        for (pixel, count) in counts.iter_mut().enumerate() {
            *count = self.count((scan, pixel), integer(frame, pixel))?;
        }
        Ok(())
    }

    /// What is kept of the value of a pixel at a scan position.
    fn count(&self, place: (usize, usize), value: i128) -> Result<u16> {
        let mark = self.mark(place.1);
        match u16::try_from(value) {
            Ok(count) if mark.is_none() => Ok(count),
            Err(_) if !self.excluded[place.1] => Err(too_large(place, value)),
            _ if mark.is_some_and(|mark| i128::from(mark) == value) => Ok(0),
            _ => Err(not_constant(place, value)),
        }
    }

    fn mark(&self, pixel: usize) -> Option<u32> {
        if !self.excluded[pixel] {
            return None;
        }
        let at = self.constants.binary_search_by_key(&(pixel as u32), |c| c.0).ok()?;
        Some(self.constants[at].1)
    }
}

fn integer(samples: SamplesRef<'_>, at: usize) -> i128 {
    samples.integer(at).unwrap_or_default()
}

fn too_large((scan, pixel): (usize, usize), value: i128) -> Error {
    Error::new(
        EngineCode::CountTooLarge,
        format!("count {value} at scan position {scan}, pixel {pixel} is no count of 16 bits"),
    )
    .with("scan_position", scan)
    .with("pixel", pixel)
}

fn not_constant((scan, pixel): (usize, usize), value: i128) -> Error {
    Error::new(
        EngineCode::ExcludedNotConstant,
        format!(
            "excluded pixel {pixel} holds {value} at scan position {scan} and another value, one of them being no count \
             of 16 bits"
        ),
    )
    .with("scan_position", scan)
    .with("pixel", pixel)
}
