//! What the scale bar of a picture says and where it stands: a 1-2-5 length, drawn only when the step is known.

use stempack_products::display::Picture;

/// Distance between neighbouring picture columns before enlargement.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ScaleBar {
    step: f64,
    family: Family,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Family {
    /// Ångström, labelled as Å, nm or µm.
    Length,
    /// Milliradians.
    Angle,
    /// Reciprocal ångström.
    Reciprocal,
}

impl ScaleBar {
    /// Columns `step` ångström apart.
    pub fn angstrom(step: f64) -> Option<Self> {
        Self::new(step, Family::Length)
    }
    /// Columns `step` milliradians apart.
    pub fn mrad(step: f64) -> Option<Self> {
        Self::new(step, Family::Angle)
    }
    /// Columns `step` reciprocal ångström apart.
    pub fn reciprocal_angstrom(step: f64) -> Option<Self> {
        Self::new(step, Family::Reciprocal)
    }
    fn new(step: f64, family: Family) -> Option<Self> {
        (step.is_finite() && step > 0.0).then_some(ScaleBar { step, family })
    }

    /// Length in picture pixels and label of the longest 1-2-5 bar within a third of `width`; `None` when none fits.
    fn fit(&self, width: usize, enlarged: usize) -> Option<(usize, String)> {
        let step = self.step / enlarged as f64;
        let longest = step * width as f64 / 3.0;
        let exponent = longest.log10().floor() as i32;
        // One below for lengths whose logarithm was rounded up.
        let length = [exponent, exponent - 1]
            .into_iter()
            .flat_map(|e| [5, 2, 1].map(|digit| (digit, e)))
            .find(|&(digit, e)| value(digit, e) <= longest)?;
        let pixels = (value(length.0, length.1) / step).round() as usize;
        (pixels >= 4 && pixels <= width).then(|| (pixels, self.label(length.0, length.1)))
    }

    fn label(&self, digit: u8, exponent: i32) -> String {
        match self.family {
            Family::Length if exponent >= 4 => format!("{} µm", decimal(digit, exponent - 4)),
            Family::Length if exponent >= 1 => format!("{} nm", decimal(digit, exponent - 1)),
            Family::Length => format!("{} Å", decimal(digit, exponent)),
            Family::Angle => format!("{} mrad", decimal(digit, exponent)),
            Family::Reciprocal => format!("{} 1/Å", decimal(digit, exponent)),
        }
    }

    /// Draws the bar and its label in white with a black rim into the lower left corner; returns the label, or `None`
    /// when the picture is too small for both.
    pub fn draw(&self, picture: &mut Picture) -> Option<String> {
        let (width, height) = (picture.width(), picture.height());
        let (bar, label) = self.fit(width, picture.enlarged())?;
        let zoom = (width.min(height) / 128).max(1);
        let (margin, thick) = (5 * zoom, 2 * zoom);
        let text_width = label.chars().count() * (GLYPH_WIDTH + 1) * zoom;
        let block = margin + GLYPH_HEIGHT * zoom + 2 * zoom + thick + margin;
        if bar.max(text_width) + 2 * margin > width || block > height {
            return None;
        }
        let bar_top = height - margin - thick;
        let text_top = bar_top - 2 * zoom - GLYPH_HEIGHT * zoom;
        let mut ink = Vec::new();
        for row in bar_top..bar_top + thick {
            ink.extend((margin..margin + bar).map(|col| (row, col)));
        }
        for (index, letter) in label.chars().enumerate() {
            let left = margin + index * (GLYPH_WIDTH + 1) * zoom;
            for (row, bits) in glyph(letter).into_iter().enumerate() {
                for col in (0..GLYPH_WIDTH).filter(|col| bits >> (GLYPH_WIDTH - 1 - col) & 1 == 1) {
                    for dot in 0..zoom * zoom {
                        ink.push((text_top + row * zoom + dot / zoom, left + col * zoom + dot % zoom));
                    }
                }
            }
        }
        // The rim first, so that it never covers a neighbour's ink.
        for &(row, col) in &ink {
            for dot in 0..9 {
                picture.set((row + dot / 3).saturating_sub(1), (col + dot % 3).saturating_sub(1), [0; 3]);
            }
        }
        for &(row, col) in &ink {
            picture.set(row, col, [255; 3]);
        }
        Some(label)
    }
}

fn value(digit: u8, exponent: i32) -> f64 {
    f64::from(digit) * 10f64.powi(exponent)
}

/// `digit · 10^exponent` without rounding or exponent notation.
fn decimal(digit: u8, exponent: i32) -> String {
    match usize::try_from(exponent) {
        Ok(zeros) => format!("{digit}{}", "0".repeat(zeros)),
        Err(_) => format!("0.{}{digit}", "0".repeat(exponent.unsigned_abs() as usize - 1)),
    }
}

const GLYPH_WIDTH: usize = 5;
const GLYPH_HEIGHT: usize = 8;

