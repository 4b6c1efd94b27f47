//! Several entropy streams in one loop: a step of one stream waits on the step before it, so one stream alone leaves
//! most of the processor idle.
//!
//! The scalar twins are [`stream::decode`](super::stream::decode) and
//! [`stream::encode_model`](super::stream::encode_model).

use super::BLOCK_SCANS;
use super::stream::{LOWEST_STATE, STATE_LIMIT};
use super::table::{ENCODINGS, ESCAPE, Encoding, SCALE_BITS, SLOTS, STEPS, SYMBOLS};
use std::array::from_fn;

/// Streams in one loop: enough to hide a step's latency, few enough for the registers and the first cache.
pub(super) const LANES: usize = 8;

/// Longest stream that decodes here; a longer one is legal but nobody writes it.
pub(super) const LONGEST: usize = 2 * BLOCK_SCANS;

/// Stream bytes at a power of two, so that a masked index needs no bounds check, and what a last load may touch.
const HELD: usize = 2 * LONGEST;
const SLACK: usize = 4;

/// Repeats a block for every lane with the lane as a constant, so that states stay in registers; a compiler does not
/// unroll so much by itself.
macro_rules! every_lane {
    ($lane:ident => $block:block) => {
        every_lane!(@ $lane $block 0 1 2 3 4 5 6 7)
    };
    (@ $lane:ident $block:block $($k:literal)*) => {
        $({
            const $lane: usize = $k;
            $block
        })*
    };
}

/// Room for the bytes of the streams in one loop.
pub(super) struct Decoder {
    steps: &'static [[u32; SLOTS]; super::table::MODELS],
    held: Box<[[u8; HELD + SLACK]; LANES]>,
}

impl Decoder {
    pub(super) fn new() -> Self {
        Decoder { steps: &STEPS, held: Box::new([[0; HELD + SLACK]; LANES]) }
    }

    /// Decodes up to eight entropy streams (model, bytes) of `len` values each and calls `sink` with every scan
    /// position and its values; lanes past `streams` repeat the last stream. Returns a bound on all values when every
    /// stream is sound; the scalar twin says what is wrong with one that is not. Values handed out before that are
    /// arbitrary.
    ///
    /// # Panics
    /// Without streams.
    #[inline(always)]
    pub(super) fn decode(
        &mut self,
        streams: &[(u8, &[u8])],
        len: usize,
        sink: impl FnMut(usize, [u16; LANES]),
    ) -> Option<u16> {
        let bytes: usize = streams.iter().map(|s| s.1.len() - 4.min(s.1.len())).sum();
        // A refill is worth guessing when few steps have one: under one byte in four values.
        if 4 * bytes < len * streams.len() {
            self.run::<true>(streams, len, sink)
        } else {
            self.run::<false>(streams, len, sink)
        }
    }

    #[inline(always)]
    fn run<const RARE: bool>(
        &mut self,
        streams: &[(u8, &[u8])],
        len: usize,
        mut sink: impl FnMut(usize, [u16; LANES]),
    ) -> Option<u16> {
        let lane = |k: usize| streams[k.min(streams.len() - 1)];
        let mut x = [LOWEST_STATE; LANES];
        let mut next = [4usize; LANES];
        for (k, held) in self.held.iter_mut().enumerate() {
            let bytes = lane(k).1;
            let (Some(&state), true) = (bytes.first_chunk(), bytes.len() <= LONGEST) else { return None };
            x[k] = u32::from_le_bytes(state);
            if !(LOWEST_STATE..STATE_LIMIT).contains(&x[k]) {
                return None;
            }
            held[..bytes.len()].copy_from_slice(bytes);
        }
        let steps: [&[u32; SLOTS]; LANES] = from_fn(|k| &self.steps[usize::from(lane(k).0) % 64]);
        let mut bound = ESCAPE - 1;
        for at in 0..len {
            let mut values = [0u16; LANES];
            let mut any = 0;
            every_lane!(K => {
                let step = steps[K][x[K] as usize % SLOTS];
                values[K] = (step & 63) as u16;
                any |= values[K];
                x[K] = (step >> 16) * (x[K] >> SCALE_BITS) + (step >> 6 & 1023);
                if !RARE || x[K] < LOWEST_STATE {
                    // Eight bits for each of the two limits that the state is below, without a branch: the sign of
                    // the difference, moved to bit 3.
                    let shift =
                        (x[K].wrapping_sub(1 << 23) >> 28 & 8) + (x[K].wrapping_sub(1 << 15) >> 28 & 8);
                    let refill = u32::from_be_bytes(load(&self.held[K], next[K]));
                    x[K] = (((u64::from(x[K]) << 32) | u64::from(refill)) >> (32 - shift)) as u32;
                    next[K] += (shift >> 3) as usize;
                }
            });
            // The escape is the only symbol with this bit.
            if any & ESCAPE != 0 {
                for k in 0..LANES {
                    if values[k] == ESCAPE {
                        let [low, high, ..] = load(&self.held[k], next[k]);
                        values[k] = u16::from_le_bytes([low, high]);
                        next[k] += 2;
                        bound = bound.max(values[k]);
                    }
                }
            }
            sink(at, values);
        }
        // A stream that ended early was read past its end, which the position betrays.
        let sound = (0..LANES).all(|k| x[k] == LOWEST_STATE && next[k] == lane(k).1.len());
        sound.then_some(bound)
    }
}

