//! Reductions over bit planes, block by block.

use super::{Change, ScanMoments, Sign, cut, max_count};
use crate::cpu::Kernel;
use rayon::prelude::*;
use stempack_codecs::planes::{BLOCK_SCANS, PlaneBlock, PlaneShard};
use stempack_model::{Result, Task};

/// A shard in bit planes with the pixel widths that reductions need.
pub(super) struct Part<'a> {
    pub(super) planes: &'a PlaneShard,
    /// Largest width of each pixel in this shard.
    pub(super) max_widths: &'a [u8],
}

/// Pixels whose sum has no more than 32 bits, and the largest that it can be.
struct Piece<'a> {
    pixels: &'a [u32],
    bound: u32,
}

/// Cuts pixels so that the sums of each piece fit 32 bits: nearly always one piece.
fn pieces_of<'a>(pixels: &'a [u32], max_widths: &[u8]) -> Vec<Piece<'a>> {
    let mut pieces = Vec::new();
    let mut rest = pixels;
    while !rest.is_empty() {
        let (mut bound, mut count) = (0u32, 0);
        for &pixel in rest {
            match bound.checked_add(max_count(max_widths[pixel as usize]) as u32) {
                Some(larger) => (bound, count) = (larger, count + 1),
                None => break,
            }
        }
        let piece;
        (piece, rest) = rest.split_at(count);
        pieces.push(Piece { pixels: piece, bound });
    }
    pieces
}

fn bounded<'a>(lines: &'a [Vec<u32>], max_widths: &[u8]) -> Vec<Vec<Piece<'a>>> {
    lines.iter().map(|line| pieces_of(line, max_widths)).collect()
}

/// Calls `use_sums` with the sums of every piece; `then` are the pixels summed after them.
fn sum_block(
    kernel: Kernel,
    block: &PlaneBlock,
    pieces: &[Piece<'_>],
    then: &[Piece<'_>],
    mut use_sums: impl FnMut(&[u32]),
) {
    let mut sums = [0; BLOCK_SCANS];
    for (k, piece) in pieces.iter().enumerate() {
        let next = pieces[k + 1..].first().or(then.first()).map_or(&[][..], |next| next.pixels);
        kernel.sum_block(block, piece.pixels, piece.bound, (block, next), &mut sums);
        use_sums(&sums[..block.scans()]);
    }
}

/// See [`super::virtual_image`]; one of `shards` shards.
pub(super) fn virtual_image(
    kernel: Kernel,
    part: &Part<'_>,
    changes: &[Change<'_>],
    shards: usize,
    out: &mut [u64],
    task: &Task,
) -> Result<()> {
    // Few blocks are summed by several threads each.
    let mut pieces: Vec<(Sign, Piece<'_>)> = Vec::new();
    let blocks = part.planes.blocks();
    let mut together = true;
    for &(sign, pixels) in changes {
        let ranges = cut(pixels.len(), shards * blocks.len(), 512);
        together &= ranges.len() <= 1;
        let own = ranges.into_iter().flat_map(|range| pieces_of(&pixels[range], part.max_widths));
        pieces.extend(own.map(|piece| (sign, piece)));
    }
    let outs = out.par_chunks_mut(BLOCK_SCANS);
    blocks.par_iter().enumerate().zip(outs).try_for_each(|((b, block), out)| {
        task.check()?;
        if together {
            let mut sums = [0; BLOCK_SCANS];
            for (k, (sign, piece)) in pieces.iter().enumerate() {
                let next = match pieces.get(k + 1) {
                    Some((_, next)) => (block, next.pixels),
                    None => (blocks.get(b + 1).unwrap_or(block), pieces[0].1.pixels),
                };
                kernel.sum_block(block, piece.pixels, piece.bound, next, &mut sums);
                out.iter_mut().zip(&sums).for_each(|(o, &s)| sign.apply(o, s.into()));
            }
            return Ok(());
        }
        let partial: Vec<(Sign, [u32; BLOCK_SCANS])> = pieces
            .par_iter()
            .map(|(sign, piece)| {
                let mut sums = [0; BLOCK_SCANS];
                kernel.sum_block(block, piece.pixels, piece.bound, (block, &[]), &mut sums);
                (*sign, sums)
            })
            .collect();
        for (sign, sums) in partial {
            out.iter_mut().zip(sums).for_each(|(o, s)| sign.apply(o, s.into()));
        }
        Ok(())
    })
}

/// The admitted pixels of each detector row and of each column.
pub(super) struct Lines {
    rows: Vec<Vec<u32>>,
    cols: Vec<Vec<u32>>,
}

impl Lines {
    pub(super) fn of((rows, cols): (usize, usize), excluded: &[bool]) -> Self {
        let line = |pixels: &mut dyn Iterator<Item = usize>| -> Vec<u32> {
            pixels.filter(|&p| !excluded[p]).map(|p| p as u32).collect()
        };
        Lines {
            rows: (0..rows).map(|r| line(&mut (r * cols..(r + 1) * cols))).collect(),
            cols: (0..cols).map(|c| line(&mut (c..rows * cols).step_by(cols))).collect(),
        }
    }
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
                        let then = lines.get(index + 1).map_or(&[][..], |line| line);
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
