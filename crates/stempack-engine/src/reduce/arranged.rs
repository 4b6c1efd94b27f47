//! Reductions over bit planes, block by block.

use super::{Change, Lines, ScanMoments, cut, each, max_count};
use crate::cpu::Kernel;
use crate::cpu::planes::Signed;
use rayon::prelude::*;
use stempack_codecs::planes::{BLOCK_SCANS, PlaneBlock, PlaneShard};
use stempack_model::{Result, Task};

/// A shard in bit planes with the pixel widths that reductions need.
pub(super) struct Part<'a> {
    pub(super) planes: &'a PlaneShard,
    /// Largest width of each pixel in this shard.
    pub(super) max_widths: &'a [u8],
}

/// Pixels whose sums have no more than 31 bits, and the largest that these can be.
#[derive(Clone, Copy, Default)]
struct Piece<'a> {
    pixels: Signed<'a>,
    bound: u32,
}

/// Cuts pixels so that the sum of each part fits 31 bits: nearly always one part.
fn parts_of<'a>(mut pixels: &'a [u32], max_widths: &[u8]) -> Vec<(&'a [u32], u32)> {
    let mut parts = Vec::new();
    while !pixels.is_empty() {
        let (mut bound, mut count) = (0, 0);
        for &pixel in pixels {
            let larger = bound + max_count(max_widths[pixel as usize]) as u32;
            if larger > i32::MAX as u32 {
                break;
            }
            (bound, count) = (larger, count + 1);
        }
        let part;
        (part, pixels) = pixels.split_at(count);
        parts.push((part, bound));
    }
    parts
}

/// Cuts pixels into pieces: nearly always one.
fn pieces_of<'a>(pixels: Signed<'a>, max_widths: &[u8]) -> Vec<Piece<'a>> {
    let (add, take) = (parts_of(pixels.add, max_widths), parts_of(pixels.take, max_widths));
    let mut pieces = vec![Piece::default(); add.len().max(take.len())];
    for (piece, (add, bound)) in pieces.iter_mut().zip(add) {
        (piece.pixels.add, piece.bound) = (add, bound);
    }
    for (piece, (take, bound)) in pieces.iter_mut().zip(take) {
        (piece.pixels.take, piece.bound) = (take, piece.bound.max(bound));
    }
    pieces
}

fn bounded<'a>(lines: &'a [Vec<u32>], max_widths: &[u8]) -> Vec<Vec<Piece<'a>>> {
    lines.iter().map(|line| pieces_of(Signed::sum(line), max_widths)).collect()
}

/// Calls `use_sums` with the sums of every piece; `then` are the pixels summed after them, and where.
fn sum_block<'a>(
    kernel: Kernel,
    block: &PlaneBlock,
    pieces: &'a [Piece<'a>],
    then: (&PlaneBlock, &'a [Piece<'a>]),
    mut use_sums: impl FnMut(&[u32]),
) {
    let mut sums = [0; BLOCK_SCANS];
    for (k, piece) in pieces.iter().enumerate() {
        let (later, next) = match pieces.get(k + 1) {
            Some(next) => (block, next.pixels.first()),
            None => (then.0, then.1.first().map_or(&[][..], |next| next.pixels.first())),
        };
        kernel.sum_block(block, piece.pixels, piece.bound, (later, next), &mut sums);
        use_sums(&sums[..block.scans()]);
    }
}

