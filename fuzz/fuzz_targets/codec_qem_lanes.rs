//! Any bytes as a chunk of float halves: refused or decoded, the same from every start.
#![no_main]
use libfuzzer_sys::fuzz_target;
use stempack_codecs::qem::lanes::LaneChunk;
use stempack_model::Task;

fuzz_target!(|data: &[u8]| {
    let Some((&[scans, pixels, kind], rest)) = data.split_first_chunk() else { return };
    let scans = if kind & 1 == 0 { usize::from(scans) % 8 } else { 480 + usize::from(scans) % 40 };
    let pixels = usize::from(pixels) % 6;
    let (tables, payload) = rest.split_at(rest.len().min(4 * pixels));
    let mut offsets = vec![0u8; 4];
    let (mut end, mut selectors) = (0u32, Vec::new());
    for pair in tables.chunks_exact(2) {
        let selector = if kind & 2 == 0 { [252, 253, 254, 255][usize::from(pair[0] % 4)] } else { pair[0] };
        end += match selector {
            253 => 0,
            254 => 2 * scans as u32,
            255 => 2,
            _ => u32::from(pair[1]),
        };
        offsets.extend(end.to_le_bytes());
        selectors.push(selector);
    }
    let Ok(chunk) = LaneChunk::new(scans, pixels, payload, &offsets, &selectors) else { return };
    let task = Task::new();
    let mut all = vec![0f32; scans * pixels];
    if chunk.decode(0..scans, &mut all, &task).is_ok() {
        let mut part = vec![0f32; (scans - scans / 2) * pixels];
        chunk.decode(scans / 2..scans, &mut part, &task).unwrap();
        assert!(part.iter().zip(&all[scans / 2 * pixels..]).all(|(a, b)| a.to_bits() == b.to_bits()));
        let mut column = vec![0f32; scans];
        chunk.decode_pixel(pixels - 1, &mut column).unwrap();
        assert!((0..scans).all(|s| column[s].to_bits() == all[s * pixels + pixels - 1].to_bits()));
    }
});
