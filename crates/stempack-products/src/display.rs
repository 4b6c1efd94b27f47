//! How numbers become a picture: percentile contrast over the pixels that count, a colour map, nearest enlargement.
//!
//! Pictures are for looking at; nothing computes with them.

use crate::{Deflections, Moments};
use stempack_model::Exclusions;

/// Percentiles that become black and white when nobody says otherwise.
pub const DEFAULT_PERCENTILES: (f64, f64) = (1.0, 99.0);
/// Pictures are enlarged until their shorter side has this many pixels.
const SHORT_SIDE: usize = 256;
/// Enlarging stops before a side grows beyond this.
const LONG_SIDE: usize = 4096;

/// Values that become the two ends of the scale.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Contrast {
    /// Shown as the lowest colour, and everything below.
    pub low: f64,
    /// Shown as the highest colour, and everything above.
    pub high: f64,
}

impl Contrast {
    /// Percentiles of the finite values, linearly interpolated between ranks; the whole range when the two percentiles
    /// coincide; `None` when nothing is finite.
    pub fn percentiles(values: impl IntoIterator<Item = f64>, low: f64, high: f64) -> Option<Self> {
        let mut finite: Vec<f64> = values.into_iter().filter(|v| v.is_finite()).collect();
        if finite.is_empty() {
            return None;
        }
        finite.sort_unstable_by(f64::total_cmp);
        let at = |percent: f64| {
            let rank = (percent / 100.0).clamp(0.0, 1.0) * (finite.len() - 1) as f64;
            let below = finite[rank.floor() as usize];
            let step = finite[rank.ceil() as usize] - below;
            // Where the step between two doubles exceeds the largest of them, the lower one will do for a picture.
            if step.is_finite() { below + step * rank.fract() } else { below }
        };
        let contrast = Contrast { low: at(low), high: at(high) };
        if contrast.high > contrast.low {
            return Some(contrast);
        }
        Some(Contrast { low: finite[0], high: finite[finite.len() - 1] })
    }

    /// 0…255 for a value; values that are not finite are 0, and so is everything when both ends coincide.
    pub fn level(&self, value: f64) -> u8 {
        // Halves, because the range of two doubles may exceed the largest of them.
        let range = self.high / 2.0 - self.low / 2.0;
        if !(range > 0.0 && value.is_finite()) {
            return 0;
        }
        // The cast saturates; +0.5 rounds.
        ((value / 2.0 - self.low / 2.0) / range * 255.0 + 0.5) as u8
    }
}

/// Values without those at excluded pixels, for contrast on detector patterns.
pub fn admitted<'a>(values: &'a [f64], exclusions: &'a Exclusions) -> impl Iterator<Item = f64> + 'a {
    let mut excluded = exclusions.pixels.iter().map(|&p| p as usize).peekable();
    values.iter().enumerate().filter_map(move |(pixel, &value)| {
        // Exclusions are strictly increasing, so one pass suffices.
        (excluded.next_if_eq(&pixel).is_none()).then_some(value)
    })
}

/// How levels become colours.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ColourMap {
    /// Black to white.
    #[default]
    Grey,
    /// Perceptually uniform, blue to yellow.
    Viridis,
    /// Perceptually uniform, black over red to yellow.
    Inferno,
    /// Perceptually uniform, black over purple to white.
    Magma,
    /// Perceptually uniform, blue over red to yellow.
    Plasma,
    /// Perceptually uniform and alike for most kinds of colour vision.
    Cividis,
}

impl ColourMap {
    /// Every map, in the order it is listed.
    pub const ALL: [ColourMap; 6] = [
        ColourMap::Grey,
        ColourMap::Viridis,
        ColourMap::Inferno,
        ColourMap::Magma,
        ColourMap::Plasma,
        ColourMap::Cividis,
    ];
    /// The name used on the command line.
    pub fn as_str(self) -> &'static str {
        match self {
            ColourMap::Grey => "grey",
            ColourMap::Viridis => "viridis",
            ColourMap::Inferno => "inferno",
            ColourMap::Magma => "magma",
            ColourMap::Plasma => "plasma",
            ColourMap::Cividis => "cividis",
        }
    }
    /// Colour of a level.
    pub fn colour(self, level: u8) -> [u8; 3] {
        let gradient = match self {
            ColourMap::Grey => return [level; 3],
            ColourMap::Viridis => colorous::VIRIDIS,
            ColourMap::Inferno => colorous::INFERNO,
            ColourMap::Magma => colorous::MAGMA,
            ColourMap::Plasma => colorous::PLASMA,
            ColourMap::Cividis => colorous::CIVIDIS,
        };
        gradient.eval_rational(level.into(), 256).as_array()
    }
}

