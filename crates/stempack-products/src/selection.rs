//! Which scan positions a sum of frames takes: a rectangle, a circle, or any mask of the scan.
//!
//! Distances are between scan indices, positions lying at integers, compared as squared `f64`; a circle holds `d ≤ r`,
//! as a disk of detector pixels does. The circle in a square of n × n positions from (row, col) on has its centre at
//! (row + (n − 1)/2, col + (n − 1)/2) and the radius n/2; both are exact.

use crate::{ProductCode, ScanRegion};
use std::ops::Range;
use stempack_model::{Error, Result, ScanShape};

/// A non-empty set of scan positions, in row-major order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScanSelection {
    scan: ScanShape,
    /// Maximal runs of consecutive positions; a run may pass from one row to the next.
    runs: Vec<Range<u64>>,
    /// How many positions lie before each run.
    before: Vec<u64>,
    positions: u64,
}

impl ScanSelection {
    /// Every position.
    pub fn whole(scan: ScanShape) -> Self {
        let all = 0..scan.positions() as u64;
        ScanSelection { scan, positions: all.end, runs: vec![all], before: vec![0] }
    }

    /// Half-open row and column ranges.
    ///
    /// # Errors
    /// `region_outside` when a range is empty or leaves the scan.
    pub fn rectangle(scan: ScanShape, rows: Range<usize>, cols: Range<usize>) -> Result<Self> {
        let region = ScanRegion::new(scan, rows, cols)?;
        let width = scan.cols() as u64;
        let (left, right) = (region.cols().start as u64, region.cols().end as u64);
        Self::of(scan, region.rows().map(|row| row as u64 * width + left..row as u64 * width + right))
    }

    /// Positions of the scan at most `radius` from the centre (row, column), in units of the step between positions.
    /// The circle may reach beyond the scan, where there are no positions.
    ///
    /// # Errors
    /// `region_geometry` when a number is not finite or the radius negative; `region_empty` when it holds no position.
    pub fn circle(scan: ScanShape, [row, col]: [f64; 2], radius: f64) -> Result<Self> {
        let geometry = |text: String| Err(Error::new(ProductCode::RegionGeometry, text));
        if !(row.is_finite() && col.is_finite()) {
            return geometry(format!("the centre ({row}, {col}) of a scan circle is not finite"));
        }
        if !(radius.is_finite() && radius >= 0.0) {
            return geometry(format!("{radius} is no radius of a scan circle"));
        }
        let limit = radius * radius;
        let inside = |position: u64| {
            let (r, c) = (position as usize / scan.cols(), position as usize % scan.cols());
            let (down, along) = (r as f64 - row, c as f64 - col);
            down * down + along * along <= limit
        };
        let all = 0..scan.positions() as u64;
        Self::of(scan, all.filter(|&p| inside(p)).map(|p| p..p + 1))
            .map_err(|e| e.at(format_args!("scan circle at ({row}, {col}) with radius {radius}")))
    }

    /// Positions whose byte is 1 in a row-major array of zeros and ones.
    ///
    /// # Errors
    /// `scan_mask_shape` when the array has another number of positions; `mask_not_binary` when a byte is neither 0 nor
    /// 1; `region_empty` when all are 0.
    pub fn from_array(scan: ScanShape, bytes: &[u8]) -> Result<Self> {
        if bytes.len() != scan.positions() {
            let message = format!(
                "the scan mask has {} positions, the {scan} scan has {}",
                bytes.len(),
                scan.positions()
            );
            return Err(Error::new(ProductCode::ScanMaskShape, message));
        }
        if let Some((position, &value)) = bytes.iter().enumerate().find(|&(_, &b)| b > 1) {
            let (row, col) = (position / scan.cols(), position % scan.cols());
            let message = format!("scan mask value {value} at position ({row}, {col}) is neither 0 nor 1");
            return Err(Error::new(ProductCode::MaskNotBinary, message)
                .with("position", position)
                .hint("a mask says which frames are summed; weights are not supported"));
        }
        let chosen = (0u64..).zip(bytes).filter(|&(_, &b)| b == 1).map(|(p, _)| p..p + 1);
        Self::of(scan, chosen).map_err(|e| e.at("scan mask"))
    }

    /// Joins ranges that follow each other; they come in order.
    fn of(scan: ScanShape, ranges: impl Iterator<Item = Range<u64>>) -> Result<Self> {
        let mut runs: Vec<Range<u64>> = Vec::new();
        for range in ranges {
            match runs.last_mut() {
                Some(last) if last.end == range.start => last.end = range.end,
                _ => runs.push(range),
            }
        }
        let mut positions = 0;
        let mut before = Vec::with_capacity(runs.len());
        for run in &runs {
            before.push(positions);
            positions += run.end - run.start;
        }
        if positions == 0 {
            let message = format!("no position of the {scan} scan is chosen");
            return Err(Error::new(ProductCode::RegionEmpty, message));
        }
        Ok(ScanSelection { scan, runs, before, positions })
    }

