//! How one column is coded: the scalar reference that every faster path must equal.
//!
//! A stream's selector says which of five ways holds its values: one of 64 entropy models, sparse events, all zero,
//! literal, or constant. An entropy stream is a 32-bit state and the bytes that refill it (range asymmetric numeral
//! systems); decoding takes the low ten bits of the state as a slot of the model.

pub use super::fault::{Expected, Fault};
use super::table::{COST_BITS, COSTS, ENCODINGS, ESCAPE, MODELS, SCALE_BITS, SLOTS, STEPS, SYMBOLS};

/// Two bytes per nonzero count: scan position above bit 7, count minus one below.
pub const SPARSE: u8 = 252;
/// No bytes: every count is zero.
pub const ZERO: u8 = 253;
/// Two bytes per scan position.
pub const LITERAL: u8 = 254;
/// Two bytes: every count is this one.
pub const CONSTANT: u8 = 255;

/// The state is at least this after every step, and exactly this before the first value was encoded.
pub(super) const LOWEST_STATE: u32 = 1 << 23;
/// A state is below this.
pub(super) const STATE_LIMIT: u32 = 1 << 31;
/// Largest count of a sparse event.
pub(super) const SPARSE_MAX: u16 = 128;

/// Checks what selector and length alone can tell about a stream of `len` values.
///
/// # Errors
/// A selector that does not exist, or a length that it excludes.
pub fn check_length(selector: u8, bytes: usize, len: usize) -> Result<(), Fault> {
    let expected = match selector {
        0..=63 if bytes < 4 => Expected::AtLeast(4),
        SPARSE if !bytes.is_multiple_of(2) => Expected::Even,
        SPARSE if bytes > 2 * len => Expected::AtMost(2 * len),
        ZERO if bytes != 0 => Expected::Exactly(0),
        LITERAL if bytes != 2 * len => Expected::Exactly(2 * len),
        CONSTANT if bytes != 2 => Expected::Exactly(2),
        0..=63 | SPARSE..=CONSTANT => return Ok(()),
        64..=251 => return Err(Fault::Selector(selector)),
    };
    Err(Fault::Length(bytes, expected))
}

/// Decodes one stream into `out`, which has as many values as the stream.
///
/// # Errors
/// Whatever is wrong with the stream, a value above `max` included.
pub fn decode(selector: u8, bytes: &[u8], max: u16, out: &mut [u16]) -> Result<(), Fault> {
    check_length(selector, bytes.len(), out.len())?;
    match selector {
        SPARSE => {
            out.fill(0);
            for_events(bytes, max, out.len(), |at, count| out[at] = count)?;
        }
        ZERO => out.fill(0),
        LITERAL => {
            for (value, pair) in out.iter_mut().zip(bytes.as_chunks().0) {
                *value = u16::from_le_bytes(*pair);
            }
        }
        CONSTANT => out.fill(constant(bytes)),
        model => decode_model(usize::from(model), bytes, out)?,
    }
    match out.iter().position(|&v| v > max) {
        Some(at) => Err(Fault::Value(at, out[at], max)),
        None => Ok(()),
    }
}

/// The value of a constant stream whose length was checked.
#[inline]
pub(super) fn constant(bytes: &[u8]) -> u16 {
    bytes.first_chunk().map_or(0, |&pair| u16::from_le_bytes(pair))
}

/// Calls `each` with position and count of every event of a sparse stream of `len` values, checked in order.
#[inline]
pub(super) fn for_events(
    bytes: &[u8],
    max: u16,
    len: usize,
    mut each: impl FnMut(usize, u16),
) -> Result<(), Fault> {
    let mut next = 0;
    for pair in bytes.as_chunks().0 {
        let event = u16::from_le_bytes(*pair);
        let (at, count) = (usize::from(event >> 7), (event & 127) + 1);
        if at >= len {
            return Err(Fault::Position(at, len));
        }
        if at < next {
            return Err(Fault::Order(next - 1, at));
        }
        if count > max {
            return Err(Fault::Value(at, count, max));
        }
        next = at + 1;
        each(at, count);
    }
    Ok(())
}

fn decode_model(model: usize, bytes: &[u8], out: &mut [u16]) -> Result<(), Fault> {
    let Some((&state, mut rest)) = bytes.split_first_chunk() else {
        return Err(Fault::Length(bytes.len(), Expected::AtLeast(4)));
    };
    let mut x = u32::from_le_bytes(state);
    if !(LOWEST_STATE..STATE_LIMIT).contains(&x) {
        return Err(Fault::FirstState(x));
    }
    let steps = &STEPS[model];
    for (at, value) in out.iter_mut().enumerate() {
        let step = steps[x as usize % SLOTS];
        x = (step >> 16) * (x >> SCALE_BITS) + (step >> 6 & 1023);
        while x < LOWEST_STATE {
            let Some((&byte, after)) = rest.split_first() else { return Err(Fault::Truncated(at)) };
            x = x << 8 | u32::from(byte);
            rest = after;
        }
        *value = (step & 63) as u16;
        if *value == ESCAPE {
            let Some((&pair, after)) = rest.split_first_chunk() else { return Err(Fault::Truncated(at)) };
            *value = u16::from_le_bytes(pair);
            rest = after;
        }
    }
    if !rest.is_empty() {
        return Err(Fault::LeftOver(rest.len()));
    }
    if x != LOWEST_STATE {
        return Err(Fault::LastState(x));
    }
    Ok(())
}