/// See [`super::virtual_image`]; one of `shards` shards.
pub(super) fn virtual_image(
    kernel: Kernel,
    part: &Part<'_>,
    change: Change<'_>,
    shards: usize,
    out: &mut [u64],
    task: &Task,
) -> Result<()> {
    // Few blocks are summed by several threads each.
    let blocks = part.planes.blocks();
    let of = |list: &[u32]| cut(list.len(), shards * blocks.len(), 512);
    let (add, take) = (of(change.add), of(change.take));
    let together = add.len().max(take.len()) <= 1;
    let pixels = if together {
        vec![Signed { add: change.add, take: change.take }]
    } else {
        let add = add.into_iter().map(|range| Signed::sum(&change.add[range]));
        let take = take.into_iter().map(|range| Signed { add: &[], take: &change.take[range] });
        add.chain(take).collect()
    };
    let pieces: Vec<Piece<'_>> = pixels.into_iter().flat_map(|p| pieces_of(p, part.max_widths)).collect();
    let outs = out.chunks_mut(BLOCK_SCANS).enumerate();
    each(blocks.iter().zip(outs).collect(), |(block, (b, out))| {
        task.check()?;
        let mut before = change.before.map(|before| &before[b * BLOCK_SCANS..][..out.len()]);
        // The first piece is added to what was there before, others to that.
        match before {
            None => out.fill(0),
            Some(before) if pieces.is_empty() => out.copy_from_slice(before),
            Some(_) => {}
        }
        let mut add = |sums: &[u32]| kernel.add_signed(before.take(), sums, out);
        if together {
            sum_block(kernel, block, &pieces, (blocks.get(b + 1).unwrap_or(block), &pieces), add);
            return Ok(());
        }
        let partial = pieces.par_iter().map(|piece| {
            let mut sums = [0; BLOCK_SCANS];
            kernel.sum_block(block, piece.pixels, piece.bound, (block, &[]), &mut sums);
            sums
        });
        partial.collect::<Vec<_>>().iter().for_each(|sums| add(sums));
        Ok(())
    })
}

/// See [`super::moments`]; one of `shards` shards. Lines are summed, and the sums weighted with the index of the line.
pub(super) fn moments(
    kernel: Kernel,
    part: &Part<'_>,
    lines: &Lines,
    shards: usize,
    task: &Task,
) -> Result<ScanMoments> {
    let blocks = part.planes.blocks().len() * shards;
    let (rows, cols) = (bounded(&lines.rows, part.max_widths), bounded(&lines.cols, part.max_widths));
    let (row_pieces, col_pieces) = (cut(lines.rows.len(), blocks, 1), cut(lines.cols.len(), blocks, 1));
    let each = part
        .planes
        .blocks()
        .par_iter()
        .map(|block| {
            let partial = |of_rows: bool| {
                let (pieces, lines) = if of_rows { (&row_pieces, &rows) } else { (&col_pieces, &cols) };
                pieces.par_iter().map(move |piece| {
                    task.check()?;
                    let (mut total, mut moment) = ([0; BLOCK_SCANS], [0; BLOCK_SCANS]);
                    for index in piece.clone() {
                        let then = (block, lines.get(index + 1).map_or(&[][..], |line| &line[..]));
                        sum_block(kernel, block, &lines[index], then, |sums| {
                            let mut whole = [0; BLOCK_SCANS];
                            whole[..sums.len()].copy_from_slice(sums);
                            if of_rows {
                                kernel.add_weighted(&whole, 1, &mut total);
                            }
                            kernel.add_weighted(&whole, index as u32, &mut moment);
                        });
                    }
                    let moment = moment[..block.scans()].to_vec();
                    Ok(if of_rows {
                        let col = vec![0; block.scans()];
                        ScanMoments { total: total[..block.scans()].to_vec(), row: moment, col }
                    } else {
                        let none = vec![0; block.scans()];
                        ScanMoments { total: none.clone(), row: none, col: moment }
                    })
                })
            };
            let mut sum = ScanMoments::zeros(block.scans());
            for of_rows in [true, false] {
                let parts: Vec<ScanMoments> = partial(of_rows).collect::<Result<_>>()?;
                parts.into_iter().for_each(|part| sum.add(part));
            }
            Ok(sum)
        })
        .collect::<Result<Vec<_>>>()?;
    let mut all = ScanMoments::default();
    each.into_iter().for_each(|m| all.extend(m));
    Ok(all)
}
