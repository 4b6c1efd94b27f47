//! Reductions over bit planes, block by block.

use super::{ScanMoments, Sign, cut, max_count};
use crate::cpu::Kernel;
use rayon::prelude::*;
use stempack_codecs::planes::{BLOCK_SCANS, PlaneBlock, PlaneShard};
use stempack_model::{Result, Task};

/// Calls `use_sums` with the sums of all `pixels`, in as many pieces as 32 bits need: nearly always one.
fn sum_block(kernel: Kernel, block: &PlaneBlock, pixels: &[u32], mut use_sums: impl FnMut(&[u32])) {
    let mut sums = [0; BLOCK_SCANS];
    let mut rest = pixels;
    while !rest.is_empty() {
        let mut bound = 0;
        let fits = |pixel: &&u32| {
            bound += max_count(block.widths()[**pixel as usize]);
            bound <= u32::MAX.into()
        };
        let piece;
        (piece, rest) = rest.split_at(rest.iter().take_while(fits).count());
        kernel.sum_block(block, piece, &mut sums);
        use_sums(&sums[..block.scans()]);
    }
}

/// See [`super::virtual_image`]; one of `shards` shards.
pub(super) fn virtual_image(
    kernel: Kernel,
    planes: &PlaneShard,
    selected: &[u32],
    sign: Sign,
    shards: usize,
    out: &mut [u64],
    task: &Task,
) -> Result<()> {
    let pieces = cut(selected.len(), shards * planes.blocks().len(), 512);
    let outs = out.par_chunks_mut(BLOCK_SCANS);
    planes.blocks().par_iter().zip(outs).try_for_each(|(block, out)| {
        task.check()?;
        if let [_] = pieces[..] {
            sum_block(kernel, block, selected, |sums| {
                out.iter_mut().zip(sums).for_each(|(o, &s)| sign.apply(o, s.into()));
            });
            return Ok(());
        }
        let partial: Vec<Vec<u64>> = pieces
            .par_iter()
            .map(|piece| {
                let mut partial = vec![0; out.len()];
                sum_block(kernel, block, &selected[piece.clone()], |sums| {
                    partial.iter_mut().zip(sums).for_each(|(p, &s)| *p += u64::from(s));
                });
                partial
            })
            .collect();
        for sums in partial {
            out.iter_mut().zip(sums).for_each(|(o, s)| sign.apply(o, s));
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
    planes: &PlaneShard,
    lines: &Lines,
    shards: usize,
    task: &Task,
) -> Result<ScanMoments> {
    let blocks = planes.blocks().len() * shards;
    let (row_pieces, col_pieces) = (cut(lines.rows.len(), blocks, 1), cut(lines.cols.len(), blocks, 1));
    let each = planes
        .blocks()
        .par_iter()
        .map(|block| {
            let partial = |rows: bool| {
                let (pieces, lines) =
                    if rows { (&row_pieces, &lines.rows) } else { (&col_pieces, &lines.cols) };
                pieces.par_iter().map(move |piece| {
                    task.check()?;
                    let (mut total, mut moment) = ([0; BLOCK_SCANS], [0; BLOCK_SCANS]);
                    for index in piece.clone() {
                        sum_block(kernel, block, &lines[index], |sums| {
                            let mut whole = [0; BLOCK_SCANS];
                            whole[..sums.len()].copy_from_slice(sums);
                            if rows {
                                kernel.add_weighted(&whole, 1, &mut total);
                            }
                            kernel.add_weighted(&whole, index as u32, &mut moment);
                        });
                    }
                    let moment = moment[..block.scans()].to_vec();
                    Ok(if rows {
                        let col = vec![0; block.scans()];
                        ScanMoments { total: total[..block.scans()].to_vec(), row: moment, col }
                    } else {
                        let none = vec![0; block.scans()];
                        ScanMoments { total: none.clone(), row: none, col: moment }
                    })
                })
            };
            let mut sum = ScanMoments::zeros(block.scans());
            for rows in [true, false] {
                let parts: Vec<ScanMoments> = partial(rows).collect::<Result<_>>()?;
                parts.into_iter().for_each(|part| sum.add(part));
            }
            Ok(sum)
        })
        .collect::<Result<Vec<_>>>()?;
    let mut all = ScanMoments::default();
    each.into_iter().for_each(|m| all.extend(m));
    Ok(all)
}
