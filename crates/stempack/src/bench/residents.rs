//! Packs: loaded as a whole, then asked from memory.

use super::{BenchReport, CacheReport, Masks, Phases, equality, ms, repeat, system, timed};
use crate::{
    Check, DetectorMask, Kernel, MappedPack, Opened, PackFile, PackSource, Products, Profile, Resident,
    Result, Task, sha256_file,
};
use std::sync::Arc;
use stempack_containers::pack::LoadPhase;
use stempack_engine::{DetectorSession, UpdateMode};

const OVER_THREADS: &str = "summed over threads, within `load`";

pub(super) fn pack(
    pack: &Arc<PackFile>,
    mapped: bool,
    metadata: f64,
    mut cache: CacheReport,
    task: &Task,
) -> Result<BenchReport> {
    let mut phases = Phases::new();
    phases.wall("metadata", metadata);
    let (resident, load) =
        timed(|| if mapped { load_mapped(pack, task) } else { Resident::load(pack, task) })?;
    let mapped_bytes = resident.report().mapped_bytes;
    cache.judge(pack.bytes());
    phases.wall("load", load);
    phases.put("resident_ready", Some(metadata + load), Some("`metadata` and `load` together"));
    load_phases(pack, &mut phases);
    let shape = resident.shape();
    let (_, first) = timed(|| resident.working_frame(0, 0))?;
    phases.wall("first_diffraction", first);
    let opened = Opened::Pack(pack.clone());
    let (disk, took) = timed(|| crate::bright_field_disk(&opened, &resident, task))?;
    phases.wall("bright_field_disk", took);
    let masks = Masks::of(&disk, &resident)?;
    let (image, first) = timed(|| resident.virtual_image(&masks.bright, task))?;
    phases.wall("first_detector", first);
    arrange(&resident, &mut phases, task)?;
    let peak_ready_bytes = system::peak_resident_bytes();
    // Last, for it reads the whole file: before the load it would have been the one to fetch it.
    let (_, whole) = timed(|| sha256_file(pack.path(), task))?;
    phases.put(
        "whole_file_integrity",
        Some(whole),
        Some("measured after the load; loading does not need it"),
    );

    let positions = shape.scan.positions();
    let counts = |pixels: usize| (pixels * positions) as u64;
    let all = counts(shape.detector.pixels());
    let mut interaction = Vec::new();
    let mut updates = Updates::default();
    let resident = Arc::new(resident);
    let mut session = DetectorSession::new(resident.clone());
    let bright = counts(masks.bright.count());
    interaction.push(("rebase", repeat(bright, || session.update(&masks.bright, true, task).map(drop))?));
    for (rebase, moved, drag) in
        [(None, "moved", &masks.drag), (Some("adf_rebase"), "adf_moved", &masks.annular_drag)]
    {
        let Some(first) = drag.first() else { continue };
        let selected = counts(first.count());
        if let Some(name) = rebase {
            interaction.push((name, repeat(selected, || session.update(first, true, task).map(drop))?));
        }
        session.update(first, true, task)?;
        let mut step = 0;
        interaction.push((
            moved,
            repeat(selected, || {
                step += 1;
                session.update(&drag[step % drag.len()], false, task).map(|r| updates.of(r.mode))
            })?,
        ));
    }
    let everything = &masks.everything;
    interaction.push((
        "total",
        repeat(counts(everything.count()), || resident.virtual_image(everything, task).map(drop))?,
    ));
    let mut position = 0;
    interaction.push((
        "frame",
        repeat(shape.detector.pixels() as u64, || {
            position = (position + 7919) % positions;
            resident.working_frame(position / shape.scan.cols(), position % shape.scan.cols()).map(drop)
        })?,
    ));
    interaction.push(("mean", repeat(all, || resident.pattern_sum(task).map(drop))?));
    interaction.push(("com", repeat(all, || resident.moments(task).map(drop))?));

    let report = resident.report();
    let (kernel, resident_bytes) = (report.kernel, report.resident_bytes);
    let mut checks = Vec::new();
    // A drag that ends on the first mask again, in steps, must show what that mask shows.
    for mask in masks.drag.iter().chain([&masks.bright]) {
        session.update(mask, false, task)?;
    }
    let ok = equality::same(&session.image().values, &image.values);
    checks.push(Check {
        name: "moved_detector",
        ok,
        detail: "the image after a drag of single pixels is the image summed anew".into(),
    });
    match PackSource::new(pack.clone()) {
        Ok(source) => {
            equality::frame_by_frame(resident.as_ref(), Arc::new(source), &masks.bright, &mut checks, task)?;
        }
        // Raw frames that cannot be proved: working frames are compared with the plain definitions below.
        Err(e) if e.code() == "raw_not_available" => {}
        Err(e) => return Err(e),
    }
    equality::reference(resident.as_ref(), &masks.bright, &mut checks, task)?;
    drop(session);
    if let Some(resident) = Arc::into_inner(resident) {
        checks.insert(0, scalar_kernel(resident, &masks.bright, &image.values, kernel, task)?);
    }
    Ok(BenchReport {
        profile: pack.profile().as_str(),
        shape,
        file_bytes: pack.bytes(),
        phases: phases.0,
        interaction,
        updates: updates.named(),
        disk,
        mask_pixels: masks.bright.count(),
        kernel,
        layout: Some(report.layout),
        threads: stempack_engine::threads(),
        resident_bytes: Some(resident_bytes),
        mapped_bytes: Some(mapped_bytes),
        peak_ready_bytes,
        cache,
        checks,
        machine: system::Machine::here(),
    })
}