/// A picture of 8-bit RGB triples, row-major.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Picture {
    width: usize,
    height: usize,
    rgb: Vec<[u8; 3]>,
    enlarged: usize,
}

impl Picture {
    /// A picture of row-major values.
    ///
    /// # Panics
    /// When `values` are not `height × width`.
    pub fn of_values(
        height: usize,
        width: usize,
        values: &[f64],
        contrast: Contrast,
        map: ColourMap,
    ) -> Self {
        assert_eq!(values.len(), height * width, "a picture needs one value for each pixel");
        let colours: Vec<[u8; 3]> = (0..=255).map(|level| map.colour(level)).collect();
        let rgb = values.iter().map(|&v| colours[usize::from(contrast.level(v))]).collect();
        Picture { width, height, rgb, enlarged: 1 }
    }

    /// Direction and size of the centre of mass relative to its mean: the hue is the direction, the brightness the
    /// distance, full at its 99th percentile. Positions without a centre are black.
    pub fn of_directions(moments: &Moments) -> Self {
        let com = moments.center_of_mass();
        let defined = moments.defined();
        let counted = |i: &usize| defined[*i];
        let n = (0..defined.len()).filter(counted).count().max(1) as f64;
        let mean = |v: &[f64]| (0..v.len()).filter(counted).map(|i| v[i]).sum::<f64>() / n;
        let (mean_row, mean_col) = (mean(com.rows()), mean(com.cols()));
        let shifts: Vec<Option<(f64, f64)>> = (0..defined.len())
            .map(|i| counted(&i).then(|| (com.rows()[i] - mean_row, com.cols()[i] - mean_col)))
            .collect();
        Self::of_shifts((moments.shape.rows(), moments.shape.cols()), &shifts)
    }

    /// Direction and size of deflections, as [`of_directions`](Self::of_directions).
    pub fn of_field(field: &Deflections) -> Self {
        let shifts: Vec<Option<(f64, f64)>> = field
            .row
            .iter()
            .zip(&field.col)
            .map(|(&r, &c)| (r.is_finite() && c.is_finite()).then(|| (r.into(), c.into())))
            .collect();
        Self::of_shifts((field.shape.rows(), field.shape.cols()), &shifts)
    }

    fn of_shifts((height, width): (usize, usize), shifts: &[Option<(f64, f64)>]) -> Self {
        let sizes = shifts.iter().flatten().map(|(r, c)| r.hypot(*c));
        let contrast =
            Contrast { low: 0.0, high: Contrast::percentiles(sizes, 0.0, 99.0).map_or(0.0, |c| c.high) };
        let colour = |shift: &Option<(f64, f64)>| {
            let Some((row, col)) = *shift else { return [0; 3] };
            let turn = row.atan2(col) / std::f64::consts::TAU;
            let hue = colorous::SINEBOW.eval_continuous(turn.rem_euclid(1.0)).as_array();
            let brightness = u16::from(contrast.level(row.hypot(col)));
            hue.map(|c| (u16::from(c) * brightness / 255) as u8)
        };
        Picture { width, height, rgb: shifts.iter().map(colour).collect(), enlarged: 1 }
    }

    /// Width in pixels.
    pub fn width(&self) -> usize {
        self.width
    }
    /// Height in pixels.
    pub fn height(&self) -> usize {
        self.height
    }
    /// How often every original pixel is repeated along each side.
    pub fn enlarged(&self) -> usize {
        self.enlarged
    }
    /// Colours, row-major.
    pub fn rgb(&self) -> &[[u8; 3]] {
        &self.rgb
    }
    /// Whether no pixel has a colour.
    pub fn is_grey(&self) -> bool {
        self.rgb.iter().all(|[r, g, b]| r == g && g == b)
    }
    /// Sets one pixel; pixels outside are ignored.
    pub fn set(&mut self, row: usize, col: usize, colour: [u8; 3]) {
        if row < self.height && col < self.width {
            self.rgb[row * self.width + col] = colour;
        }
    }

    /// Repeats pixels by a whole factor so that the shorter side has at least 256.
    #[must_use]
    pub fn enlarge_small(self) -> Self {
        let (short, long) = (self.width.min(self.height).max(1), self.width.max(self.height).max(1));
        let factor = SHORT_SIDE.div_ceil(short).min(LONG_SIDE / long).max(1);
        self.enlarge(factor)
    }