    /// The scan it belongs to.
    pub fn scan(&self) -> ScanShape {
        self.scan
    }
    /// Number of positions, at least one.
    pub fn positions(&self) -> u64 {
        self.positions
    }
    /// Maximal runs of consecutive positions, in order.
    pub fn runs(&self) -> &[Range<u64>] {
        &self.runs
    }
    /// Whether a position is chosen.
    pub fn contains(&self, row: usize, col: usize) -> bool {
        let position = (row * self.scan.cols() + col) as u64;
        let run = self.runs.partition_point(|run| run.end <= position);
        col < self.scan.cols() && self.runs.get(run).is_some_and(|run| run.contains(&position))
    }
    /// Runs of the chosen positions from the `first` one on, `count` of them, counted among the chosen.
    pub(crate) fn slice(&self, first: u64, count: u64) -> impl Iterator<Item = Range<u64>> + '_ {
        let end = first + count;
        let from = self.before.partition_point(|&before| before <= first).saturating_sub(1);
        self.runs[from..].iter().zip(&self.before[from..]).take_while(move |&(_, &before)| before < end).map(
            move |(run, &before)| {
                let skipped = first.saturating_sub(before);
                let left = (end - before).min(run.end - run.start);
                run.start + skipped..run.start + left
            },
        )
    }
    /// Fails unless the selection was made for `scan`.
    ///
    /// # Errors
    /// `region_outside`.
    pub fn check_scan(&self, scan: ScanShape) -> Result<()> {
        if self.scan == scan {
            return Ok(());
        }
        let message = format!("the selection is of a {} scan, the acquisition has {scan}", self.scan);
        Err(Error::new(ProductCode::RegionOutside, message))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scan(rows: u64, cols: u64) -> ScanShape {
        ScanShape::new(rows, cols).unwrap()
    }

    fn ends<'a>(runs: impl IntoIterator<Item = &'a Range<u64>>) -> Vec<(u64, u64)> {
        runs.into_iter().map(|run| (run.start, run.end)).collect()
    }

    #[test]
    fn runs_join_over_rows_and_slices_cut_them() {
        let s = ScanSelection::from_array(scan(3, 4), &[0, 1, 1, 1, 1, 0, 0, 1, 0, 1, 1, 0]).unwrap();
        assert_eq!(ends(s.runs()), [(1, 5), (7, 8), (9, 11)]);
        assert_eq!(s.positions(), 7);
        let slice = |first, count| ends(&s.slice(first, count).collect::<Vec<_>>());
        assert_eq!(slice(0, 7), ends(s.runs()));
        assert_eq!(slice(0, 3), [(1, 4)]);
        assert_eq!(slice(3, 3), [(4, 5), (7, 8), (9, 10)]);
        assert_eq!(slice(4, 1), [(7, 8)]);
        assert_eq!(slice(6, 1), [(10, 11)]);
        let members: Vec<bool> = (0..12).map(|p| s.contains(p / 4, p % 4)).collect();
        assert_eq!(members.iter().filter(|&&m| m).count(), 7);
        assert!(s.contains(1, 0) && !s.contains(1, 1) && !s.contains(0, 4) && !s.contains(9, 0));
        let rows = ScanSelection::rectangle(scan(3, 4), 1..3, 0..4).unwrap();
        assert_eq!(ends(rows.runs()), [(4, 12)]);
        let part = ScanSelection::rectangle(scan(3, 4), 1..3, 1..3).unwrap();
        assert_eq!(ends(part.runs()), [(5, 7), (9, 11)]);
        assert_eq!(ends(ScanSelection::whole(scan(3, 4)).runs()), [(0, 12)]);
    }

    /// Row r of the circle in a square of side D is D² − (2r + 1 − D)² wide, squared: the columns c with
    /// (2c + 1 − D)² no larger, counted here in integers.
    #[test]
    fn the_circle_in_a_square_is_the_one_of_integers() {
        for side in 1..40i64 {
            let square = scan(side as u64, side as u64);
            let middle = (side - 1) as f64 / 2.0;
            let circle = ScanSelection::circle(square, [middle; 2], side as f64 / 2.0).unwrap();
            for row in 0..side {
                let left = side * side - (2 * row + 1 - side).pow(2);
                for col in 0..side {
                    let inside = (2 * col + 1 - side).pow(2) <= left;
                    assert_eq!(circle.contains(row as usize, col as usize), inside, "{side}: {row}, {col}");
                }
            }
        }
    }

    #[test]
    fn what_is_no_region_is_refused() {
        let code = |r: Result<ScanSelection>| r.unwrap_err().code();
        let s = scan(3, 4);
        assert_eq!(code(ScanSelection::rectangle(s, 1..1, 0..4)), "region_outside");
        assert_eq!(code(ScanSelection::rectangle(s, 0..4, 0..4)), "region_outside");
        assert_eq!(code(ScanSelection::circle(s, [0.5, 0.5], 0.7)), "region_empty");
        assert_eq!(code(ScanSelection::circle(s, [-9.0, 0.0], 3.0)), "region_empty");
        for (centre, radius) in [([f64::NAN, 0.0], 1.0), ([0.0, f64::INFINITY], 1.0), ([0.0; 2], -1.0)] {
            assert_eq!(code(ScanSelection::circle(s, centre, radius)), "region_geometry");
        }
        assert_eq!(code(ScanSelection::circle(s, [0.0; 2], f64::NAN)), "region_geometry");
        assert_eq!(code(ScanSelection::from_array(s, &[1; 11])), "scan_mask_shape");
        assert_eq!(code(ScanSelection::from_array(s, &[0; 12])), "region_empty");
        assert_eq!(code(ScanSelection::from_array(s, &[2; 12])), "mask_not_binary");
        assert_eq!(ScanSelection::whole(s).check_scan(scan(4, 3)).unwrap_err().code(), "region_outside");
        assert_eq!(ends(ScanSelection::circle(s, [0.0; 2], 0.0).unwrap().runs()), [(0, 1)]);
    }
}
