//! Production: authenticate the source, encode and write shard by shard, then receipt and publication.

use super::describe::{Facts, Finished};
use super::encode::{Encoder, Mode, Unfit, encode_shard};
use super::hashing::{Hashing, Streams};
use super::index::{Index, ShardRecord};
use super::plan::{PackOptions, Plan, ProfileChoice, plan};
use super::prelude;
use super::receipt::{Receipt, ReceiptShard, receipt_path};
use super::shards::write_shard;
use super::write::Skeleton;
use crate::digest::sha256_file;
use crate::publish::{Draft, refuse_existing, stale_drafts, sync_folder, take_back};
use crate::{ContainerCode, Digest, identity};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{channel, sync_channel};
use std::thread::ScopedJoinHandle;
use std::time::{Duration, Instant};
use stempack_codecs::pack_u8::NibbleWidths;
use stempack_codecs::shard::{Profile, ShardBuilder};
use stempack_model::{Acquisition, Error, FrameSource, MemberDigest, Result, SampleType, Samples, Task};

/// What a production did.
#[derive(Clone, Debug)]
pub struct PackReport {
    /// The profile that was written.
    pub profile: Profile,
    /// Why this one.
    pub reason: String,
    /// Size of the container.
    pub output_bytes: u64,
    /// SHA-256 of the container: its seal.
    pub output_sha256: Digest,
    /// Where the receipt is.
    pub receipt: PathBuf,
    /// The plan that was followed.
    pub plan: Plan,
    /// Content identity of the source.
    pub source_identity: Digest,
}

/// Chooses how to begin: the profile asked for, or the best that the scan count and the first frame allow.
///
/// # Errors
/// `no_admitted_pixel`; those of reading the first frame.
pub(super) fn first_choice(
    source: &dyn FrameSource,
    choice: ProfileChoice,
    task: &Task,
) -> Result<(Mode, String)> {
    let acquisition = source.acquisition();
    let u16_mode = |reason: String| -> Result<(Mode, String)> {
        let mut frame = Samples::zeroed(acquisition.sample, acquisition.detector.pixels());
        source.read(0, frame.as_mut(), &task.quiet())?;
        let wide = acquisition.excluded.pixels.iter().any(|&p| {
            acquisition.sample == SampleType::U32
                && frame.as_ref().integer(p as usize).is_some_and(|v| v > 0xffff)
        });
        Ok((if wide { Mode::U16Constants } else { Mode::U16Retained }, reason))
    };
    // A shard's payload must not be empty, and in the u8 profile excluded pixels have none.
    let nothing_admitted = acquisition.excluded.pixels.len() == acquisition.detector.pixels();
    match choice {
        ProfileChoice::U8 if nothing_admitted => Err(Error::new(
            ContainerCode::NoAdmittedPixel,
            format!(
                "all {} detector pixels are excluded, the u8 profile stores admitted pixels only",
                acquisition.detector.pixels()
            ),
        )
        .hint("pack with --profile u16 or let --profile auto choose")),
        ProfileChoice::U8 => Ok((Mode::U8, "asked for".into())),
        ProfileChoice::U16 => u16_mode("asked for".into()),
        ProfileChoice::Auto => {
            let shape = acquisition.shape().map_or(0, |s| s.scan.positions());
            if !shape.is_multiple_of(32) {
                return u16_mode(format!("{shape} scan positions are no multiple of 32"));
            }
            if nothing_admitted {
                return u16_mode("every pixel is excluded".into());
            }
            Ok((Mode::U8, "every admitted count fits 8 bits and every excluded pixel is constant".into()))
        }
    }
}