/// Four bytes at `at`; past the held bytes the position wraps, which only a damaged stream reaches.
#[inline(always)]
fn load(held: &[u8; HELD + SLACK], at: usize) -> [u8; 4] {
    let at = at % HELD;
    [held[at], held[at + 1], held[at + 2], held[at + 3]]
}

/// Room for the longest stream that any column could become, at a power of two, and what keeps the lanes' ends apart
/// in the cache.
const WRITTEN: usize = 4096;
const APART: usize = 8 + 64;

/// Room for the streams of one loop.
pub(super) struct Encoder {
    encodings: &'static [[Encoding; SYMBOLS]; super::table::MODELS],
    written: Box<[[u8; WRITTEN + APART]; LANES]>,
}

impl Encoder {
    pub(super) fn new() -> Self {
        Encoder { encodings: &ENCODINGS, written: Box::new([[0; WRITTEN + APART]; LANES]) }
    }

    /// Encodes up to eight columns (model, symbols, all of one length) and returns each one's stream; `escaped`
    /// gives the count of a column at a scan position whose symbol is the escape. `rare` says that few values will
    /// write a byte, which only matters for speed.
    ///
    /// # Panics
    /// Without columns, or when they are longer than a block.
    #[inline(always)]
    pub(super) fn encode(
        &mut self,
        columns: &[(u8, &[u8])],
        rare: bool,
        escaped: impl Fn(usize, usize) -> u16,
    ) -> [&[u8]; LANES] {
        if rare { self.run::<true>(columns, escaped) } else { self.run::<false>(columns, escaped) }
    }

    #[inline(always)]
    fn run<const RARE: bool>(
        &mut self,
        columns: &[(u8, &[u8])],
        escaped: impl Fn(usize, usize) -> u16,
    ) -> [&[u8]; LANES] {
        let lane = |k: usize| k.min(columns.len() - 1);
        let len = columns[0].1.len();
        assert!(len <= BLOCK_SCANS);
        let symbols: [&[u8]; LANES] = from_fn(|k| &columns[lane(k)].1[..len]);
        let encodings: [&[Encoding; SYMBOLS]; LANES] =
            from_fn(|k| &self.encodings[usize::from(columns[lane(k)].0) % 64]);
        let mut x = [LOWEST_STATE; LANES];
        let mut next = [WRITTEN; LANES];
        for at in (0..len).rev() {
            every_lane!(K => {
                let symbol = symbols[K][at].min(ESCAPE as u8);
                if symbol == ESCAPE as u8 {
                    next[K] -= 2;
                    store(&mut self.written[K], next[K], escaped(lane(K), at).to_le_bytes());
                }
                let e = encodings[K][usize::from(symbol)];
                let bytes =
                    u32::from(x[K] >= e.limit) + u32::from(u64::from(x[K]) >= u64::from(e.limit) << 8);
                // Always two bytes; those that do not count are overwritten by the next.
                store(&mut self.written[K], next[K].wrapping_sub(2), (x[K] as u16).to_be_bytes());
                next[K] -= bytes as usize;
                let low = x[K] >> (8 * bytes);
                let quotient = ((u128::from(low << 1) * u128::from(e.reciprocal)) >> 64) as u32;
                // 1024·quotient + remainder + start, the remainder being low − quotient·frequency.
                x[K] = quotient * u32::from(e.complement) + low + u32::from(e.start);
            });
        }
        for (k, written) in self.written.iter_mut().enumerate() {
            next[k] -= 4;
            written[next[k]..next[k] + 4].copy_from_slice(&x[k].to_le_bytes());
        }
        from_fn(|k| &self.written[k][next[k]..WRITTEN])
    }
}

