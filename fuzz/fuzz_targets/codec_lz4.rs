//! Any bytes as a raw LZ4 block: decoded or refused, and what is encoded comes back.
#![no_main]
use libfuzzer_sys::fuzz_target;
use stempack_codecs::lz4;

fuzz_target!(|data: &[u8]| {
    let Some((&size, block)) = data.split_first() else { return };
    let mut out = vec![0; size as usize * 40];
    let _ = lz4::decode_block(block, &mut out);
    let mut encoded = Vec::new();
    lz4::encode_block(block, &mut encoded);
    let mut back = vec![0; block.len()];
    lz4::decode_block(&encoded, &mut back).expect("own block");
    assert_eq!(back, block);
});
