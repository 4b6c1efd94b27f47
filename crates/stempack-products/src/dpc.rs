//! Differential phase contrast: deflections of the beam relative to their mean, turned into the scan's frame, and the
//! phase that they integrate to.
//!
//! Deflections are centres of mass minus their mean over the scan, in detector pixels, row component first. Rotation,
//! exchange of components, the automatic search and the integration are written down here once; everything that
//! computes them calls these functions.

use crate::{CenterOfMass, ProductCode};
use rustfft::FftPlanner;
use rustfft::num_complex::Complex;
use stempack_model::{Error, Result, ScanShape};

/// How deflections are rounded to 32 bits. Both rules are in public use and may differ in the last bit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DpcRounding {
    /// Centre and mean in 64 bits, one rounding at the end.
    #[default]
    Once,
    /// The centre is rounded first, the mean of the rounded centres is taken in 64 bits and rounded, and their
    /// difference is taken in 32 bits: what public tools do that prepare moments.
    Prepared,
}

/// Beam deflections at every scan position.
#[derive(Clone, Debug, PartialEq)]
pub struct Deflections {
    /// Scan rows and columns.
    pub shape: ScanShape,
    /// Row component, row-major over the scan.
    pub row: Vec<f32>,
    /// Column component.
    pub col: Vec<f32>,
}

/// How the detector lies relative to the scan.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DetectorTurn {
    /// Rotation in degrees.
    pub degrees: f64,
    /// Whether components are exchanged before the turn and back after it.
    pub exchanged: bool,
}

impl DetectorTurn {
    /// Detector rows lie along scan rows.
    pub const NONE: DetectorTurn = DetectorTurn { degrees: 0.0, exchanged: false };
}

impl Deflections {
    /// Centres minus their mean. Positions of float data without a centre are NaN and not part of the mean.
    pub fn of(centers: &CenterOfMass, rounding: DpcRounding) -> Self {
        let component = |values: &[f64]| -> Vec<f32> {
            let there = || values.iter().filter(|v| !v.is_nan());
            let count = there().count() as f64;
            match rounding {
                DpcRounding::Once => {
                    let mean = there().sum::<f64>() / count;
                    values.iter().map(|&v| (v - mean) as f32).collect()
                }
                DpcRounding::Prepared => {
                    let mean = there().map(|&v| f64::from(v as f32)).sum::<f64>() / count;
                    values.iter().map(|&v| v as f32 - mean as f32).collect()
                }
            }
        };
        Deflections { shape: centers.shape, row: component(centers.rows()), col: component(centers.cols()) }
    }

    /// The field in the frame of the scan.
    ///
    /// With cos and sin of the angle: row' = cos·row − sin·col and col' = sin·row + cos·col; with exchanged components
    /// row' = cos·row + sin·col and col' = cos·col − sin·row, which is what becomes of exchanging, turning and
    /// exchanging back, and equals a turn by the opposite angle.
    #[must_use]
    pub fn turned(&self, turn: DetectorTurn) -> Self {
        let (sin, cos) = turn.degrees.to_radians().sin_cos();
        let (mut row, mut col) = (Vec::with_capacity(self.row.len()), Vec::with_capacity(self.col.len()));
        for (&r, &c) in self.row.iter().zip(&self.col) {
            let (r, c) = (f64::from(r), f64::from(c));
            let (turned_row, turned_col) = if turn.exchanged {
                (cos * r + sin * c, cos * c - sin * r)
            } else {
                (cos * r - sin * c, sin * r + cos * c)
            };
            row.push(turned_row as f32);
            col.push(turned_col as f32);
        }
        Deflections { shape: self.shape, row, col }
    }

    /// Mean squared curl over interior positions, by central differences: ∂col/∂row − ∂row/∂col. Positions next to one
    /// without a deflection do not count; `None` where no position is left, as in scans without interior.
    pub fn curl(&self) -> Option<f64> {
        let (rows, cols) = (self.shape.rows(), self.shape.cols());
        if rows < 3 || cols < 3 {
            return None;
        }
        let (mut sum, mut count) = (0.0, 0u64);
        for r in 1..rows - 1 {
            for c in 1..cols - 1 {
                let at = r * cols + c;
                let down = f64::from(self.col[at + cols]) - f64::from(self.col[at - cols]);
                let along = f64::from(self.row[at + 1]) - f64::from(self.row[at - 1]);
                let curl = (down - along) / 2.0;
                if curl.is_finite() {
                    sum += curl * curl;
                    count += 1;
                }
            }
        }
        (count > 0).then(|| sum / count as f64)
    }

