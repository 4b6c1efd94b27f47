//! Writes a sample acquisition: `write_sample DIR [uint8|uint16|uint32] [SCAN_ROWSxSCAN_COLS] [DET_ROWSxDET_COLS]`.

use stempack_model::{DetectorShape, SampleType, ScanShape, Task};
use stempack_sample::{SampleSpec, write_acquisition};

fn pair(text: &str) -> Option<(u64, u64)> {
    let (rows, cols) = text.split_once('x')?;
    Some((rows.parse().ok()?, cols.parse().ok()?))
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let dir = arguments.first().ok_or("name a folder")?;
    let mut spec = SampleSpec::default();
    match arguments.get(1).map(String::as_str) {
        None | Some("uint16") => {}
        Some("uint8") => spec.sample = SampleType::U8,
        Some("uint32") => spec.sample = SampleType::U32,
        Some(other) => return Err(format!("`{other}` is no sample type").into()),
    }
    if let Some(text) = arguments.get(2) {
        let (rows, cols) = pair(text).ok_or("a scan shape looks like 96x96")?;
        spec.scan = ScanShape::new(rows, cols)?;
    }
    if let Some(text) = arguments.get(3) {
        let (rows, cols) = pair(text).ok_or("a detector shape looks like 96x96")?;
        spec.detector = DetectorShape::new(rows, cols)?;
    }
    let paths = write_acquisition(dir.as_ref(), &spec, &Task::new())?;
    eprintln!("wrote {} and {} data files", paths.master.display(), paths.data.len());
    Ok(())
}