    /// Repeats every pixel `factor` times along each side.
    #[must_use]
    pub fn enlarge(self, factor: usize) -> Self {
        if factor <= 1 {
            return self;
        }
        let mut rgb = Vec::with_capacity(self.rgb.len() * factor * factor);
        for row in self.rgb.chunks_exact(self.width) {
            let wide: Vec<[u8; 3]> = row.iter().flat_map(|&c| std::iter::repeat_n(c, factor)).collect();
            for _ in 0..factor {
                rgb.extend_from_slice(&wide);
            }
        }
        Picture {
            width: self.width * factor,
            height: self.height * factor,
            rgb,
            enlarged: self.enlarged * factor,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Sums;
    use stempack_model::{MaskOrigin, ScanShape};

    #[test]
    fn percentiles_interpolate_between_ranks() {
        // Five values: the 25th percentile is the second, the 90th lies 0.6 of the way from the fourth to the fifth.
        let c = Contrast::percentiles([5.0, 1.0, f64::NAN, 3.0, 2.0, 10.0], 25.0, 90.0).unwrap();
        assert_eq!(c, Contrast { low: 2.0, high: 5.0 + 0.6 * 5.0 });
        assert_eq!(Contrast::percentiles([f64::NAN, f64::INFINITY], 1.0, 99.0), None);
    }

    #[test]
    fn a_sparse_image_keeps_its_range() {
        let mut values = vec![0.0; 1000];
        values[17] = 8.0;
        assert_eq!(Contrast::percentiles(values, 1.0, 99.0), Some(Contrast { low: 0.0, high: 8.0 }));
    }

    #[test]
    fn levels_round_and_saturate() {
        let c = Contrast { low: 10.0, high: 20.0 };
        let levels = [9.0, 10.0, 15.0, 20.0, 21.0, f64::NAN, f64::INFINITY].map(|v| c.level(v));
        assert_eq!(levels, [0, 0, 128, 255, 255, 0, 0]);
        assert_eq!(Contrast { low: 3.0, high: 3.0 }.level(3.0), 0);
        let widest = Contrast { low: -f64::MAX, high: f64::MAX };
        assert_eq!([-f64::MAX, 0.0, f64::MAX].map(|v| widest.level(v)), [0, 128, 255]);
    }

    #[test]
    fn excluded_pixels_do_not_set_the_contrast() {
        let exclusions =
            Exclusions { pixels: vec![0, 3], mask_sha256: [0; 32], origin: MaskOrigin::SourceMask };
        assert_eq!(admitted(&[9.0, 1.0, 2.0, 9.0, 3.0], &exclusions).collect::<Vec<_>>(), [1.0, 2.0, 3.0]);
    }

    #[test]
    fn uniform_maps_grow_brighter() {
        let luminance =
            |[r, g, b]: [u8; 3]| 0.2126 * f64::from(r) + 0.7152 * f64::from(g) + 0.0722 * f64::from(b);
        for map in ColourMap::ALL {
            let l: Vec<f64> = (0..=255).step_by(15).map(|v| luminance(map.colour(v))).collect();
            assert!(l.windows(2).all(|w| w[0] < w[1]), "{map:?} {l:?}");
        }
        assert_eq!(ColourMap::Grey.colour(77), [77; 3]);
    }

    #[test]
    fn small_pictures_are_repeated_whole() {
        let contrast = Contrast { low: 0.0, high: 5.0 };
        let p =
            Picture::of_values(2, 3, &[0.0, 1.0, 2.0, 3.0, 4.0, 5.0], contrast, ColourMap::Grey).enlarge(2);
        assert_eq!((p.height(), p.width(), p.enlarged()), (4, 6, 2));
        assert_eq!(p.rgb()[6 + 3], [51; 3]);
        assert_eq!(p.rgb()[2 * 6 + 5], [255; 3]);
        let sides = |h, w| {
            let p = Picture::of_values(h, w, &vec![0.0; h * w], contrast, ColourMap::Grey).enlarge_small();
            (p.height(), p.width())
        };
        assert_eq!(sides(7, 9), (259, 333));
        assert_eq!(sides(300, 256), (300, 256));
        assert_eq!(sides(1, 5000), (1, 5000));
    }

    #[test]
    fn opposite_directions_have_different_hues_and_no_counts_are_black() {
        let scan = ScanShape::new(1, 3).unwrap();
        // Centres (1, 2), (1, 4) and none: shifts (0, -1) and (0, +1) from their mean.
        let counts = |v: [u64; 3]| Sums::U64(v.to_vec());
        let m =
            Moments { shape: scan, total: counts([2, 1, 0]), row: counts([2, 1, 0]), col: counts([4, 4, 0]) };
        let p = Picture::of_directions(&m);
        assert_eq!(p.rgb()[2], [0; 3]);
        assert_ne!(p.rgb()[0], p.rgb()[1]);
        assert!(!p.is_grey());
    }
}
