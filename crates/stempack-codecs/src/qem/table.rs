//! The 64 frequency rows of the format, and what decoder, encoder and the choice of a model derive from them.
//!
//! The rows are numbers of the format, not of a formula: two writers that computed them would differ.

use std::sync::LazyLock;

/// Models of the format.
pub(super) const MODELS: usize = 64;
/// Symbols of a model: the counts 0 to 31, and [`ESCAPE`].
pub(super) const SYMBOLS: usize = 33;
/// The symbol of every count that does not fit; the count follows in two bytes.
pub(super) const ESCAPE: u16 = 32;
/// Every row sums to two to this power.
pub(super) const SCALE_BITS: u32 = 10;
/// Slots of a model.
pub(super) const SLOTS: usize = 1 << SCALE_BITS;
/// Fractional bits of [`COSTS`].
pub(super) const COST_BITS: u32 = 11;

/// Per model and slot what one decoding step needs in one word: frequency above bit 16, slot minus start above
/// bit 6, symbol below. 256 KiB.
pub(super) static STEPS: LazyLock<Box<[[u32; SLOTS]; MODELS]>> = LazyLock::new(|| {
    let mut all = Box::new([[0; SLOTS]; MODELS]);
    for (steps, row) in all.iter_mut().zip(&FREQUENCIES) {
        let mut slot = 0;
        for (symbol, &frequency) in row.iter().enumerate() {
            for within in 0..u32::from(frequency) {
                steps[slot] = u32::from(frequency) << 16 | within << 6 | symbol as u32;
                slot += 1;
            }
        }
    }
    all
});

/// What encoding one symbol needs.
#[derive(Clone, Copy)]
pub(super) struct Encoding {
    /// ⌈2⁶³ / frequency⌉: the state divided by the frequency is the high half of twice the state times this, exact
    /// for states below 2³¹ because the error stays below state / 2⁶³.
    pub(super) reciprocal: u64,
    /// The state from which a byte must be written first: frequency · 2²¹.
    pub(super) limit: u32,
    /// 1024 − frequency.
    pub(super) complement: u16,
    /// Sum of the frequencies of smaller symbols.
    pub(super) start: u16,
}

/// Per model and symbol what encoding needs.
pub(super) static ENCODINGS: LazyLock<Box<[[Encoding; SYMBOLS]; MODELS]>> = LazyLock::new(|| {
    let none = Encoding { reciprocal: 0, limit: 0, complement: 0, start: 0 };
    let mut all = Box::new([[none; SYMBOLS]; MODELS]);
    for (encodings, row) in all.iter_mut().zip(&FREQUENCIES) {
        let mut start = 0;
        for (encoding, &frequency) in encodings.iter_mut().zip(row) {
            *encoding = Encoding {
                reciprocal: (1u64 << 63).div_ceil(u64::from(frequency)),
                limit: u32::from(frequency) << 21,
                complement: SLOTS as u16 - frequency,
                start,
            };
            start += frequency;
        }
    }
    all
});

/// Per symbol and model the bits that the symbol costs, in units of 2⁻¹¹ rounded down, an escape's two bytes
/// included. Computed in integers, so that every machine chooses the same models.
pub(super) static COSTS: LazyLock<Box<[[u16; MODELS]; SYMBOLS]>> = LazyLock::new(|| {
    let mut all = Box::new([[0; MODELS]; SYMBOLS]);
    for (symbol, costs) in all.iter_mut().enumerate() {
        for (cost, row) in costs.iter_mut().zip(&FREQUENCIES) {
            let escape = if symbol == usize::from(ESCAPE) { 16 << COST_BITS } else { 0 };
            *cost = escape + bits_of(row[symbol]);
        }
    }
    all
});

/// log₂(1024 / `frequency`) in units of 2⁻¹¹, rounded down.
fn bits_of(frequency: u16) -> u16 {
    // The logarithm's binary digits by repeated squaring of a mantissa in [1, 2), held with 40 fractional bits.
    let whole = u32::from(frequency).ilog2();
    let mut mantissa = u128::from(frequency) << (40 - whole);
    let mut log = whole;
    for _ in 0..COST_BITS {
        mantissa = (mantissa * mantissa) >> 40;
        let digit = (mantissa >> 41) as u32;
        mantissa >>= digit;
        log = log << 1 | digit;
    }
    let exact = frequency.is_power_of_two();
    ((SCALE_BITS << COST_BITS) - log) as u16 - u16::from(!exact)
}

