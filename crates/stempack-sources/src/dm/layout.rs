//! Where the samples of the chosen image lie and what each stored axis is: sizes, type, payload, order.
//!
//! Stored axes run from the fastest to the slowest. Usually the first two are the detector; older spectrum-image
//! acquisitions put the scan there. The tag `Data Order Swapped` and the units of the axes say which; two that
//! contradict each other are refused, and an order that nothing records is said to be assumed.

use super::images::{Image, sample_type, type_name};
use super::tags::{Body, Kind, Scalar};
use super::units::{Domain, Unit, unit};
use super::values::{Number, Values};
use crate::error::SourceCode;
use crate::flat::Order;
use stempack_model::{DetectorShape, Result, SampleType, ScanShape, Warning};

/// What is recorded of one stored axis.
#[derive(Clone, Debug, Default)]
pub(super) struct Axis {
    /// Name of its tag: its number, counted from 1.
    pub(super) tag: String,
    pub(super) scale: Option<Number>,
    pub(super) units: Option<String>,
    pub(super) origin: Option<Number>,
}

impl Axis {
    pub(super) fn unit(&self) -> Option<Unit> {
        self.units.as_deref().and_then(unit)
    }
    /// For people.
    pub(super) fn describe(&self) -> String {
        let scale = self.scale.map_or_else(|| "no scale".to_owned(), |s| s.to_string());
        format!("{scale} `{}`", self.units.as_deref().unwrap_or(""))
    }
}

/// The image as an acquisition.
pub(super) struct Layout {
    pub(super) sample: SampleType,
    pub(super) offset: u64,
    pub(super) big_endian: bool,
    pub(super) frame_count: u64,
    /// Recorded rows and columns of the scan, and where they were read.
    pub(super) scan: (u64, u64, String),
    pub(super) detector: DetectorShape,
    pub(super) order: Order,
    /// Scan row and column; a stack has none.
    pub(super) scan_axes: Option<[Axis; 2]>,
    /// Detector row and column.
    pub(super) detector_axes: [Axis; 2],
    /// Why the axes are in this order.
    pub(super) order_evidence: String,
    /// Whether the detector axes are the fastest.
    pub(super) detector_fastest: bool,
    pub(super) warnings: Vec<Warning>,
}

/// Path of the tag that says that the detector axes are the fastest.
pub(super) const ORDER_TAG: [&str; 3] = ["ImageTags", "Meta Data", "Data Order Swapped"];