#[expect(unsafe_code, reason = "maps the file because the caller asks for it")]
fn load_mapped(pack: &Arc<PackFile>, task: &Task) -> Result<Resident> {
    // SAFETY: who asks for it sees to it that nothing writes to the file. If something does, it is noticed before an answer
    // is given, and until then shows as other counts: tables were copied, and every count is within their bounds.
    let map = unsafe { MappedPack::new(pack.clone()) }?;
    Resident::load_mapped(&Arc::new(map), task)
}

/// Puts the resident in bit planes, in which everything after is asked, if the memory budget allows it.
fn arrange(resident: &Resident, phases: &mut Phases, task: &Task) -> Result<()> {
    match timed(|| resident.arrange(task)) {
        Ok(((), took)) => phases.wall("arrange", took),
        Err(e) if e.code() == "resident_over_budget" => {
            phases.absent(&["arrange"], "the memory budget does not hold both forms of a shard");
        }
        Err(e) => return Err(e),
    }
    Ok(())
}

/// How often each way of updating was taken.
#[derive(Default)]
struct Updates([usize; 4]);

impl Updates {
    const MODES: [UpdateMode; 4] =
        [UpdateMode::Rebase, UpdateMode::Delta, UpdateMode::Complement, UpdateMode::Unchanged];
    fn of(&mut self, mode: UpdateMode) {
        Self::MODES.iter().zip(&mut self.0).filter(|(m, _)| **m == mode).for_each(|(_, n)| *n += 1);
    }
    fn named(&self) -> Vec<(&'static str, usize)> {
        Self::MODES.iter().zip(self.0).map(|(mode, n)| (mode.as_str(), n)).collect()
    }
}

fn scalar_kernel(
    resident: Resident,
    mask: &DetectorMask,
    image: &crate::Sums,
    kernel: &str,
    task: &Task,
) -> Result<Check> {
    let scalar = resident.with_kernel(Kernel::Scalar).virtual_image(mask, task)?;
    Ok(Check {
        name: "scalar_kernel",
        ok: equality::same(&scalar.values, image),
        detail: format!("the {kernel} kernel gives the image of its scalar twin"),
    })
}

/// What the shards counted while they were loaded.
fn load_phases(pack: &PackFile, phases: &mut Phases) {
    let times = pack.load_times();
    for (name, phase) in [
        ("source_read", LoadPhase::Read),
        ("host_header_validation", LoadPhase::Headers),
        ("payload_integrity", LoadPhase::Integrity),
    ] {
        phases.put(name, Some(ms(times.of(phase))), Some(OVER_THREADS));
    }
    phases.absent(
        &["private_upload"],
        "bytes are read, or decoded, straight into the memory that stays resident",
    );
    match pack.profile() {
        Profile::U8 => {
            phases.put(
                "descriptor_preparation",
                Some(ms(times.of(LoadPhase::Descriptors))),
                Some(OVER_THREADS),
            );
            phases.absent(&["decode"], "this profile is kept in memory as it is stored");
        }
        Profile::U16 => {
            phases.absent(&["descriptor_preparation"], "made while the widths are validated");
            phases.put("decode", Some(ms(times.of(LoadPhase::Decode))), Some(OVER_THREADS));
        }
    }
}
