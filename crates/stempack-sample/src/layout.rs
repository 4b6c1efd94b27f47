//! How a sample lies on disk: a master with external links, stacks with one bitshuffle/LZ4 chunk for each frame,
//! and an NXem companion, as a Dectris ARINA system writes them.

use crate::raw_chunks::write_frame_chunk;
use crate::{SampleCode, SampleSpec};
use hdf5_metno as hdf5;
use hdf5_metno::plist::DatasetCreate;
use hdf5_metno::types::VarLenUnicode;
use std::path::Path;
use stempack_model::{Error, Result, SampleType};

/// The registered HDF5 filter identifier of bitshuffle.
const BITSHUFFLE: i32 = 32008;
/// Bitshuffle's client data: filter version 0.4, bytes of an element, its default block, LZ4.
const fn bitshuffle_client_data(element_bytes: u32) -> [u32; 5] {
    [0, 4, element_bytes, 0, 2]
}

/// Distance at which one detector pixel covers one milliradian.
const DETECTOR_DISTANCE_M: f64 = 0.1;
const PIXEL_PITCH_M: f64 = 1e-4;
pub(crate) const PIXEL_MRAD: f64 = 1.0;
const BEAM_ENERGY_EV: f64 = 200_000.0;
const SCAN_STEP_NM: f64 = 0.05;
const DWELL_TIME_US: f64 = 10.0;

fn failed(path: &Path, cause: impl std::fmt::Display) -> Error {
    Error::new(SampleCode::Write, format!("cannot write `{}`: {cause}", path.display()))
        .with("path", path.display().to_string())
}

fn create(path: &Path) -> Result<hdf5::File> {
    hdf5::File::create_excl(path).map_err(
        |e| {
            if path.exists() { already_there(path) } else { failed(path, e) }
        },
    )
}

/// The refusal of a path that is taken.
pub(crate) fn already_there(path: &Path) -> Error {
    Error::new(SampleCode::Exists, format!("`{}` exists already", path.display()))
        .hint("name a folder that does not exist yet")
        .with("path", path.display().to_string())
}

/// One stack of frames, open for writing.
pub(crate) struct StackWriter<'a> {
    path: &'a Path,
    dataset: hdf5::Dataset,
    file: hdf5::File,
}

impl<'a> StackWriter<'a> {
    pub(crate) fn create(path: &'a Path, frames: usize, spec: &SampleSpec) -> Result<Self> {
        let file = create(path)?;
        let dataset = match spec.sample {
            SampleType::U8 => stack::<u8>(&file, frames, spec),
            SampleType::U16 => stack::<u16>(&file, frames, spec),
            SampleType::U32 => stack::<u32>(&file, frames, spec),
            other => {
                return Err(Error::new(
                    SampleCode::InvalidSpec,
                    format!("ARINA detectors do not write {other}, choose uint8, uint16 or uint32"),
                ));
            }
        }
        .map_err(|e| failed(path, e))?;
        Ok(StackWriter { path, dataset, file })
    }

    /// Stores an encoded frame.
    pub(crate) fn write(&self, frame: usize, chunk: &[u8]) -> Result<()> {
        write_frame_chunk(&self.dataset, frame as u64, chunk).map_err(|e| failed(self.path, e))
    }

    pub(crate) fn close(self) -> Result<()> {
        drop(self.dataset);
        self.file.close().map_err(|e| failed(self.path, e))
    }
}

fn stack<T: hdf5::H5Type>(
    file: &hdf5::File,
    frames: usize,
    spec: &SampleSpec,
) -> hdf5::Result<hdf5::Dataset> {
    let (rows, cols) = (spec.detector.rows(), spec.detector.cols());
    let group = file.create_group("entry")?.create_group("data")?;
    // The filter goes in through a property list: the builder's own filter call refuses one that the library
    // cannot run, and running it is not needed to store chunks that went through our encoder.
    let properties = DatasetCreate::build()
        .chunk((1, rows, cols))
        .add_filter(BITSHUFFLE, &bitshuffle_client_data(spec.sample.bytes() as u32))
        .finish()?;
    let dataset = group
        .new_dataset::<T>()
        .set_dcpl(&properties)
        .chunk((1, rows, cols))
        .shape((frames, rows, cols))
        .create("data")?;
    dataset.new_attr::<u64>().create("image_nr_low")?.write_scalar(&1)?;
    dataset.new_attr::<u64>().create("image_nr_high")?.write_scalar(&(frames as u64))?;
    Ok(dataset)
}

/// Writes the master file; `stacks` are the names of the data files in frame order.
pub(crate) fn write_master(
    path: &Path,
    spec: &SampleSpec,
    stacks: &[String],
    excluded: &[u32],
) -> Result<()> {
    let file = create(path)?;
    master(&file, spec, stacks, excluded).and_then(|()| file.close()).map_err(|e| failed(path, e))
}