impl Layout {
    /// Establishes where everything is.
    ///
    /// # Errors
    /// `unsupported_layout` for samples that are no plain numbers, `malformed_header`, `length_mismatch`,
    /// `ambiguous_source` for axes that are recorded in two orders, `invalid_scan_shape`.
    pub(super) fn read(values: Values<'_>, image: &Image<'_>) -> Result<Layout> {
        let place = &image.place;
        let refuse = |code, message: String| values.input.refuse(code, message);
        let sample = sample_type(image.data_type).ok_or_else(|| {
            let message = format!("`{place}` holds {}, not plain numbers", type_name(image.data_type));
            refuse(SourceCode::UnsupportedLayout, message)
        })?;
        let sizes = sizes(values, image)?;
        let (offset, count) = payload(values, image, sample)?;
        let expected = sizes.iter().try_fold(1u64, |n, &size| n.checked_mul(size));
        if expected != Some(count) {
            let wanted = expected.map_or_else(|| "more than can be counted".to_owned(), |n| n.to_string());
            let shape: Vec<String> = sizes.iter().rev().map(u64::to_string).collect();
            let message = format!(
                "`{place}` has {count} samples of {sample}, its shape {} needs {wanted}",
                shape.join("×")
            );
            return Err(refuse(SourceCode::LengthMismatch, message));
        }
        let axes = axes(values, image)?;
        match (sizes.as_slice(), image.stack_scan) {
            (&[d0, d1, d2, d3], _) => {
                let mut warnings = Vec::new();
                let (detector_fastest, order_evidence) = order(values, image, &axes, &mut warnings)?;
                // Rows are the slower axis of each pair.
                let (scan, detector, scan_at, detector_at) = if detector_fastest {
                    ((d3, d2), (d1, d0), [3, 2], [1, 0])
                } else {
                    ((d1, d0), (d3, d2), [1, 0], [3, 2])
                };
                let frame_count = scan.0 * scan.1;
                let detector = DetectorShape::new(detector.0, detector.1)?;
                let order = if detector_fastest {
                    Order::Frames { stride: detector.pixels() as u64 * sample.bytes() as u64 }
                } else {
                    let scan = ScanShape::new(scan.0, scan.1)?;
                    Order::Pixels { scan, scan_rows_fastest: false, det_rows_fastest: false }
                };
                Ok(Layout {
                    sample,
                    offset,
                    big_endian: values.big_endian(),
                    frame_count,
                    scan: (scan.0, scan.1, format!("{place}.ImageData.Dimensions")),
                    detector,
                    order,
                    scan_axes: Some(scan_at.map(|i: usize| axes[i].clone())),
                    detector_axes: detector_at.map(|i: usize| axes[i].clone()),
                    order_evidence,
                    detector_fastest,
                    warnings,
                })
            }
            (&[d0, d1, frame_count], Some((cols, rows))) => {
                let tags = format!("{place}.ImageTags.4D STEM Tags.Scan shape Y, X");
                let (Some(rows), Some(cols)) = (positive(rows), positive(cols)) else {
                    let message = format!("`{tags}` are {rows}, {cols}, not two positive integers");
                    return Err(refuse(SourceCode::InvalidScanShape, message));
                };
                let detector = DetectorShape::new(d1, d0)?;
                let message = format!(
                    "`{place}` is a stack of {frame_count} frames; they are taken in the order of the file, by rows of the recorded scan"
                );
                Ok(Layout {
                    sample,
                    offset,
                    big_endian: values.big_endian(),
                    frame_count,
                    scan: (rows, cols, tags),
                    detector,
                    order: Order::Frames { stride: detector.pixels() as u64 * sample.bytes() as u64 },
                    scan_axes: None,
                    detector_axes: [axes[1].clone(), axes[0].clone()],
                    order_evidence: "a stack of frames".to_owned(),
                    detector_fastest: true,
                    warnings: vec![Warning { code: "stack_as_scan", message }],
                })
            }
            _ => Err(refuse(SourceCode::UnsupportedLayout, format!("`{place}` has {} axes", sizes.len()))),
        }
    }
}

fn positive(n: i128) -> Option<u64> {
    u64::try_from(n).ok().filter(|&n| n > 0)
}

/// The size of every axis, the fastest first.
fn sizes(values: Values<'_>, image: &Image<'_>) -> Result<Vec<u64>> {
    let mut sizes = Vec::new();
    for (at, (name, size)) in image.dimensions.iter().enumerate() {
        let tag = format!("{}.ImageData.Dimensions.{name}", image.place);
        if name.parse::<u64>().is_err() || at > 0 && image.dimensions[at - 1].0 == *name {
            let message = format!("`{tag}` is not the number of an axis");
            return Err(values.input.refuse(SourceCode::MalformedHeader, message));
        }
        sizes.push(size.and_then(positive).ok_or_else(|| {
            let found = size.map_or_else(|| "no number".to_owned(), |n| n.to_string());
            values
                .input
                .refuse(SourceCode::MalformedHeader, format!("`{tag}` is {found}, not a positive integer"))
        })?);
    }
    Ok(sizes)
}

/// Where the payload begins and how many samples it has.
fn payload(values: Values<'_>, image: &Image<'_>, sample: SampleType) -> Result<(u64, u64)> {
    let tag = format!("{}.ImageData.Data", image.place);
    let malformed = |message: String| values.input.refuse(SourceCode::MalformedHeader, message);
    let Some(data) = values.data(image.data, &["Data"])? else {
        return Err(malformed(format!("`{tag}` is not there")));
    };
    let Kind::Array(stored, count) = data.kind else {
        return Err(malformed(format!("`{tag}` is no array of numbers")));
    };
    let fits = match sample {
        SampleType::U8 | SampleType::I8 => stored.bytes() == 1, // writers differ in what they call a byte
        SampleType::U16 => stored == Scalar::U16,
        SampleType::I16 => stored == Scalar::I16,
        SampleType::U32 => stored == Scalar::U32,
        SampleType::I32 => stored == Scalar::I32,
        SampleType::U64 => stored == Scalar::U64,
        SampleType::I64 => stored == Scalar::I64,
        SampleType::F32 => stored == Scalar::F32,
        SampleType::F64 => stored == Scalar::F64,
    };
    if !fits {
        let stored = stored.as_str();
        return Err(malformed(format!("`{tag}` holds {stored}, while `DataType` says {sample}")));
    }
    Ok((data.offset, count))
}

