//! The words of the command line and their help.

use crate::parse::{Bytes, Numbers, Position, Region, Scan, Sha256};
use clap::{Args, Parser, Subcommand, ValueEnum};
use std::path::PathBuf;

/// Exact tools for 4D-STEM acquisitions: inspect, pack losslessly, prove, image.
#[derive(Debug, Parser)]
#[command(name = "stempack", version, propagate_version = true, arg_required_else_help = true)]
#[command(after_help = "Exit codes: 0 done; 1 checked and different; 2 could not do it; 130 cancelled.\n\
    Data goes to stdout, talk to stderr; --json prints one document with a `schema` field.")]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) global: Global,
    #[command(subcommand)]
    pub(crate) verb: Verb,
}

#[derive(Debug, Args)]
pub(crate) struct Global {
    /// Print one JSON document instead of text
    #[arg(long, global = true, help_heading = "Common options")]
    pub(crate) json: bool,
    /// Say nothing but results and errors
    #[arg(long, short, global = true, help_heading = "Common options")]
    pub(crate) quiet: bool,
    /// Threads to use (all cores when absent)
    #[arg(long, value_name = "N", global = true, help_heading = "Common options", value_parser = threads)]
    pub(crate) threads: Option<usize>,
    /// Memory to stay within, for example 512M or 4G (half of the machine's memory when absent)
    #[arg(long, value_name = "SIZE", global = true, help_heading = "Common options")]
    pub(crate) max_memory: Option<Bytes>,
}

fn threads(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(n @ 1..=4096) => Ok(n),
        _ => Err("expected a number of threads from 1 to 4096".into()),
    }
}

#[derive(Debug, Subcommand)]
pub(crate) enum Verb {
    /// Say what a file or folder is, without reading its frames
    Inspect(Inspect),
    /// Pack an acquisition losslessly into one file
    Pack(Pack),
    /// Authenticate a packed file, and prove it equal to its source
    Verify(Verify),
    /// Show a packed file's header, sizes and capabilities
    Info(Info),
    /// Write one diffraction pattern, or several
    Frame(Frame),
    /// Write a virtual-detector image
    Image(Image),
    /// Write the centre of mass of every diffraction pattern
    Com(Com),
    /// Write beam deflections (DPC), or the phase they integrate to (iDPC)
    Dpc(Dpc),
    /// Write the mean diffraction pattern of the scan or a part of it
    Mean(Mean),
    /// Say where the bright-field disk is, recorded or measured
    Disk(Disk),
    /// Write frames back as an array
    Unpack(Unpack),
    /// Write a sealed copy of a packed file with more in its manifest
    Enrich(Enrich),
    /// Measure loading and interaction of a packed file
    Bench(Bench),
    /// Make a sample acquisition, pack it, verify it, image it
    Demo(Demo),
}

/// What opens an acquisition.
#[derive(Debug, Args)]
pub(crate) struct Input {
    /// Packed file or original acquisition
    pub(crate) file: PathBuf,
    /// Scan shape of an original that does not record one
    #[arg(long, value_name = "RxC")]
    pub(crate) scan: Option<Scan>,
    /// Open an original whose format demands a calibration that is missing
    #[arg(long)]
    pub(crate) allow_uncalibrated: bool,
    /// Hash every byte of FILE, so that the result says by its digest what it was made from
    #[arg(long)]
    pub(crate) digest: bool,
}

/// What is taken from every frame before a product.
#[derive(Debug, Args)]
pub(crate) struct DarkFrames {
    /// Dark frames of the same float32 format; their mean is subtracted once from what products are made of
    #[arg(long, value_name = "DARK_SOURCE")]
    pub(crate) dark: Option<PathBuf>,
}

/// Where a result goes.
#[derive(Debug, Args)]
pub(crate) struct Out {
    /// Result file: .npy or .h5 exact numbers, .png a picture, .tif 32-bit floats
    #[arg(short, long, value_name = "OUT")]
    pub(crate) output: PathBuf,
    /// Write beside it, as OUT.json, what is known of the result and of what it was made from
    #[arg(long)]
    pub(crate) provenance: bool,
    /// Replace an existing file
    #[arg(long)]
    pub(crate) force: bool,
}

/// How a picture looks.
#[derive(Debug, Args)]
#[command(next_help_heading = "Pictures")]
pub(crate) struct Look {
    /// Colour map of a .png
    #[arg(long, value_enum, value_name = "MAP")]
    pub(crate) map: Option<Map>,
    /// Percentiles of the values shown as darkest and brightest
    #[arg(long, value_name = "LOW,HIGH", default_value = "1,99", value_parser = contrast)]
    pub(crate) contrast: Numbers<2>,
}