/// Packs `source` losslessly into a new container at `destination`, with a receipt beside it.
///
/// The container appears complete or not at all; after an error or cancellation the destination is as it was.
///
/// # Errors
/// `destination_exists`; planning errors; `count_too_large` and `excluded_pixel_not_constant` when no allowed profile
/// can hold the source; the source's own errors, `source_changed` among them; `io`; `cancelled`.
pub fn pack(
    source: &dyn FrameSource,
    destination: &Path,
    options: &PackOptions,
    task: &Task,
) -> Result<PackReport> {
    let clock = Instant::now();
    let acquisition = source.acquisition();
    let receipt_file = receipt_path(destination);
    refuse_existing(destination, options.force)?;
    if !options.force {
        remove_orphan(&receipt_file, destination, task)?;
    }
    refuse_existing(&receipt_file, options.force)?;
    let (mut mode, mut reason) = first_choice(source, options.profile, task)?;
    let mut plan = plan(acquisition, mode.profile(), &reason, task)?;

    let draft = Draft::create(destination)?;
    let encode = || {
        loop {
            match attempt(source, &draft, mode, &plan, task)? {
                Ok(written) => return Ok(written),
                Err(unfit) => {
                    (mode, reason) = next_choice(mode, &reason, options.profile, unfit, acquisition)?;
                    plan = super::plan::plan(acquisition, mode.profile(), &reason, task)?;
                }
            }
        }
    };
    let (written, (members, authenticated)) = beside_digests(source, task, encode)?;
    let source_identity = identity::source_identity(&members);
    let written = written.of_source(source_identity);
    // A container that is packed again must still give what it was made from.
    let read = written.streams.original.or(written.streams.raw);
    identity::as_recorded(source, read)?;
    let packed = clock.elapsed();
    let facts = Facts {
        acquisition,
        members: &members,
        plan: &plan,
        mode,
        index: &written.index,
        streams: &written.streams,
        constants: &written.constants,
        shards: &written.receipts,
    };
    let block = prelude::user_block(&facts.manifest(), &facts.index.to_bytes(), plan.user_block_bytes)?;
    written.skeleton.finish(&block)?;
    let contained = clock.elapsed();
    source.check_unchanged()?;
    let output_bytes = draft.file().metadata().map_err(|e| Error::io("stat", draft.path(), e))?.len();
    if output_bytes > plan.output_maximum_bytes {
        return Err(Error::new(
            ContainerCode::Hdf5Write,
            format!("container has {output_bytes} bytes, planned at most {}", plan.output_maximum_bytes),
        ));
    }
    task.begin("hash container", output_bytes);
    // Hashing reads what is still in memory while the disk takes it.
    let (synced, output_sha256) = rayon::join(|| draft.sync(), || sha256_file(draft.path(), task));
    synced?;
    let output_sha256 = output_sha256?;
    task.finish();
    let ms = |d: Duration| d.as_secs_f64() * 1e3;
    let total = clock.elapsed();
    let finished = Finished {
        destination: destination.display().to_string(),
        completed_utc: options.completed_utc.clone(),
        output_bytes,
        output_sha256,
        peak_bytes: plan.peak_bytes,
        timing: [ms(authenticated), ms(packed), ms(contained - packed), ms(total - contained), ms(total)],
    };
    let receipt = Draft::create(&receipt_file)?;
    receipt
        .file()
        .write_all(facts.receipt(&finished).as_bytes())
        .map_err(|e| Error::io("write", receipt.path(), e))?;
    task.check()?;
    publish_pair(draft, receipt, options.force)?;
    Ok(PackReport {
        profile: mode.profile(),
        reason,
        output_bytes,
        output_sha256,
        receipt: receipt_file,
        plan,
        source_identity,
    })
}

/// Hashes the members on a thread of its own while `encode` runs; when `encode` fails, the hashing is stopped.
fn beside_digests<T>(
    source: &dyn FrameSource,
    task: &Task,
    encode: impl FnOnce() -> Result<T>,
) -> Result<(T, (Vec<MemberDigest>, Duration))> {
    let stop = Arc::new(AtomicBool::new(false));
    let hashing = task.quiet().with_cancel(stop.clone());
    std::thread::scope(|scope| {
        let digests = scope.spawn(move || {
            let clock = Instant::now();
            source.digest_members(&hashing).map(|members| (members, clock.elapsed()))
        });
        let encoded = encode().inspect_err(|_| stop.store(true, Ordering::Relaxed));
        let digests = match digests.join() {
            Ok(digests) => digests,
            Err(panic) => std::panic::resume_unwind(panic),
        };
        Ok((encoded?, digests?))
    })
}