/// Rows from the top, the leftmost dot in bit 4; the ring above Å takes the first row, tails of µ the last.
fn glyph(letter: char) -> [u8; GLYPH_HEIGHT] {
    match letter {
        '0' => [0b01110, 0b10001, 0b10001, 0b10001, 0b10001, 0b10001, 0b01110, 0],
        '1' => [0b00100, 0b01100, 0b00100, 0b00100, 0b00100, 0b00100, 0b01110, 0],
        '2' => [0b01110, 0b10001, 0b00001, 0b00110, 0b01000, 0b10000, 0b11111, 0],
        '5' => [0b11111, 0b10000, 0b11110, 0b00001, 0b00001, 0b10001, 0b01110, 0],
        '.' => [0, 0, 0, 0, 0, 0b00110, 0b00110, 0],
        '/' => [0b00001, 0b00001, 0b00010, 0b00100, 0b01000, 0b10000, 0b10000, 0],
        'n' => [0, 0, 0b10110, 0b11001, 0b10001, 0b10001, 0b10001, 0],
        'm' => [0, 0, 0b11010, 0b10101, 0b10101, 0b10101, 0b10101, 0],
        'r' => [0, 0, 0b10110, 0b11001, 0b10000, 0b10000, 0b10000, 0],
        'a' => [0, 0, 0b01110, 0b00001, 0b01111, 0b10001, 0b01111, 0],
        'd' => [0b00001, 0b00001, 0b01101, 0b10011, 0b10001, 0b10001, 0b01111, 0],
        'µ' => [0, 0, 0b10001, 0b10001, 0b10001, 0b10011, 0b11101, 0b10000],
        'Å' => [0b00100, 0b01010, 0b00100, 0b01010, 0b10001, 0b11111, 0b10001, 0],
        _ => [0; GLYPH_HEIGHT],
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use stempack_products::display::{ColourMap, Contrast};

    #[test]
    fn lengths_are_1_2_5_and_within_a_third() {
        let nm = |step, width, enlarged| ScaleBar::angstrom(step).unwrap().fit(width, enlarged);
        // 256 columns of 0.5 Å: a third is 42.7 Å, so the bar has 20 Å in 40 columns.
        assert_eq!(nm(0.5, 256, 1), Some((40, "2 nm".to_owned())));
        // The same scan of 64 columns enlarged four times: a third is 10.7 Å.
        assert_eq!(nm(0.5, 256, 4), Some((80, "1 nm".to_owned())));
        assert_eq!(nm(0.05, 256, 1), Some((40, "2 Å".to_owned())));
        assert_eq!(nm(0.01, 256, 1), Some((50, "0.5 Å".to_owned())));
        assert_eq!(nm(900.0, 300, 1), Some((56, "5 µm".to_owned())));
        assert_eq!(nm(10.0, 300, 1), Some((100, "100 nm".to_owned())));
        assert_eq!(nm(0.5, 6, 1), None);
        assert_eq!(ScaleBar::mrad(0.61).unwrap().fit(192, 1), Some((33, "20 mrad".to_owned())));
        assert_eq!(
            ScaleBar::reciprocal_angstrom(0.01).unwrap().fit(192, 1),
            Some((50, "0.5 1/Å".to_owned()))
        );
        for step in [0.0, -1.0, f64::NAN, f64::INFINITY] {
            assert_eq!(ScaleBar::angstrom(step), None);
        }
    }

    #[test]
    fn every_letter_of_every_label_has_a_glyph() {
        for exponent in -3..8 {
            for digit in [1, 2, 5] {
                for family in [Family::Length, Family::Angle, Family::Reciprocal] {
                    let label = ScaleBar { step: 1.0, family }.label(digit, exponent);
                    assert!(label.chars().all(|c| c == ' ' || glyph(c) != [0; GLYPH_HEIGHT]), "{label}");
                }
            }
        }
    }

    #[test]
    fn the_bar_is_drawn_as_long_as_it_says() {
        let contrast = Contrast { low: 0.0, high: 1.0 };
        let blank = Picture::of_values(256, 256, &vec![0.3; 256 * 256], contrast, ColourMap::Grey);
        let mut picture = blank.clone();
        assert_eq!(ScaleBar::angstrom(0.5).unwrap().draw(&mut picture).as_deref(), Some("2 nm"));
        // Twice as large as drawn: a margin of 10 rows, then 4 rows of bar.
        let white = picture.rgb()[243 * 256..244 * 256].iter().filter(|c| **c == [255; 3]).count();
        assert_eq!(white, 40);
        let mut small = Picture::of_values(8, 8, &[0.0; 64], contrast, ColourMap::Grey);
        assert_eq!(ScaleBar::angstrom(0.5).unwrap().draw(&mut small), None);
        assert!(small.is_grey() && small.rgb().iter().all(|c| *c == [0; 3]));
    }
}