fn master(file: &hdf5::File, spec: &SampleSpec, stacks: &[String], excluded: &[u32]) -> hdf5::Result<()> {
    let entry = file.create_group("entry")?;
    attribute(&entry, "NX_class", "NXentry")?;
    let data = entry.create_group("data")?;
    attribute(&data, "NX_class", "NXdata")?;
    for (i, name) in stacks.iter().enumerate() {
        data.link_external(name, "/entry/data/data", &format!("data_{:06}", i + 1))?;
    }

    let instrument = entry.create_group("instrument")?;
    attribute(&instrument, "NX_class", "NXinstrument")?;
    let detector = instrument.create_group("detector")?;
    attribute(&detector, "NX_class", "NXdetector")?;
    text(&detector, "description", "Dectris ARINA (synthetic)")?;
    number(&detector, "bit_depth_image", 8 * spec.sample.bytes() as u32)?;
    quantity(&detector, "x_pixel_size", PIXEL_PITCH_M, "m")?;
    quantity(&detector, "y_pixel_size", PIXEL_PITCH_M, "m")?;
    quantity(&detector, "detector_distance", DETECTOR_DISTANCE_M, "m")?;
    quantity(&detector, "incident_energy", BEAM_ENERGY_EV, "eV")?;
    quantity(&detector, "frame_time", DWELL_TIME_US / 1e6, "s")?;

    let specific = detector.create_group("detectorSpecific")?;
    // One trigger for each scan position, one image for each trigger.
    number(&specific, "ntrigger", spec.scan.positions() as u32)?;
    number(&specific, "nimages", 1u32)?;
    number(&specific, "x_pixels_in_detector", spec.detector.cols() as u32)?;
    number(&specific, "y_pixels_in_detector", spec.detector.rows() as u32)?;
    text(&specific, "compression", "bslz4")?;
    let mut mask = vec![0u32; spec.detector.pixels()];
    for &p in excluded {
        mask[p as usize] = 1;
    }
    let dataset = specific
        .new_dataset::<u32>()
        .shape((spec.detector.rows(), spec.detector.cols()))
        .create("pixel_mask")?;
    dataset.write_raw(&mask)?;
    detector.link_hard("/entry/instrument/detector/detectorSpecific/pixel_mask", "pixel_mask")
}

/// Writes the NXem companion with the scan's own metadata.
pub(crate) fn write_companion(path: &Path, spec: &SampleSpec, half_angle_mrad: f64) -> Result<()> {
    let file = create(path)?;
    companion(&file, spec, half_angle_mrad).and_then(|()| file.close()).map_err(|e| failed(path, e))
}

fn companion(file: &hdf5::File, spec: &SampleSpec, half_angle_mrad: f64) -> hdf5::Result<()> {
    let microscope = file.create_group("electron_microscope")?;
    let controller = microscope.create_group("scan_controller")?;
    text(&controller, "scan_type", "regular")?;
    let scan = controller.create_group("regular_scan")?;
    number(&scan, "n_pixels_y", spec.scan.rows() as u32)?;
    number(&scan, "n_pixels_x", spec.scan.cols() as u32)?;
    number(&scan, "n_frames", 1u32)?;
    quantity(&scan, "pixel_size_y", SCAN_STEP_NM, "nm")?;
    quantity(&scan, "pixel_size_x", SCAN_STEP_NM, "nm")?;
    quantity(&scan, "dwell_time", DWELL_TIME_US, "us")?;
    quantity(
        &microscope.create_group("electron_source")?,
        "accelerating_voltage",
        BEAM_ENERGY_EV / 1e3,
        "kV",
    )?;
    quantity(
        &microscope.create_group("illumination_system")?,
        "semi_convergence_angle",
        half_angle_mrad,
        "mrad",
    )?;
    let imaging = microscope.create_group("imaging_system")?;
    quantity(&imaging, "camera_length", DETECTOR_DISTANCE_M, "m")?;
    quantity(&imaging, "reciprocal_pixel_size_y", PIXEL_MRAD, "mrad")?;
    quantity(&imaging, "reciprocal_pixel_size_x", PIXEL_MRAD, "mrad")
}

fn unicode(value: &str) -> hdf5::Result<VarLenUnicode> {
    value.parse().map_err(|e| hdf5::Error::from(format!("`{value}` is no HDF5 string: {e}")))
}

fn attribute(place: &hdf5::Location, name: &str, value: &str) -> hdf5::Result<()> {
    place.new_attr::<VarLenUnicode>().create(name)?.write_scalar(&unicode(value)?)
}

fn text(group: &hdf5::Group, name: &str, value: &str) -> hdf5::Result<()> {
    group.new_dataset::<VarLenUnicode>().create(name)?.write_scalar(&unicode(value)?)
}

fn number(group: &hdf5::Group, name: &str, value: u32) -> hdf5::Result<()> {
    group.new_dataset::<u32>().create(name)?.write_scalar(&value)
}

fn quantity(group: &hdf5::Group, name: &str, value: f64, units: &str) -> hdf5::Result<()> {
    let dataset = group.new_dataset::<f64>().create(name)?;
    dataset.write_scalar(&value)?;
    attribute(&dataset, "units", units)
}