fn contrast(text: &str) -> Result<Numbers<2>, String> {
    let numbers: Numbers<2> = text.parse()?;
    let [low, high] = numbers.0;
    if 0.0 <= low && low < high && high <= 100.0 {
        return Ok(numbers);
    }
    Err("expected two percentiles with 0 ≤ LOW < HIGH ≤ 100".into())
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Map {
    Grey,
    Viridis,
    Inferno,
    Magma,
    Plasma,
    Cividis,
}

#[derive(Debug, Args)]
pub(crate) struct Inspect {
    /// Files or folders
    #[arg(required = true)]
    pub(crate) paths: Vec<PathBuf>,
    /// Scan shape of an acquisition that does not record one
    #[arg(long, value_name = "RxC")]
    pub(crate) scan: Option<Scan>,
    /// Open an original whose format demands a calibration that is missing
    #[arg(long)]
    pub(crate) allow_uncalibrated: bool,
    /// Hash every member file, and give the identity of the contents
    #[arg(long)]
    pub(crate) digest: bool,
    /// Show everything that is known, and how many entries were left out
    #[arg(long)]
    pub(crate) metadata: bool,
    /// Say of every file what each format makes of it, and why
    #[arg(long)]
    pub(crate) explain: bool,
    /// State a quantity, for example scan_step=1.5angstrom; repeatable
    #[arg(long, value_name = "NAME=VALUE", conflicts_with = "overrides")]
    pub(crate) set: Vec<String>,
    /// Why what is stated with --set should be believed
    #[arg(long, value_name = "TEXT", requires = "set")]
    pub(crate) evidence: Option<String>,
    /// A JSON document that states quantities
    #[arg(long, value_name = "FILE")]
    pub(crate) overrides: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Profile {
    /// u8 where it is provably exact, else u16
    #[default]
    Auto,
    /// Counts of admitted pixels fit 8 bits
    U8,
    /// Counts of admitted pixels fit 16 bits
    U16,
    /// The qem container
    Qem,
}

#[derive(Debug, Args)]
pub(crate) struct Pack {
    /// Acquisition to pack
    pub(crate) source: PathBuf,
    /// Packed file to write
    pub(crate) dest: PathBuf,
    /// Encoding
    #[arg(long, value_enum, value_name = "PROFILE")]
    pub(crate) profile: Option<Profile>,
    /// Scan shape of an acquisition that does not record one
    #[arg(long, value_name = "RxC")]
    pub(crate) scan: Option<Scan>,
    /// Open an original whose format demands a calibration that is missing
    #[arg(long)]
    pub(crate) allow_uncalibrated: bool,
    /// Only say what packing would take
    #[arg(long)]
    pub(crate) plan: bool,
    /// Calibration of a .qem file that you state over the recorded one, for example scan_step_row=0.41
    #[arg(long = "override", value_name = "NAME=VALUE", requires = "evidence")]
    pub(crate) overrides: Vec<String>,
    /// What the overrides rest on
    #[arg(long, value_name = "TEXT", requires = "overrides")]
    pub(crate) evidence: Option<String>,
    /// Leave the overrides of a .qem source behind
    #[arg(long, conflicts_with = "overrides")]
    pub(crate) clear_overrides: bool,
    /// Dark frames whose mean a .qem file carries: its products subtract it, its samples stay as measured
    #[arg(long, value_name = "DARK_SOURCE")]
    pub(crate) dark: Option<PathBuf>,
    /// Replace an existing file
    #[arg(long)]
    pub(crate) force: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Verify {
    /// Packed file
    pub(crate) file: PathBuf,
    /// Original acquisition that the pack must equal
    #[arg(long, value_name = "SOURCE")]
    pub(crate) against: Option<PathBuf>,
    /// Scan shape of the original, when it does not record one
    #[arg(long, value_name = "RxC", requires = "against")]
    pub(crate) scan: Option<Scan>,
    /// Open an original whose format demands a calibration that is missing
    #[arg(long, requires = "against")]
    pub(crate) allow_uncalibrated: bool,
    /// SHA-256 the whole file must have
    #[arg(long, value_name = "HEX")]
    pub(crate) expect_sha256: Option<Sha256>,
    /// Receipt you vouch for
    #[arg(long, value_name = "FILE")]
    pub(crate) receipt: Option<PathBuf>,
    /// Also compare every stored tile sum of a .qem file with its counts
    #[arg(long)]
    pub(crate) strict: bool,
    /// Fail unless every byte of the file is sealed by evidence you give
    #[arg(long)]
    pub(crate) require_seal: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Info {
    /// Packed file
    pub(crate) file: PathBuf,
}

#[derive(Debug, Args)]
pub(crate) struct Enrich {
    /// Packed file, which stays as it is
    pub(crate) file: PathBuf,
    /// Enriched copy to write
    pub(crate) dest: PathBuf,
    /// SHA-256 the whole input must have
    #[arg(long, value_name = "HEX")]
    pub(crate) expect_sha256: Sha256,
    /// Constants of the excluded pixels, in the file's order; proven by the recorded digest of the raw values
    #[arg(long, value_name = "V,V,…", value_delimiter = ',')]
    pub(crate) raw_values: Option<Vec<u16>>,
    /// Bright-field disk to record
    #[arg(long, value_name = "R,C,RADIUS", allow_hyphen_values = true, conflicts_with = "measure")]
    pub(crate) disk: Option<Numbers<3>>,
    /// Measure the bright-field disk and record it
    #[arg(long)]
    pub(crate) measure: bool,
    /// Angle from the detector to the scan in degrees, recorded beside the disk
    #[arg(long, value_name = "DEGREES", allow_hyphen_values = true, value_parser = degrees)]
    pub(crate) rotation: Option<f64>,
    /// The components are exchanged before that turn and back after it
    #[arg(long, requires = "rotation")]
    pub(crate) exchanged: bool,
    /// Record a digest of all stored bytes of every shard (u16 profile)
    #[arg(long)]
    pub(crate) envelopes: bool,
    /// Replace an existing file
    #[arg(long)]
    pub(crate) force: bool,
}

fn degrees(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(degrees) if degrees.is_finite() => Ok(degrees),
        _ => Err("expected an angle in degrees".into()),
    }
}

#[derive(Debug, Args)]
pub(crate) struct Bench {
    #[command(flatten)]
    pub(crate) input: Input,
    /// Ask the operating system to forget the files first
    #[arg(long)]
    pub(crate) drop_cache: bool,
    /// Use a pack's bitstreams where the system maps the file, instead of copying them; nothing may write to it meanwhile
    #[arg(long)]
    pub(crate) mapped: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Frame {
    #[command(flatten)]
    pub(crate) input: Input,
    #[command(flatten)]
    pub(crate) dark: DarkFrames,
    /// Scan row, counted from 0
    #[arg(required_unless_present = "at", conflicts_with = "at")]
    pub(crate) row: Option<usize>,
    /// Scan column, counted from 0
    #[arg(required_unless_present = "at", conflicts_with = "at")]
    pub(crate) col: Option<usize>,
    /// Scan row and column of one frame of a stack; repeatable, in the order of the stack
    #[arg(long, value_name = "R,C")]
    pub(crate) at: Vec<Position>,
    /// The detector's own values, excluded pixels included
    #[arg(long, conflicts_with = "dark")]
    pub(crate) raw: bool,
    #[command(flatten)]
    pub(crate) out: Out,
    #[command(flatten)]
    pub(crate) look: Look,
}

#[derive(Debug, Args)]
pub(crate) struct Image {
    #[command(flatten)]
    pub(crate) input: Input,
    #[command(flatten)]
    pub(crate) dark: DarkFrames,
    #[command(flatten)]
    pub(crate) detector: Detector,
    /// Unit of RADIUS, IN and OUT; the centre is always a pixel
    #[arg(long, value_enum, value_name = "UNIT", default_value_t)]
    pub(crate) unit: Unit,
    /// Write the spectrum of the image instead: ln(1 + |F|), the zero frequency in the middle
    #[arg(long)]
    pub(crate) fft: bool,
    #[command(flatten)]
    pub(crate) out: Out,
    #[command(flatten)]
    pub(crate) look: Look,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Unit {
    /// Detector pixels
    #[default]
    Px,
    /// Scattering angle, by the recorded steps of the detector
    Mrad,
}

/// The virtual detector; distances are in detector pixels, pixel centres at integers.
#[derive(Debug, Args)]
#[group(required = true, multiple = false)]
#[command(next_help_heading = "Virtual detector (one of)")]
pub(crate) struct Detector {
    /// Bright field: the disk of radius R, recorded or else measured
    #[arg(long)]
    pub(crate) bf: bool,
    /// Annular bright field: R/2 to R
    #[arg(long)]
    pub(crate) abf: bool,
    /// Annular dark field: R to 2R
    #[arg(long)]
    pub(crate) adf: bool,
    /// Pixels at most RADIUS from (R, C)
    #[arg(long, value_name = "R,C,RADIUS", allow_hyphen_values = true)]
    pub(crate) disk: Option<Numbers<3>>,
    /// Pixels more than IN and at most OUT from (R, C)
    #[arg(long, value_name = "R,C,IN,OUT", allow_hyphen_values = true)]
    pub(crate) annulus: Option<Numbers<4>>,
    /// Pixels that are 1 in a uint8 or bool array of the detector's shape
    #[arg(long, value_name = "M.npy")]
    pub(crate) mask: Option<PathBuf>,
    /// Every admitted pixel
    #[arg(long)]
    pub(crate) total: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Com {
    #[command(flatten)]
    pub(crate) input: Input,
    #[command(flatten)]
    pub(crate) dark: DarkFrames,
    #[command(flatten)]
    pub(crate) out: Out,
}

#[derive(Debug, Args)]
pub(crate) struct Dpc {
    #[command(flatten)]
    pub(crate) input: Input,
    #[command(flatten)]
    pub(crate) dark: DarkFrames,
    /// Angle from the detector to the scan in degrees, or `auto`: the one with the least curl
    #[arg(long, value_name = "DEGREES", allow_hyphen_values = true)]
    pub(crate) rotation: Option<Rotation>,
    /// Exchange the components before the turn and back after it
    #[arg(long, requires = "rotation")]
    pub(crate) exchanged: bool,
    /// Write the phase that the deflections integrate to
    #[arg(long)]
    pub(crate) integrate: bool,
    /// Round centres to 32 bits before their mean is taken away, as tools with prepared moments do
    #[arg(long)]
    pub(crate) prepared_rounding: bool,
    #[command(flatten)]
    pub(crate) out: Out,
    #[command(flatten)]
    pub(crate) look: Look,
}

/// How the detector is turned.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Rotation {
    Automatic,
    Degrees(f64),
}

impl std::str::FromStr for Rotation {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        if text == "auto" {
            return Ok(Rotation::Automatic);
        }
        match text.parse::<f64>() {
            Ok(degrees) if degrees.is_finite() => Ok(Rotation::Degrees(degrees)),
            _ => Err("expected an angle in degrees, or `auto`".into()),
        }
    }
}

/// Which scan positions are summed.
#[derive(Debug, Args)]
#[group(multiple = false)]
#[command(next_help_heading = "Scan positions (all when absent)")]
pub(crate) struct ScanPositions {
    /// Scan rows and columns, half-open
    #[arg(long, value_name = "R0:R1,C0:C1")]
    pub(crate) scan_rect: Option<Region>,
    /// Positions at most RADIUS scan steps from position (R, C)
    #[arg(long, value_name = "R,C,RADIUS", allow_hyphen_values = true)]
    pub(crate) scan_circle: Option<Numbers<3>>,
    /// Positions that are 1 in a uint8 or bool array of the scan's shape
    #[arg(long, value_name = "M.npy")]
    pub(crate) scan_mask: Option<PathBuf>,
}

impl ScanPositions {
    /// Whether nothing is chosen.
    pub(crate) fn is_whole(&self) -> bool {
        self.scan_rect.is_none() && self.scan_circle.is_none() && self.scan_mask.is_none()
    }
}

#[derive(Debug, Args)]
pub(crate) struct Disk {
    #[command(flatten)]
    pub(crate) input: Input,
    #[command(flatten)]
    pub(crate) dark: DarkFrames,
    /// Measure it even where one is recorded; the recorded one stays the one that products use
    #[arg(long)]
    pub(crate) measure: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Mean {
    #[command(flatten)]
    pub(crate) input: Input,
    #[command(flatten)]
    pub(crate) dark: DarkFrames,
    /// Write the exact 64-bit sum instead of the mean
    #[arg(long)]
    pub(crate) sum: bool,
    #[command(flatten)]
    pub(crate) positions: ScanPositions,
    #[command(flatten)]
    pub(crate) out: Out,
    #[command(flatten)]
    pub(crate) look: Look,
}

#[derive(Debug, Args)]
pub(crate) struct Unpack {
    #[command(flatten)]
    pub(crate) input: Input,
    /// Array file to write (.npy)
    #[arg(value_name = "OUT.npy")]
    pub(crate) output: PathBuf,
    /// The detector's own values (the default)
    #[arg(long, conflicts_with = "working")]
    pub(crate) raw: bool,
    /// Zero at excluded pixels
    #[arg(long)]
    pub(crate) working: bool,
    /// Only these scan rows and columns, half-open
    #[arg(long, value_name = "R0:R1,C0:C1")]
    pub(crate) region: Option<Region>,
    /// Replace an existing file
    #[arg(long)]
    pub(crate) force: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Demo {
    /// Folder for the sample and the results; must not hold an earlier demo
    #[arg(default_value = "stempack-demo")]
    pub(crate) dir: PathBuf,
}
