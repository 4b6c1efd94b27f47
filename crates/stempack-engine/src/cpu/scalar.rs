//! The scalar kernels: what every fast one must equal.

use super::Lanes;
use stempack_codecs::bits::sample_at;
use stempack_codecs::tile::NARROW_WIDTH;

pub(super) fn add_tiles(payload: &[u8], widths: &[u8], tile_scans: usize, lanes: Lanes<'_>) {
    let mut at = 0;
    for (t, &width) in widths.iter().enumerate() {
        let scans = t * tile_scans..(t + 1) * tile_scans;
        if width <= NARROW_WIDTH {
            for (s, lane) in lanes.narrow[scans].iter_mut().enumerate() {
                *lane += sample_at(&payload[at..], width, s);
            }
        } else {
            for (s, lane) in lanes.wide[scans].iter_mut().enumerate() {
                *lane += u32::from(sample_at(&payload[at..], width, s));
            }
        }
        at += width as usize * tile_scans / 8;
    }
}
