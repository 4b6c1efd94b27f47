//! `.qem` files and originals: nothing is loaded as a whole; every question reads what it needs.

use super::{BenchReport, CacheReport, Masks, Phases, equality, repeat, system, timed, timing};
use crate::{
    BrightFieldDisk, Exclusions, FrameSource, Opened, Products, QemFile, QemProducts, Result, Samples, Task,
};
use std::sync::Arc;

const ASKED: &str = "part of every question: blocks are read, checked and decoded when they are first needed";
const STREAMED: &str = "part of every question: frames are read and decoded while they are used";

pub(super) fn qem(
    file: &Arc<QemFile>,
    metadata: f64,
    mut cache: CacheReport,
    task: &Task,
) -> Result<BenchReport> {
    let mut phases = Phases::new();
    phases.put("metadata", Some(metadata), Some("the whole header; nothing of the body"));
    let products = QemProducts::new(file.clone())?;
    let (_, first) = timed(|| products.working_frame(0, 0))?;
    phases.put("first_diffraction", Some(first), Some("its block is read, checked and decoded"));
    let opened = Opened::Qem(file.clone());
    let (disk, took) = timed(|| crate::bright_field_disk(&opened, &products, task))?;
    phases.wall("bright_field_disk", took);
    cache.judge(file.info().file_bytes);
    let masks = Masks::of(&disk, &products)?;
    // Opened anew: finding the disk has touched every block.
    let fresh = QemProducts::new(Arc::new(QemFile::open(file.path())?))?;
    let (_, first) = timed(|| fresh.virtual_image(&masks.bright, task))?;
    phases.put("first_detector", Some(first), Some("on a file opened anew: every checksum is compared"));
    drop(fresh);
    let peak_ready_bytes = system::peak_resident_bytes();
    let again = QemFile::open(file.path())?;
    let (_, hashed) = timed(|| again.verify_checksums(task))?;
    phases.put("payload_integrity", Some(hashed), Some("every checksum of the body, compared at once"));
    let (_, whole) = timed(|| crate::sha256_file(file.path(), task))?;
    phases.wall("whole_file_integrity", whole);
    phases.absent(&["source_read", "descriptor_preparation", "decode"], ASKED);
    phases.absent(&["host_header_validation"], "stream tables are held to their rules by every question");
    phases.absent(
        &["private_upload", "load", "resident_ready", "arrange"],
        "a file is asked as it is; nothing is loaded first",
    );

    let mut interaction = questions(&products, &masks, true, task)?;
    interaction.extend(frames_of_blocks(file, task)?);
    let mut checks = Vec::new();
    equality::frame_by_frame(&products, file.clone().product_source()?, &masks.bright, &mut checks, task)?;
    equality::reference(&products, &masks.bright, &mut checks, task)?;
    Ok(BenchReport {
        profile: "qem",
        file_bytes: file.info().file_bytes,
        peak_ready_bytes,
        ..report(&products, phases, interaction, &masks, disk, cache, checks)
    })
}

pub(super) fn original(
    source: &Arc<dyn FrameSource>,
    metadata: f64,
    mut cache: CacheReport,
    task: &Task,
) -> Result<BenchReport> {
    let mut phases = Phases::new();
    phases.wall("metadata", metadata);
    let products = crate::original_products(source.clone())?;
    let (_, first) = timed(|| products.working_frame(0, 0))?;
    phases.wall("first_diffraction", first);
    let opened = Opened::Original(source.clone());
    let (disk, took) = timed(|| crate::bright_field_disk(&opened, &products, task))?;
    phases.wall("bright_field_disk", took);
    let file_bytes = source.acquisition().members.iter().map(|m| m.bytes).sum();
    cache.judge(file_bytes);
    let masks = Masks::of(&disk, &products)?;
    let (_, first) = timed(|| products.virtual_image(&masks.bright, task))?;
    phases.wall("first_detector", first);
    let peak_ready_bytes = system::peak_resident_bytes();
    let (_, whole) = timed(|| source.digest_members(task))?;
    phases.put("whole_file_integrity", Some(whole), Some("SHA-256 of every file of the acquisition"));
    phases.absent(&["source_read", "decode"], STREAMED);
    phases.absent(
        &[
            "host_header_validation",
            "descriptor_preparation",
            "private_upload",
            "load",
            "resident_ready",
            "arrange",
        ],
        "an original is not made resident here; it is read for every question",
    );
    phases.absent(&["payload_integrity"], "an original carries no digest of its samples");

    let mut interaction = questions(&products, &masks, false, task)?;
    interaction.push(("frame", frames(&products)?));
    let mut checks = Vec::new();
    equality::reference(&products, &masks.bright, &mut checks, task)?;
    Ok(BenchReport {
        profile: "original",
        file_bytes,
        peak_ready_bytes,
        ..report(&products, phases, interaction, &masks, disk, cache, checks)
    })
}

