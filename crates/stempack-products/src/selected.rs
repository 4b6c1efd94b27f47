//! How chosen frames are summed and gathered by whoever can give frames by position: the answers that implementations
//! of [`Products`] have without doing anything, and that faster ones are compared with.

use crate::reduce::{PatternSums, Sample, with_type};
use crate::region::{FrameSize, read_ahead};
use crate::{PatternSum, ProductCode, Products, ScanSelection, Sums, Values};
use stempack_model::{Error, ModelCode, Result, Samples, SamplesMut, Task};

/// Σ over the chosen frames at every pixel.
pub(crate) fn sum<P: Products + ?Sized>(
    products: &P,
    selection: &ScanSelection,
    task: &Task,
) -> Result<PatternSum> {
    selection.check_scan(products.shape().scan)?;
    with_type!(products.working_type(), T => sum_of::<T, P>(products, selection, task))
}

fn sum_of<T: Sample, P: Products + ?Sized>(
    products: &P,
    selection: &ScanSelection,
    task: &Task,
) -> Result<PatternSum>
where
    Sums: From<Vec<T::Sum>>,
{
    let detector = products.shape().detector;
    let frame = FrameSize { pixels: detector.pixels(), sample: products.working_type() };
    let limit = frame.window_frames(PatternSums::<T>::BYTES * detector.pixels() as u64, task)?;
    let total = selection.positions();
    // Windows are counted among the chosen frames, so that scattered ones still fill them.
    let windows = (0..total).step_by(limit as usize).map(|first| (first, limit.min(total - first)));
    let quiet = task.quiet();
    let fill = |first: u64, into: SamplesMut<'_>| {
        let mut rest = into;
        for run in selection.slice(first, (rest.len() / frame.pixels) as u64) {
            let (head, tail) = rest.split_at((run.end - run.start) as usize * frame.pixels);
            quiet.check()?;
            products.working_positions(run.start, head, &quiet)?;
            rest = tail;
        }
        Ok(())
    };
    let mut sums = PatternSums::<T>::new(detector.pixels(), total);
    let bytes = (frame.pixels * frame.sample.bytes()) as u64;
    task.begin("sum of frames", total.saturating_mul(bytes));
    let outcome = read_ahead(frame, windows, task, &fill, |_, samples| {
        sums.add_frames(T::of(samples).unwrap_or_default());
        Ok(())
    });
    task.finish();
    outcome?;
    products.check_unchanged()?;
    let sums =
        sums.finish(&products.exclusions().pixels).map_err(|pixel| PatternSum::overflow(detector, pixel))?;
    Ok(PatternSum { shape: detector, sums: sums.into(), positions: total })
}

/// Frames of a list of positions, in its order.
pub(crate) fn frames<P: Products + ?Sized>(
    products: &P,
    positions: &[(usize, usize)],
    values: Values,
    task: &Task,
) -> Result<Samples> {
    let (scan, pixels) = (products.shape().scan, products.shape().detector.pixels());
    let sample = values.sample_type(products);
    if positions.is_empty() {
        return Err(Error::new(ProductCode::RegionEmpty, "the list of scan positions is empty"));
    }
    if let Some((row, col)) = positions.iter().find(|&&(r, c)| r >= scan.rows() || c >= scan.cols()) {
        let message = format!("scan position ({row}, {col}) lies outside the {scan} scan");
        return Err(Error::new(ModelCode::OutOfRange, message));
    }
    let frame_bytes = pixels as u64 * sample.bytes() as u64;
    let needed = frame_bytes.saturating_mul(positions.len() as u64);
    if needed > task.memory_budget() {
        let message = format!(
            "{} frames take {needed} bytes, the memory budget is {}",
            positions.len(),
            task.memory_budget()
        );
        return Err(Error::new(ModelCode::OverBudget, message)
            .with("needed_bytes", needed)
            .with("budget_bytes", task.memory_budget()));
    }
    // In the order of the scan, so that whoever reads shard after shard reads each once.
    let at = |slot: usize| positions[slot].0 * scan.cols() + positions[slot].1;
    let mut order: Vec<usize> = (0..positions.len()).collect();
    order.sort_by_key(|&slot| at(slot));
    let mut all = Samples::zeroed(sample, pixels * positions.len());
    let quiet = task.quiet();
    task.begin("frames", needed);
    let mut before: Option<usize> = None;
    let read = order.into_iter().try_for_each(|slot| {
        task.check()?;
        let again = before.filter(|&b| at(b) == at(slot));
        let copy = again.map(|b| all.as_ref().slice(b * pixels..(b + 1) * pixels).to_owned());
        let mut into = all.as_mut().split_at(slot * pixels).1.split_at(pixels).0;
        match (copy, values) {
            (Some(copy), _) => {
                let same = into.copy_from(copy.as_ref());
                debug_assert!(same, "frames of one list have one size and type");
            }
            (None, Values::Raw) => products.raw_positions(at(slot) as u64, into, &quiet)?,
            (None, Values::Working) => products.working_positions(at(slot) as u64, into, &quiet)?,
        }
        before = Some(slot);
        task.advance(frame_bytes);
        Ok(())
    });
    task.finish();
    read?;
    products.check_unchanged()?;
    Ok(all)
}