    /// The turn whose field has the smallest [`curl`](Self::curl): 180 angles evenly over 0…180 degrees, both ends
    /// included, in both orders of components. The sign stays open: a field turned by 180 degrees has the same curl.
    ///
    /// # Errors
    /// `scan_too_small` where no interior position has deflections on all four sides.
    pub fn least_curl(&self) -> Result<DetectorTurn> {
        const ANGLES: usize = 180;
        let mut best: Option<(f64, DetectorTurn)> = None;
        for exchanged in [false, true] {
            for step in 0..ANGLES {
                let degrees = 180.0 * step as f64 / (ANGLES - 1) as f64;
                let turn = DetectorTurn { degrees, exchanged };
                let Some(curl) = self.turned(turn).curl() else { return Err(too_small(self.shape)) };
                if best.is_none_or(|(least, _)| curl < least) {
                    best = Some((curl, turn));
                }
            }
        }
        best.map(|(_, turn)| turn).ok_or_else(|| too_small(self.shape))
    }

    /// The phase whose gradient the field is, up to a constant and a scale, of any scan size.
    ///
    /// In Fourier space −0.25·i·(k_row·G_row + k_col·G_col)/(k_row² + k_col²) with k in cycles per sample and zero at
    /// k = 0; the result is the negated real part of its inverse. The scan is taken as periodic; deflections that are
    /// NaN are taken as zero.
    pub fn integrated(&self) -> Vec<f32> {
        let (rows, cols) = (self.shape.rows(), self.shape.cols());
        let spectrum = |plane: &[f32]| {
            let mut field: Vec<Complex<f64>> =
                plane.iter().map(|&v| Complex::new(if v.is_nan() { 0.0 } else { v.into() }, 0.0)).collect();
            transform(&mut field, (rows, cols), Direction::Forward);
            field
        };
        let (row, col) = (spectrum(&self.row), spectrum(&self.col));
        let mut phase = vec![Complex::new(0.0, 0.0); rows * cols];
        for r in 0..rows {
            for c in 0..cols {
                let (k_row, k_col) = (frequency(r, rows), frequency(c, cols));
                let square = k_row * k_row + k_col * k_col;
                if square > 0.0 {
                    let at = r * cols + c;
                    let along = row[at] * k_row + col[at] * k_col;
                    phase[at] = Complex::new(0.0, -0.25) * along / square;
                }
            }
        }
        transform(&mut phase, (rows, cols), Direction::Inverse);
        let count = (rows * cols) as f64;
        phase.iter().map(|v| (-v.re / count) as f32).collect()
    }
}

fn too_small(scan: ScanShape) -> Error {
    Error::new(
        ProductCode::ScanTooSmall,
        format!(
            "a {scan} scan has no interior positions between centres of mass, at least 3×3 are needed to compare \
             rotations"
        ),
    )
    .hint("state the rotation")
}

/// The frequency of one coefficient in cycles per sample.
fn frequency(index: usize, count: usize) -> f64 {
    let signed = if 2 * index < count + count % 2 { index as f64 } else { index as f64 - count as f64 };
    signed / count as f64
}

/// Direction of a transform.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Direction {
    Forward,
    /// Without the factor 1/N.
    Inverse,
}

/// Transforms both axes of a plane in place.
pub(crate) fn transform(plane: &mut [Complex<f64>], (rows, cols): (usize, usize), direction: Direction) {
    let mut planner = FftPlanner::new();
    let mut plan = |length| match direction {
        Direction::Forward => planner.plan_fft_forward(length),
        Direction::Inverse => planner.plan_fft_inverse(length),
    };
    // One call transforms every row of the plane.
    plan(cols).process(plane);
    let mut turned: Vec<Complex<f64>> =
        (0..cols).flat_map(|c| (0..rows).map(move |r| (r, c))).map(|(r, c)| plane[r * cols + c]).collect();
    plan(rows).process(&mut turned);
    for c in 0..cols {
        for r in 0..rows {
            plane[r * cols + c] = turned[c * rows + r];
        }
    }
}

