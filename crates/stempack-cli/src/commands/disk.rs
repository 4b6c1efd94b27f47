//! `disk`: where the bright-field disk is, recorded or measured, and which of them products use.

use super::angles::Angles;
use super::opened;
use super::provenance::calibration_document;
use crate::args::Disk;
use crate::context::{Context, Outcome};
use serde_json::{Map, Value, json};
use stempack::{BrightFieldDisk, MEASURED_DISK_METHOD, Result, measured_disk, recorded_disk};

pub(crate) fn run(args: &Disk, context: &Context) -> Result<Outcome> {
    let opened = opened::open(&args.input, args.dark.dark.as_deref(), context)?;
    let recorded = recorded_disk(opened.what());
    let measured = match recorded {
        Some(_) if !args.measure => None,
        _ => Some(measured_disk(opened.products(), context.task())?),
    };
    // A recorded disk is preferred, as everywhere; without one it has just been measured.
    let Some(disk) = recorded.or(measured) else { return Ok(Outcome::Done) };
    let mut said = place(&disk);
    said.insert("unit".into(), "detector pixel".into());
    said.insert("evidence".into(), disk.evidence.as_str().into());
    let calibration = opened.calibration();
    let method = calibration.map_or(MEASURED_DISK_METHOD, |c| c.method.as_str());
    said.insert("method".into(), method.into());
    if let Ok(angles) = Angles::of(&opened) {
        said.insert(
            "half_angle".into(),
            json!({
                "row": disk.radius * angles.steps[0], "col": disk.radius * angles.steps[1], "unit": "mrad",
                "step": angles.steps, "step_evidence": angles.evidence, "step_from": angles.from,
            }),
        );
    }
    if let Some(calibration) = calibration {
        said.insert("recorded".into(), calibration_document(calibration));
    }
    if let Some(measured) = &measured {
        let mut document = place(measured);
        document.insert("method".into(), MEASURED_DISK_METHOD.into());
        said.insert("measured".into(), Value::Object(document));
    }
    said.insert("values".into(), "working".into());
    said.insert("fft_transforms".into(), 0.into());
    let label = opened.label().to_owned();
    let document = opened.provenance().complete(said, context)?;
    context.printer.result("stempack.disk/1", Value::Object(document), || {
        let line = |d: &BrightFieldDisk, how: &str| {
            format!(
                "{label}: bright-field disk at ({}, {}) radius {} pixels ({how})\n",
                d.centre_row, d.centre_col, d.radius
            )
        };
        let first = line(&disk, &format!("{}: {method}", disk.evidence.as_str()));
        let second = measured.filter(|_| recorded.is_some()).map(|m| line(&m, "measured now, not used"));
        first + &second.unwrap_or_default()
    });
    Ok(Outcome::Done)
}

fn place(disk: &BrightFieldDisk) -> Map<String, Value> {
    let mut said = Map::new();
    said.insert("centre".into(), json!([disk.centre_row, disk.centre_col]));
    said.insert("bright_field_radius".into(), disk.radius.into());
    said
}