/// Row m holds the frequencies of model m.
#[rustfmt::skip]
pub(super) const FREQUENCIES: [[u16; SYMBOLS]; MODELS] = [
    [990, 3, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1],
    [990, 3, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1],
    [989, 4, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1],
    [989, 4, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1],
    [988, 5, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1],
    [988, 5, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1],
    [987, 6, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1],
    [986, 7, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1],
    [985, 8, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1],
    [984, 9, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1],
    [983, 10, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1],
    [981, 12, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1],
    [980, 13, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1],
    [978, 15, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1],
    [975, 18, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1],
    [972, 21, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1],
    [969, 24, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1],
    [965, 27, 2, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1],
    [961, 32, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1],
    [956, 36, 2, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1],
    [950, 42, 2, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1],
    [943, 49, 2, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1],
    [935, 56, 3, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1],
    [926, 65, 3, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1],
    [916, 74, 4, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1],
    [904, 85, 5, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1],
    [890, 98, 6, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1],
    [874, 112, 8, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1],
    [856, 127, 10, 2, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1],
    [835, 145, 13, 2, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1],
    [812, 164, 17, 2, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1],
    [785, 185, 22, 3, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1],
    [755, 207, 29, 4, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1],
    [722, 231, 37, 5, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1],
    [684, 255, 48, 7, 2, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1],
    [644, 279, 61, 10, 2, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1],
    [599, 303, 77, 14, 3, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1],
    [551, 325, 96, 20, 4, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1],
    [500, 343, 118, 28, 6, 2, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1],
    [446, 357, 144, 39, 9, 2, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1],
    [391, 365, 171, 54, 13, 3, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1],
    [334, 364, 199, 73, 21, 5, 2, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1],
    [279, 355, 225, 96, 31, 9, 3, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1],
    [227, 335, 248, 123, 46, 14, 4, 2, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1],
    [177, 305, 264, 152, 66, 24, 8, 3, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1],
    [133, 267, 269, 181, 92, 38, 13, 5, 2, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1],
    [96, 223, 262, 205, 121, 57, 23, 9, 3, 2, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1],
    [65, 177, 241, 220, 151, 83, 39, 16, 6, 3, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1],
    [42, 131, 208, 222, 177, 114, 61, 28, 12, 5, 2, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1],
    [25, 90, 167, 207, 193, 144, 90, 48, 23, 10, 4, 2, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1],
    [14, 57, 123, 177, 192, 167, 121, 75, 41, 21, 10, 4, 2, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1],
    [7, 33, 81, 137, 173, 175, 148, 107, 68, 39, 20, 10, 5, 2, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1],
    [4, 17, 48, 94, 138, 163, 160, 135, 100, 66, 39, 21, 11, 6, 3, 2, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1],
    [2, 8, 25, 56, 96, 132, 151, 149, 128, 98, 68, 43, 25, 14, 7, 4, 2, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1],
    [1, 4, 12, 29, 57, 91, 121, 139, 139, 124, 100, 73, 49, 31, 18, 10, 6, 3, 2, 2, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1],
    [1, 2, 5, 13, 28, 52, 81, 107, 126, 131, 122, 104, 82, 59, 40, 25, 15, 9, 5, 3, 2, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1],
    [1, 1, 2, 5, 12, 24, 43, 67, 91, 110, 120, 119, 109, 91, 72, 52, 36, 24, 15, 9, 5, 3, 2, 2, 1, 1, 1, 1, 1, 1, 1, 1, 1],
    [1, 1, 1, 2, 4, 9, 18, 33, 51, 72, 91, 106, 112, 110, 100, 85, 68, 51, 36, 25, 16, 10, 6, 4, 3, 2, 1, 1, 1, 1, 1, 1, 1],
    [1, 1, 1, 1, 2, 3, 6, 12, 22, 35, 52, 70, 86, 98, 104, 102, 95, 83, 69, 54, 40, 29, 20, 13, 8, 5, 4, 2, 2, 1, 1, 1, 1],
    [1, 1, 1, 1, 1, 1, 2, 4, 7, 13, 21, 33, 47, 62, 76, 87, 94, 96, 92, 84, 73, 60, 48, 36, 26, 19, 13, 8, 6, 4, 3, 2, 2],
    [1, 1, 1, 1, 1, 1, 1, 2, 2, 4, 6, 11, 17, 26, 37, 50, 63, 74, 83, 88, 89, 86, 79, 69, 58, 47, 37, 28, 20, 14, 10, 7, 10],
    [1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 2, 3, 5, 7, 12, 18, 26, 36, 47, 58, 68, 76, 81, 83, 81, 76, 69, 60, 51, 41, 33, 25, 56],
    [1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 2, 3, 4, 7, 11, 16, 22, 30, 39, 48, 57, 65, 71, 75, 77, 75, 71, 65, 58, 215],
    [1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 2, 2, 4, 5, 8, 11, 16, 21, 28, 35, 43, 51, 58, 64, 69, 71, 520],
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_sums_to_the_scale_and_knows_every_symbol() {
        for row in &FREQUENCIES {
            assert_eq!(row.iter().sum::<u16>(), 1024);
            assert!(row.iter().all(|&f| f > 0));
        }
    }

    #[test]
    fn rows_equal_the_published_numbers() {
        let Some(corpus) = stempack_testkit::corpus("") else { return };
        let path = corpus.join("../spec/qem-rans-tables-v1.json");
        if !path.exists() {
            return eprintln!("SKIPPED: the published table is not beside the corpus");
        }
        let published = stempack_testkit::expectations(&path);
        let rows = published["frequencies"].as_array().unwrap();
        assert_eq!(rows.len(), MODELS);
        for (row, ours) in rows.iter().zip(&FREQUENCIES) {
            let row: Vec<u64> = row.as_array().unwrap().iter().map(|v| v.as_u64().unwrap()).collect();
            assert_eq!(row, ours.map(u64::from));
        }
    }

    #[test]
    fn costs_are_logarithms_rounded_down() {
        for frequency in 1..=1024u16 {
            let exact = (1024.0 / f64::from(frequency)).log2() * 2048.0;
            let ours = f64::from(bits_of(frequency));
            assert!(ours <= exact && exact < ours + 1.001, "{frequency}: {ours} for {exact}");
        }
    }

    #[test]
    fn reciprocals_divide_exactly() {
        for frequency in 1..=990u32 {
            let reciprocal = (1u64 << 63).div_ceil(u64::from(frequency));
            for near in (0..1u32 << 31).step_by(0x0123_4567).chain([0, frequency << 13, (1 << 31) - 1]) {
                for x in [near - near % frequency, (near - near % frequency).saturating_sub(1), near] {
                    let quotient = ((u128::from(x << 1) * u128::from(reciprocal)) >> 64) as u32;
                    assert_eq!(quotient, x / frequency, "{x} / {frequency}");
                }
            }
        }
    }
}