/// Receipt first, container as the commit marker; if a later step fails the earlier ones are taken back.
pub(super) fn publish_pair(container: Draft, receipt: Draft, force: bool) -> Result<()> {
    let container_file = container.destination().to_owned();
    let receipt_file = receipt.destination().to_owned();
    let before = if force && receipt_file.is_file() { std::fs::read(&receipt_file).ok() } else { None };
    container.sync()?;
    receipt.sync()?;
    receipt.rename(force)?;
    sync_folder(&receipt_file).and_then(|()| container.rename(force)).inspect_err(|_| {
        // Best effort: the first failure is what the caller must hear of.
        let _ = match &before {
            None => std::fs::remove_file(&receipt_file),
            Some(old) => Draft::create(&receipt_file)
                .and_then(|d| {
                    d.file().write_all(old).map_err(|e| Error::io("write", d.path(), e))?;
                    d.publish(true)
                })
                .map_err(|_| std::io::Error::other("receipt not restored")),
        };
    })?;
    // From here on the pair is complete; what it replaced is gone, so only a new pair can be taken back.
    sync_folder(&container_file).inspect_err(|_| {
        take_back(&container_file, force);
        take_back(&receipt_file, force);
    })
}

/// Removes a receipt that a kill left between the two publications, so that it does not stop the next production.
///
/// It is recognised by what only such a kill leaves: no container, and beside it an abandoned draft of exactly the
/// bytes that the receipt describes. Any other receipt may be all that is left of a container kept elsewhere, and the
/// draft of a living production is locked; both are refused as existing. The receipt goes before the draft, lest a
/// second kill leave it without the draft that explains it.
fn remove_orphan(receipt_file: &Path, destination: &Path, task: &Task) -> Result<()> {
    if destination.symlink_metadata().is_ok() {
        return Ok(());
    }
    let Ok(receipt) = Receipt::read(receipt_file) else { return Ok(()) };
    for (draft, lock) in stale_drafts(destination) {
        let described = lock.metadata().is_ok_and(|m| m.len() == receipt.output_bytes)
            && sha256_file(&draft, &task.quiet())? == receipt.output_sha256;
        if described {
            std::fs::remove_file(receipt_file).map_err(|e| Error::io("remove", receipt_file, e))?;
            break;
        }
    }
    Ok(())
}

/// What to try after `unfit`, or the refusal.
fn next_choice(
    mode: Mode,
    reason: &str,
    choice: ProfileChoice,
    unfit: Unfit,
    acquisition: &Acquisition,
) -> Result<(Mode, String)> {
    let cols = acquisition.detector.cols();
    let wider = match (&unfit, mode) {
        (Unfit::WideExcluded { .. }, Mode::U8 | Mode::U16Retained) => Some(Mode::U16Constants),
        (_, Mode::U8) => Some(Mode::U16Retained),
        _ => None,
    };
    match wider {
        Some(next) if choice != ProfileChoice::U8 => {
            let reason = format!("{} does not fit {}", unfit.sentence(cols), describe_limit(mode));
            Ok((next, reason))
        }
        Some(_) => Err(unfit
            .into_error(describe_limit(mode), acquisition)
            .hint("pack with --profile u16 or let --profile auto choose")),
        None => {
            let mut error = unfit.into_error(describe_limit(mode), acquisition);
            if mode == Mode::U16Constants {
                // Why only this mode was left is part of the answer.
                error = error.at(reason);
            }
            Err(error.hint(
                "no pack profile can hold this source; `stempack unpack` writes its frames as .npy, and the original \
                 stays readable as it is",
            ))
        }
    }
}

fn describe_limit(mode: Mode) -> &'static str {
    match mode {
        Mode::U8 => "the u8 profile",
        Mode::U16Retained => "the u16 profile",
        Mode::U16Constants => "the u16 profile with constants at excluded pixels",
    }
}

struct Written {
    skeleton: Skeleton,
    index: Index,
    streams: Streams,
    constants: Vec<u32>,
    receipts: Vec<ReceiptShard>,
}

impl Written {
    fn of_source(mut self, identity: Digest) -> Self {
        self.index.source_identity = identity;
        self
    }
}

