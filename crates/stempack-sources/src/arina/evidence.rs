//! What the files record about the number of frames and the scan they belong to.

use super::beside::{Beside, Companion};
use super::{DATA, Layout};
use crate::OpenOptions;
use crate::error::SourceCode;
use crate::hdf5::File;
use crate::nxem::{self, Dimensions, Nxem};
use crate::refuse;
use crate::scan_shape::{Candidate, Standing};
use crate::stem_sidecar::{self, SideFile};
use stempack_model::{Result, Warning};

const SPECIFIC: &str = "/entry/instrument/detector/detectorSpecific";

/// The trigger counts of a master must account for the frames.
pub(super) fn check_expected_frames(head: &File, frames: u64) -> Result<()> {
    let count =
        |name: &str| head.value(&format!("{SPECIFIC}/{name}")).and_then(|v| v.count()).filter(|&n| n > 0);
    let (triggers, images) = (count("ntrigger"), count("nimages"));
    let fits = match (triggers, images) {
        (None, None) => true,
        (Some(n), None) | (None, Some(n)) => n == frames,
        // Firmware that sums the images of a trigger stores one frame for each; both readings occur.
        (Some(t), Some(i)) => t.checked_mul(i) == Some(frames) || t == frames || i == frames,
    };
    if fits {
        return Ok(());
    }
    let shown = |n: Option<u64>| n.map_or_else(|| "not recorded".to_owned(), |n| n.to_string());
    Err(refuse(
        SourceCode::InconsistentMembers,
        format!(
            "`{}` records ntrigger {} and nimages {}, but its stacks hold {frames} frames",
            head.name(),
            shown(triggers),
            shown(images)
        ),
        head.path(),
    )
    .with("frame_count", frames))
}

/// Candidates, each shape of each standing once.
#[derive(Default)]
struct Candidates(Vec<Candidate>);

impl Candidates {
    fn add(&mut self, rows: u64, cols: u64, file: &str, place: &str, standing: Standing) {
        if !self.0.iter().any(|c| (c.rows, c.cols, c.standing) == (rows, cols, standing)) {
            let kind = match standing {
                Standing::Inside => "recorded with the data",
                Standing::Companion => "NXem companion",
                Standing::SideFile => "side file",
            };
            let evidence = format!("`{file}`, {place}, {kind}");
            self.0.push(Candidate { rows, cols, evidence, standing });
        }
    }

    /// A `scan_shape` attribute, if the object has one.
    fn add_attribute(
        &mut self,
        file: &File,
        object: &str,
        options: &OpenOptions,
        warnings: &mut Vec<Warning>,
    ) -> Result<()> {
        if !file.has_attribute(object, "scan_shape") {
            return Ok(());
        }
        let place = format!("{object}@scan_shape");
        match scan_shape_attribute(file, object) {
            Ok((rows, cols)) => self.add(rows, cols, file.name(), &place, Standing::Inside),
            Err(e) if options.scan.is_some() => {
                warnings.push(Warning { code: "invalid_scan_shape", message: e.message().to_owned() });
            }
            Err(e) => return Err(e),
        }
        Ok(())
    }
}

/// Every scan shape that is recorded anywhere.
pub(super) fn scan_candidates(
    head: &File,
    layout: &Layout,
    beside: &Beside,
    options: &OpenOptions,
    warnings: &mut Vec<Warning>,
) -> Result<Vec<Candidate>> {
    let mut found = Candidates::default();
    for object in ["/", DATA, "/entry/data/data"] {
        found.add_attribute(head, object, options, warnings)?;
    }
    // One file after the other: an acquisition may have more shards than a process may have open files.
    for stack in &layout.stacks {
        let shard =
            if stack.index.file() == head.path() { head.clone() } else { File::open(stack.index.file())? };
        found.add_attribute(&shard, stack.index.object(), options, warnings)?;
        found.add_attribute(&shard, DATA, options, warnings)?;
    }
    if let Some(Nxem { dimensions: Dimensions::Recorded(rows, cols, place), .. }) = nxem::read(head) {
        found.add(rows, cols, head.name(), place, Standing::Inside);
    }
    if let Companion::Read { name, block, .. } = &beside.companion
        && let Dimensions::Recorded(rows, cols, place) = block.dimensions
    {
        found.add(rows, cols, name, place, Standing::Companion);
    }
    if let Some((_, name, SideFile { dimensions: Some((rows, cols)), .. })) = &beside.side_file {
        let place = format!("{}@NumPixelsY, NumPixelsX", stem_sidecar::GROUP);
        found.add(*rows, *cols, name, &place, Standing::SideFile);
    }
    Ok(found.0)
}

fn scan_shape_attribute(file: &File, object: &str) -> Result<(u64, u64)> {
    match file.attribute(object, "scan_shape").and_then(|v| v.counts()).as_deref() {
        Some(&[rows, cols]) if rows > 0 && cols > 0 => Ok((rows, cols)),
        _ => Err(refuse(
            SourceCode::InvalidScanShape,
            format!("`{object}@scan_shape` of `{}` is not two positive integers", file.name()),
            file.path(),
        )
        .hint("state the scan shape with --scan RxC")),
    }
}
