//! Which scan positions were chosen, and what results say of the choice.

use crate::args::ScanPositions;
use crate::parse::Numbers;
use serde_json::{Value, json};
use stempack::export::read_scan_mask;
use stempack::{Result, ScanSelection, ScanShape};

/// A choice of scan positions.
pub(super) struct Chosen {
    /// The positions; none when the whole scan is meant.
    pub(super) selection: Option<ScanSelection>,
    /// For JSON.
    pub(super) document: Value,
    /// For people, after `frames`.
    pub(super) sentence: String,
}

/// What the options say.
pub(super) fn choose(args: &ScanPositions, scan: ScanShape) -> Result<Chosen> {
    let chosen =
        |selection, document, sentence| Ok(Chosen { selection: Some(selection), document, sentence });
    if let Some(region) = &args.scan_rect {
        let (rows, cols) = (region.rows.clone(), region.cols.clone());
        let document =
            json!({ "kind": "rectangle", "rows": [rows.start, rows.end], "cols": [cols.start, cols.end] });
        let sentence =
            format!(" of scan rows {}:{}, columns {}:{}", rows.start, rows.end, cols.start, cols.end);
        return chosen(ScanSelection::rectangle(scan, rows, cols)?, document, sentence);
    }
    if let Some(Numbers([row, col, radius])) = args.scan_circle {
        let document = json!({ "kind": "circle", "centre": [row, col], "radius": radius });
        let sentence = format!(" within {radius} scan steps of ({row}, {col})");
        return chosen(ScanSelection::circle(scan, [row, col], radius)?, document, sentence);
    }
    if let Some(path) = &args.scan_mask {
        let selection = ScanSelection::from_array(scan, &read_scan_mask(path, scan)?)?;
        let document = json!({ "kind": "mask", "path": path.display().to_string() });
        return chosen(selection, document, format!(" under scan mask `{}`", path.display()));
    }
    Ok(Chosen { selection: None, document: json!({ "kind": "whole" }), sentence: String::new() })
}