/// One pass over the source in one mode.
fn attempt(
    source: &dyn FrameSource,
    draft: &Draft,
    mode: Mode,
    plan: &Plan,
    task: &Task,
) -> Result<Result<Written, Unfit>> {
    let acquisition = source.acquisition();
    let shape = acquisition
        .shape()
        .ok_or_else(|| Error::new(ContainerCode::NoScanShape, "scan shape is not known"))?;
    let skeleton = Skeleton::create(draft.path(), plan.user_block_bytes)?;
    let mut encoder = Encoder::new(mode, acquisition);
    let window =
        (plan.window_tiles * plan.profile.tile_scans()).min(plan.scans_per_shard) * shape.detector.pixels();
    let excluded = &acquisition.excluded.pixels;
    let first_admitted =
        (0..shape.detector.pixels()).find(|p| excluded.get(*p) != Some(&(*p as u32))).unwrap_or(0);
    task.begin("pack", shape.samples().unwrap_or(u64::MAX).saturating_mul(acquisition.sample.bytes() as u64));
    let mut written: Vec<(ShardRecord, ReceiptShard)> = Vec::with_capacity(plan.shard_count);
    // Encoding and writing alternate on one shard, or overlap on two when the budget allows it.
    let result = std::thread::scope(|scope| -> Result<Result<Streams, Unfit>> {
        let hashing = Hashing::start(scope, mode, acquisition, plan.windows(), window);
        let (to_writer, shards) = sync_channel::<ShardBuilder>(0);
        let (done, acknowledged) = sync_channel::<()>(plan.shard_count);
        let (skeleton, written) = (&skeleton, &mut written);
        // What is written goes to the disk while the rest is packed, so that little is left to wait for at the end.
        let (to_disk, shards_written) = channel::<()>();
        let syncer = scope.spawn(move || -> Result<()> {
            while shards_written.recv().is_ok() {
                shards_written.try_iter().for_each(drop);
                skeleton.sync()?;
            }
            Ok(())
        });
        let writer = scope.spawn(move || -> Result<()> {
            for (ordinal, builder) in shards.into_iter().enumerate() {
                let first_scan = ordinal * plan.scans_per_shard;
                written.push(write_shard(
                    skeleton,
                    ordinal,
                    first_scan,
                    plan.scans_per_shard,
                    first_admitted,
                    builder,
                    plan.profile,
                )?);
                let _ = done.send(());
                // A syncer that is gone has failed; its error is taken below.
                let _ = to_disk.send(());
            }
            Ok(())
        });
        let mut encode = || -> Result<Result<(), Unfit>> {
            for ordinal in 0..plan.shard_count {
                let first_scan = ordinal * plan.scans_per_shard;
                match encode_shard(source, &mut encoder, &hashing, plan, first_scan, task)? {
                    // The hashing thread is gone; its panic is taken below.
                    None => break,
                    Some(Ok(builder)) => {
                        // A writer that is gone has failed; its error is taken below.
                        if to_writer.send(builder).is_err() {
                            break;
                        }
                        if plan.shards_in_flight == 1 && acknowledged.recv().is_err() {
                            break;
                        }
                    }
                    Some(Err(unfit)) => return Ok(Err(unfit)),
                }
            }
            Ok(Ok(()))
        };
        let encoded = encode();
        drop(to_writer);
        let written = joined(writer);
        let streams = hashing.finish();
        let synced = joined(syncer);
        written.and(synced)?;
        Ok(encoded?.map(|()| streams))
    });
    task.finish();
    let streams = match result? {
        Ok(streams) => streams,
        Err(unfit) => return Ok(Err(unfit)),
    };
    let (shards, receipts): (Vec<_>, Vec<_>) = written.into_iter().unzip();
    let index = Index {
        profile: plan.profile,
        nibbles: NibbleWidths::Literal,
        shape,
        scans_per_shard: plan.scans_per_shard,
        excluded: excluded.clone(),
        // Known when the members are hashed, which goes on meanwhile.
        source_identity: Digest([0; 32]),
        shards,
    };
    Ok(Ok(Written { skeleton, index, streams, constants: encoder.constants(), receipts }))
}

fn joined(thread: ScopedJoinHandle<'_, Result<()>>) -> Result<()> {
    match thread.join() {
        Ok(result) => result,
        Err(panic) => std::panic::resume_unwind(panic),
    }
}

/// Plans without packing: the plan of the first choice, and for `auto` what would make it change.
///
/// # Errors
/// As [`pack`] before it reads more than the first frame.
pub fn plan_pack(source: &dyn FrameSource, options: &PackOptions, task: &Task) -> Result<Plan> {
    let (mode, reason) = first_choice(source, options.profile, task)?;
    let reason = if mode == Mode::U8 && options.profile == ProfileChoice::Auto {
        "u8 if every admitted count fits 8 bits and every excluded pixel is constant, else u16".to_owned()
    } else {
        reason
    };
    plan(source.acquisition(), mode.profile(), &reason, task)
}