type Interaction = Vec<(&'static str, super::Timing)>;

fn report(
    products: &dyn Products,
    phases: Phases,
    interaction: Interaction,
    masks: &Masks,
    disk: BrightFieldDisk,
    cache: CacheReport,
    checks: Vec<crate::Check>,
) -> BenchReport {
    BenchReport {
        profile: "",
        shape: products.shape(),
        file_bytes: 0,
        phases: phases.0,
        interaction,
        updates: Vec::new(),
        disk,
        mask_pixels: masks.bright.count(),
        kernel: "portable",
        layout: None,
        threads: stempack_engine::threads(),
        resident_bytes: None,
        mapped_bytes: None,
        peak_ready_bytes: None,
        cache,
        checks,
        machine: system::Machine::here(),
    }
}

fn questions(products: &dyn Products, masks: &Masks, moves: bool, task: &Task) -> Result<Interaction> {
    let shape = products.shape();
    let counts = |pixels: usize| (pixels * shape.scan.positions()) as u64;
    let image = |mask: &crate::DetectorMask| products.virtual_image(mask, task).map(drop);
    let mut all = vec![("rebase", repeat(counts(masks.bright.count()), || image(&masks.bright))?)];
    if moves {
        let mut step = 0;
        let mut moved = |drag: &[crate::DetectorMask]| {
            step += 1;
            image(&drag[step % drag.len()])
        };
        all.push(("moved", repeat(counts(masks.bright.count()), || moved(&masks.drag))?));
        if let Some(first) = masks.annular_drag.first() {
            all.push(("adf_moved", repeat(counts(first.count()), || moved(&masks.annular_drag))?));
        }
    }
    all.push(("total", repeat(counts(masks.everything.count()), || image(&masks.everything))?));
    let pixels = counts(shape.detector.pixels());
    all.push(("mean", repeat(pixels, || products.pattern_sum(task).map(drop))?));
    all.push(("com", repeat(pixels, || products.moments(task).map(drop))?));
    Ok(all)
}

/// Frames here and there.
fn frames(products: &dyn Products) -> Result<super::Timing> {
    let (scan, pixels) = (products.shape().scan, products.shape().detector.pixels());
    let mut position = 0;
    repeat(pixels as u64, || {
        position = (position + 7919) % scan.positions();
        products.working_frame(position / scan.cols(), position % scan.cols()).map(drop)
    })
}

/// One frame of each block of a file that was just opened and whose checksums have been compared: no frame was decoded
/// before it is asked for. Then another frame of the same blocks, which may be there already.
fn frames_of_blocks(file: &QemFile, task: &Task) -> Result<Interaction> {
    let fresh = QemProducts::new(Arc::new(QemFile::open(file.path())?))?;
    fresh.file().verify_checksums(task)?;
    let (scan, pixels) = (fresh.shape().scan, fresh.shape().detector.pixels());
    let step = file.scans_per_chunk().clamp(1, 512) as usize;
    ["frame", "frame_again"]
        .into_iter()
        .enumerate()
        .map(|(offset, name)| {
            let mut times = Vec::new();
            for first in (0..scan.positions()).step_by(step).take(64) {
                let position = (first + offset).min(scan.positions() - 1);
                times.push(timed(|| fresh.working_frame(position / scan.cols(), position % scan.cols()))?.1);
            }
            Ok((name, timing(times, pixels as u64)))
        })
        .collect()
}

/// Working frames as the plain definitions want raw ones: zero where a pixel is excluded.
pub(super) fn plain_frame(products: &dyn Products, position: usize) -> Result<(Samples, Exclusions)> {
    let cols = products.shape().scan.cols();
    Ok((products.working_frame(position / cols, position % cols)?, products.exclusions().clone()))
}