/// What is recorded of the axes, matched by the names of the tags of their sizes.
fn axes(values: Values<'_>, image: &Image<'_>) -> Result<Vec<Axis>> {
    let calibrations = values.group(image.data, &["Calibrations", "Dimension"])?;
    let mut axes = Vec::new();
    for (tag, _) in &image.dimensions {
        let mut axis = Axis { tag: tag.clone(), ..Axis::default() };
        let recorded = calibrations.map_or(Ok(None), |group| values.member(group, tag))?;
        if let Some(Body::Group(recorded)) = recorded {
            axis.scale = values.number_at(recorded, &["Scale"])?;
            axis.origin = values.number_at(recorded, &["Origin"])?;
            // An empty text is recorded too, but says nothing.
            axis.units = values.data(recorded, &["Units"])?.map_or(Ok(None), |data| values.text(data))?;
        }
        axes.push(axis);
    }
    Ok(axes)
}

/// Whether the first two stored axes are the detector, and why.
fn order(
    values: Values<'_>,
    image: &Image<'_>,
    axes: &[Axis],
    warnings: &mut Vec<Warning>,
) -> Result<(bool, String)> {
    let tag = order_tag(values, image)?;
    let domain = |pair: &[Axis]| match (pair[0].unit(), pair[1].unit()) {
        (Some(a), Some(b)) if (a.domain == Domain::Length) == (b.domain == Domain::Length) => {
            Some(a.domain == Domain::Length)
        }
        _ => None,
    };
    let shown: Vec<String> = axes.iter().map(|a| format!("`{}`", a.units.as_deref().unwrap_or(""))).collect();
    let shown = shown.join(", ");
    // Whether each pair is a length: the detector is what is not.
    let (fast, slow) = (domain(&axes[..2]), domain(&axes[2..]));
    let by_units = match (fast, slow) {
        (Some(false), Some(true) | None) => Some(true),
        (Some(true) | None, Some(false)) => Some(false),
        _ => None,
    };
    let tag_words = |swapped| format!("`Data Order Swapped` is {}", if swapped { "true" } else { "false" });
    let units_words = format!("the units of the axes, fastest first, are {shown}");
    match (tag, by_units) {
        (Some(tag), Some(units)) if tag != units => {
            let message = format!(
                "`{}` is recorded in two orders: {}, while {units_words}",
                image.place,
                tag_words(tag)
            );
            Err(values.input.refuse(SourceCode::AmbiguousSource, message))
        }
        (Some(tag), Some(_)) => Ok((tag, format!("{}; {units_words}", tag_words(tag)))),
        (Some(tag), None) => Ok((tag, tag_words(tag))),
        (None, Some(units)) => Ok((units, units_words)),
        (None, None) => {
            // Lengths of the fastest axes alone speak for the older order.
            let detector_fastest = !matches!((fast, slow), (Some(true), None));
            let which = if detector_fastest { "fastest" } else { "slowest" };
            let message = format!(
                "nothing records which axes of `{}` are the detector; the two {which} are assumed to be ({units_words})",
                image.place
            );
            warnings.push(Warning { code: "assumed_axis_order", message });
            Ok((detector_fastest, format!("assumed; {units_words}")))
        }
    }
}

/// What `Data Order Swapped` says.
fn order_tag(values: Values<'_>, image: &Image<'_>) -> Result<Option<bool>> {
    if let Some(number) = values.number_at(image.tags, &ORDER_TAG)? {
        return Ok(number.as_integer().map(|n| n != 0));
    }
    Ok(match values.text_at(image.tags, &ORDER_TAG)?.as_deref().map(str::trim) {
        Some("1") => Some(true),
        Some("0") => Some(false),
        Some(word) if word.eq_ignore_ascii_case("true") => Some(true),
        Some(word) if word.eq_ignore_ascii_case("false") => Some(false),
        _ => None,
    })
}