/// Encodes values with a model.
///
/// # Panics
/// When `model` is not below 64.
pub fn encode_model(model: u8, values: &[u16]) -> Vec<u8> {
    let encodings = &ENCODINGS[usize::from(model)];
    let mut x = LOWEST_STATE;
    // Written from the last byte to the first.
    let mut bytes = Vec::new();
    for &value in values.iter().rev() {
        if value >= ESCAPE {
            bytes.extend([(value >> 8) as u8, value as u8]);
        }
        let e = &encodings[usize::from(value.min(ESCAPE))];
        while x >= e.limit {
            bytes.push(x as u8);
            x >>= 8;
        }
        let frequency = SLOTS as u32 - u32::from(e.complement);
        x = ((x / frequency) << SCALE_BITS) + x % frequency + u32::from(e.start);
    }
    bytes.extend(x.to_be_bytes());
    bytes.reverse();
    bytes
}

/// What choosing a way to code a column needs to know about it.
pub(super) struct Summary {
    /// How often each symbol occurs.
    pub(super) histogram: [u16; SYMBOLS],
    /// The largest value.
    pub(super) max: u16,
}

/// What [`Summary::plan`] decides before anything is encoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Plan {
    /// This way, certainly.
    Direct(u8),
    /// This model if its stream becomes shorter than the bytes of the other selector, else that one.
    ModelUnless(u8, u8, usize),
}

impl Summary {
    /// Chooses for a column of `len` values that are not all equal: the cheapest legal way, on equal length the one
    /// that decodes faster.
    pub(super) fn plan(&self, len: usize) -> Plan {
        let events = len - usize::from(self.histogram[0]);
        let (other, other_bytes) =
            if self.max <= SPARSE_MAX && events < len { (SPARSE, 2 * events) } else { (LITERAL, 2 * len) };
        let (model, cost) = cheapest_model(&self.histogram);
        // An entropy stream is at least this long: a step loses under 2⁻¹⁰ bits against the exact cost, a column
        // under half a bit, and the state holds at most eight bits more at the end than at the start.
        let least = 4 + (cost >> COST_BITS).saturating_sub(9) as usize / 8;
        if least >= other_bytes { Plan::Direct(other) } else { Plan::ModelUnless(model, other, other_bytes) }
    }
}

/// The model that codes such a column in the fewest bits, the lower one on a tie, and the bits in units of 2⁻¹¹.
fn cheapest_model(histogram: &[u16; SYMBOLS]) -> (u8, u32) {
    let mut bits = [0u32; MODELS];
    for (&often, costs) in histogram.iter().zip(COSTS.iter()) {
        if often > 0 {
            for (sum, &cost) in bits.iter_mut().zip(costs) {
                *sum += u32::from(often) * u32::from(cost);
            }
        }
    }
    let mut best = (0, bits[0]);
    for (model, &cost) in bits.iter().enumerate() {
        if cost < best.1 {
            best = (model as u8, cost);
        }
    }
    best
}

/// Encodes one column: selector and bytes. The same values always give the same bytes.
///
/// # Panics
/// When there are no values or more than [`BLOCK_SCANS`](super::BLOCK_SCANS).
pub fn encode(values: &[u16]) -> (u8, Vec<u8>) {
    assert!((1..=super::BLOCK_SCANS).contains(&values.len()), "a column of {} values", values.len());
    if values.iter().all(|&v| v == values[0]) {
        return if values[0] == 0 {
            (ZERO, Vec::new())
        } else {
            (CONSTANT, values[0].to_le_bytes().to_vec())
        };
    }
    let mut summary = Summary { histogram: [0; SYMBOLS], max: 0 };
    for &value in values {
        summary.histogram[usize::from(value.min(ESCAPE))] += 1;
        summary.max = summary.max.max(value);
    }
    let other = match summary.plan(values.len()) {
        Plan::Direct(selector) => selector,
        Plan::ModelUnless(model, other, bytes) => {
            let encoded = encode_model(model, values);
            if encoded.len() < bytes {
                return (model, encoded);
            }
            other
        }
    };
    let mut bytes = Vec::new();
    if other == SPARSE {
        append_events(values.iter().copied(), &mut bytes);
    } else {
        bytes.extend(values.iter().flat_map(|v| v.to_le_bytes()));
    }
    (other, bytes)
}

/// Appends the sparse events of a column.
pub(super) fn append_events(values: impl Iterator<Item = u16>, bytes: &mut Vec<u8>) {
    for (at, value) in values.enumerate() {
        if value > 0 {
            bytes.extend(((at as u16) << 7 | (value - 1)).to_le_bytes());
        }
    }
}