/// How large the frequencies of a picture are: ln(1 + |F|), with the zero frequency in the middle
/// (at row ⌊rows/2⌋, column ⌊cols/2⌋).
pub fn log_spectrum(values: &[f64], (rows, cols): (usize, usize)) -> Vec<f32> {
    let mut plane: Vec<Complex<f64>> = values.iter().map(|&v| Complex::new(v, 0.0)).collect();
    plane.resize(rows * cols, Complex::new(0.0, 0.0));
    transform(&mut plane, (rows, cols), Direction::Forward);
    let mut out = vec![0.0; rows * cols];
    for r in 0..rows {
        for c in 0..cols {
            let (to_row, to_col) = ((r + rows / 2) % rows, (c + cols / 2) % cols);
            out[to_row * cols + to_col] = plane[r * cols + c].norm().ln_1p() as f32;
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn field(rows: usize, cols: usize, of: impl Fn(f64, f64) -> (f64, f64)) -> Deflections {
        let shape = ScanShape::new(rows as u64, cols as u64).unwrap();
        let at = |i: usize| of((i / cols) as f64, (i % cols) as f64);
        Deflections {
            shape,
            row: (0..rows * cols).map(|i| at(i).0 as f32).collect(),
            col: (0..rows * cols).map(|i| at(i).1 as f32).collect(),
        }
    }

    /// NumPy's `fftfreq`.
    #[test]
    fn frequencies_are_those_of_numpy() {
        let all = |n: usize| (0..n).map(|i| frequency(i, n) * n as f64).collect::<Vec<_>>();
        assert_eq!(all(1), [0.0]);
        assert_eq!(all(4), [0.0, 1.0, -2.0, -1.0]);
        assert_eq!(all(5), [0.0, 1.0, 2.0, -2.0, -1.0]);
    }

    /// A wave of phase a·sin(2π·m·r/rows): its row derivative is a·2π·m/rows·cos(…), and k·G/k² gives the wave back with
    /// the factor 0.25·2π.
    #[test]
    fn a_wave_integrates_to_itself_at_any_size() {
        use std::f64::consts::TAU;
        for (rows, cols) in [(16, 16), (15, 21), (7, 32)] {
            let wave = |r: f64| TAU * 2.0 * r / rows as f64;
            let gradient = field(rows, cols, |r, _| (TAU * 2.0 / rows as f64 * wave(r).cos(), 0.0));
            let phase = gradient.integrated();
            for (i, &found) in phase.iter().enumerate() {
                let expected = -0.25 * TAU * wave((i / cols) as f64).sin();
                assert!((f64::from(found) - expected).abs() < 2e-5, "{rows}×{cols} {i}: {found} {expected}");
            }
        }
    }

    #[test]
    fn the_least_curl_finds_the_turn() {
        // The gradient of a bump, seen by a detector that is turned: turning it back by the right angle frees it of curl.
        let bump = |r: f64, c: f64| {
            let (y, x) = (r - 15.0, c - 13.0);
            let value = (-(y * y + 1.7 * x * x) / 40.0).exp();
            (-y * value / 20.0, -1.7 * x * value / 20.0)
        };
        let straight = field(30, 28, bump);
        let seen = straight.turned(DetectorTurn { degrees: -40.0, exchanged: false });
        let found = seen.least_curl().unwrap();
        assert!(!found.exchanged && (found.degrees - 40.0).abs() <= 1.1, "{found:?}");
        assert_eq!(field(2, 30, |_, _| (0.0, 0.0)).least_curl().unwrap_err().code(), "scan_too_small");
    }

    /// A frame of floats without a total has no deflection; it must not decide how the others are turned.
    #[test]
    fn positions_without_a_deflection_do_not_count() {
        let gradient = field(12, 9, |r, c| (2.0 * r + c, r - 3.0 * c));
        let mut seen = gradient.turned(DetectorTurn { degrees: -70.0, exchanged: false });
        let found = seen.least_curl().unwrap();
        assert!(seen.turned(found).curl().unwrap() < 1e-2, "{found:?}");
        (seen.row[4 * 9 + 5], seen.col[4 * 9 + 5]) = (f32::NAN, f32::NAN);
        assert_eq!(seen.least_curl().unwrap(), found);
        seen.row.fill(f32::NAN);
        assert_eq!(seen.least_curl().unwrap_err().code(), "scan_too_small");
    }

    #[test]
    fn the_zero_frequency_is_in_the_middle() {
        for (rows, cols) in [(4, 6), (5, 7), (1, 1)] {
            let spectrum = log_spectrum(&vec![2.0; rows * cols], (rows, cols));
            for (i, &v) in spectrum.iter().enumerate() {
                let middle = i == rows / 2 * cols + cols / 2;
                let expected = if middle { (2.0 * (rows * cols) as f64).ln_1p() } else { 0.0 };
                assert!((f64::from(v) - expected).abs() < 1e-6, "{rows}×{cols} {i}");
            }
        }
    }
}