/// Two bytes at `at`, which is always within the room: a block's longest stream is half of it.
#[inline(always)]
fn store(written: &mut [u8; WRITTEN + APART], at: usize, bytes: [u8; 2]) {
    let at = at % WRITTEN;
    written[at] = bytes[0];
    written[at + 1] = bytes[1];
}

#[cfg(test)]
mod tests {
    use super::super::stream;
    use super::*;

    fn columns(seed: u64, len: usize) -> Vec<Vec<u16>> {
        let mut state = seed;
        (0..LANES)
            .map(|k| {
                (0..len)
                    .map(|_| {
                        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
                        let noise = (state >> 33) as u16;
                        if noise.is_multiple_of(97) { noise } else { noise % (k as u16 * 6 + 2) }
                    })
                    .collect()
            })
            .collect()
    }

    #[test]
    fn interleaved_equals_scalar_for_every_model_and_length() {
        let (mut encoder, mut decoder) = (Encoder::new(), Decoder::new());
        for model in 0..64u8 {
            for (len, used) in [(1, 1), (2, 3), (31, 8), (200, 7), (512, 8)] {
                let values = columns(u64::from(model) + 7, len);
                let symbols: Vec<Vec<u8>> =
                    values.iter().map(|c| c.iter().map(|&v| v.min(32) as u8).collect()).collect();
                let jobs: Vec<(u8, &[u8])> = symbols[..used]
                    .iter()
                    .enumerate()
                    .map(|(k, s)| ((model + k as u8) % 64, &s[..]))
                    .collect();
                let streams = encoder.encode(&jobs, model % 2 == 0, |k, at| values[k][at]);
                let scalar: Vec<Vec<u8>> =
                    (0..used).map(|k| stream::encode_model(jobs[k].0, &values[k])).collect();
                assert_eq!(streams[..used], scalar);
                let streams: Vec<(u8, &[u8])> = (0..used).map(|k| (jobs[k].0, &scalar[k][..])).collect();
                let mut back = vec![vec![0; len]; LANES];
                let sound = decoder.decode(&streams, len, |at, row| {
                    for (column, value) in back.iter_mut().zip(row) {
                        column[at] = value;
                    }
                });
                if streams.iter().all(|s| s.1.len() <= LONGEST) {
                    let largest = values[..used].iter().flatten().copied().max().unwrap();
                    assert_eq!(sound, Some(largest.max(31)));
                    assert_eq!(back[..used], values[..used]);
                } else {
                    assert_eq!(sound, None);
                }
            }
        }
    }

    #[test]
    fn interleaved_refuses_what_the_scalar_refuses() {
        let mut decoder = Decoder::new();
        let values = &columns(5, 60)[3];
        let sound = stream::encode_model(50, values);
        for at in 0..sound.len() {
            for change in 1..=255u8 {
                let mut bytes = sound.clone();
                bytes[at] ^= change;
                let mut out = vec![0; 60];
                let scalar = stream::decode(50, &bytes, u16::MAX, &mut out).is_ok();
                let mut fast = vec![0; 60];
                assert_eq!(decoder.decode(&[(50, &bytes)], 60, |s, v| fast[s] = v[0]).is_some(), scalar);
                if scalar {
                    assert_eq!(out, fast);
                }
            }
        }
        for cut in 0..sound.len() {
            assert_eq!(decoder.decode(&[(50, &sound[..cut])], 60, |_, _| ()), None);
        }
    }
}
