//! Any bytes as a bitshuffle/LZ4 chunk: decoded or refused.
#![no_main]
use libfuzzer_sys::fuzz_target;
use stempack_codecs::bitshuffle;

fuzz_target!(|data: &[u8]| {
    let Some((&first, chunk)) = data.split_first() else { return };
    let element = [1, 2, 4, 8][first as usize % 4];
    let mut out = vec![0; element * (first as usize / 4 * 37 + 5)];
    let _ = bitshuffle::decode_chunk(chunk, element, &mut out, &mut Vec::new());
});
