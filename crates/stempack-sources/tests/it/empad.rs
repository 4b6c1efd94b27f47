//! EMPAD pairs: which XML belongs to which RAW, which scan shape is believed, what a length may be, which words are
//! floats. The rows are those of the written format facts.

use crate::common::*;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use stempack_model::{Detail, Kind, MemberRole, SampleType, Samples, SamplesRef, Task};

pub(crate) const G1: u64 = 66_560;
pub(crate) const G2: u64 = 65_536;

/// A folder to put pairs into.
pub(crate) struct Pairs(tempfile::TempDir);

impl Pairs {
    pub(crate) fn new() -> Self {
        Pairs(tempfile::tempdir().unwrap())
    }
    pub(crate) fn at(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }
    pub(crate) fn file(&self, name: &str, content: impl AsRef<[u8]>) -> PathBuf {
        std::fs::write(self.at(name), content).unwrap();
        self.at(name)
    }
    /// A RAW of zeros that takes no room.
    pub(crate) fn zeros(&self, name: &str, bytes: u64) -> PathBuf {
        std::fs::File::create(self.at(name)).unwrap().set_len(bytes).unwrap();
        self.at(name)
    }
    /// A first-generation XML called `a.xml` naming `r.raw` of so many records.
    pub(crate) fn first(&self, records: u64, inside: &str) -> PathBuf {
        self.zeros("r.raw", records * G1);
        self.file("a.xml", g1("r.raw", inside))
    }
    /// The same of the second generation.
    pub(crate) fn second(&self, records: u64, shape: &str, inside: &str) -> PathBuf {
        self.zeros("r.raw", records * G2);
        self.file("a.xml", g2("r.raw", shape, inside))
    }
}

pub(crate) fn g1(raw: &str, inside: &str) -> String {
    format!("<root><raw_file filename=\"{raw}\"/>{inside}</root>")
}

pub(crate) fn g2(raw: &str, shape: &str, inside: &str) -> String {
    format!(
        "<root><sensor><type>EMPAD2</type><shape>128,128</shape></sensor><scan><type>scan</type>\
         <shape>{shape}</shape></scan><rawfile><filename>{raw}</filename><datatype>float32</datatype></rawfile>\
         {inside}</root>"
    )
}

fn pix(rows: &str, cols: &str) -> String {
    format!("<pix_x>{cols}</pix_x><pix_y>{rows}</pix_y>")
}

fn block(mode: &str, rows: u64, cols: u64) -> String {
    format!(
        "<scan_parameters{mode}><scan_resolution_x>{cols}</scan_resolution_x>\
         <scan_resolution_y>{rows}</scan_resolution_y></scan_parameters>"
    )
}
const ACQUIRE: &str = " mode=\"acquire\"";
const SEARCH: &str = " mode=\"search\"";

fn dims(path: &Path) -> Vec<usize> {
    open(path).acquisition().shape().unwrap().dims().to_vec()
}

fn refused(path: &Path, code: &str, named: &[&str]) {
    let error = refusal(path);
    assert_eq!(error.code(), code, "{error}");
    for part in named {
        assert!(error.message().contains(part), "{error}: does not name {part}");
    }
}

#[test]
fn both_members_open_the_same_pair() {
    let pairs = Pairs::new();
    pairs.zeros("scan.RAW", 6 * G1);
    // Folders of the acquisition computer mean nothing here.
    pairs.file("my sample 1.XML", g1("C:\\data\\other/scan.RAW", &pix("2", "3")));
    for name in ["scan.RAW", "my sample 1.XML"] {
        let source = open(&pairs.at(name));
        let a = source.acquisition();
        assert_eq!(a.shape().unwrap().dims(), [2, 3, 128, 128]);
        assert_eq!((a.label.as_str(), a.format.as_str()), ("my sample 1", "EMPAD-G1 · XML/RAW float32"));
        assert_eq!((a.reader.as_str(), a.sample), ("empad-g1-float32-xml/v1", SampleType::F32));
        let members: Vec<_> = a.members.iter().map(|m| (m.path.clone(), m.role, m.bytes)).collect();
        assert_eq!(members[0], (pairs.at("scan.RAW"), MemberRole::Data, 399_360));
        assert_eq!(
            (members[1].0.clone(), members[1].1),
            (pairs.at("my sample 1.XML"), MemberRole::Companion)
        );
        let text = std::fs::read_to_string(pairs.at("my sample 1.XML")).unwrap();
        let document = &a.documents[0];
        assert_eq!((document.filename.as_str(), document.media_type), ("my sample 1.XML", "application/xml"));
        assert_eq!((&document.content, hex::encode(document.sha256)), (&text, sha256(text.as_bytes())));
    }
}

#[test]
fn an_xml_of_the_same_stem_is_meant() {
    let pairs = Pairs::new();
    pairs.zeros("scan.raw", 2 * G1);
    pairs.zeros("other.raw", 2 * G1);
    pairs.file("scan.xml", g1("other.raw", &pix("1", "2")));
    // Although this one names the RAW, no further search.
    pairs.file("z.xml", g1("scan.raw", &pix("1", "2")));
    refused(&pairs.at("scan.raw"), "wrong_pairing", &["scan.xml", "scan.raw", "other.raw"]);
    assert_eq!(dims(&pairs.at("scan.xml"))[..2], [1, 2]);
    assert_eq!(dims(&pairs.at("z.xml"))[..2], [1, 2]);
    // Nor is a broken one passed over.
    pairs.file("scan.xml", "<root><raw_file");
    refused(&pairs.at("scan.raw"), "unsafe_metadata", &["scan.xml"]);
}

#[test]
fn several_xml_files_are_ambiguous() {
    let pairs = Pairs::new();
    pairs.zeros("scan.raw", 2 * G1);
    pairs.file("a.xml", g1("scan.raw", &pix("1", "2")));
    pairs.file("b.xml", g1("scan.raw", &pix("2", "1")));
    pairs.file("broken.xml", "<root>");
    refused(&pairs.at("scan.raw"), "ambiguous_source", &["scan.raw", "a.xml", "b.xml"]);
    assert_eq!(dims(&pairs.at("a.xml"))[..2], [1, 2]);
    assert_eq!(dims(&pairs.at("b.xml"))[..2], [2, 1]);
}

#[test]
fn unreadable_siblings_are_passed_over_but_not_in_silence() {
    let pairs = Pairs::new();
    let raw = pairs.zeros("scan_x3_y2.raw", 6 * G1);
    pairs.file("broken.xml", "<root>");
    assert_eq!(open(&raw).acquisition().warnings, []);
    // One that names another RAW belongs to that one.
    pairs.zeros("other.raw", G1);
    pairs.file("other's.xml", g1("other.raw", &pix("1", "1")));
    let source = open(&raw);
    assert_eq!((source.acquisition().members.len(), dims(&raw)), (1, vec![2, 3, 128, 128]));
    pairs.file("mine.xml", "<root><raw_file filename=\"scan_x3_y2.raw\"/>");
    let source = open(&raw);
    let codes: Vec<_> = source.acquisition().warnings.iter().map(|w| w.code).collect();
    assert_eq!(codes, ["unreadable_sibling"]);
    assert!(source.acquisition().warnings[0].message.contains("mine.xml"));
}

#[test]
fn an_xml_must_name_a_raw_in_its_folder() {
    let pairs = Pairs::new();
    for name in ["", ".", "..", "a.dat", ".raw", "x.raw/", "raw"] {
        let xml = pairs.file("a.xml", g1(name, ""));
        refused(&xml, "wrong_pairing", &["a.xml"]);
    }
    refused(
        &pairs.file("a.xml", "<r><raw_file/><iom_measurements/></r>"),
        "wrong_pairing",
        &["names no RAW"],
    );
    let xml = pairs.file("a.xml", g1("/elsewhere/gone.raw", &pix("1", "1")));
    refused(&xml, "missing_member", &["a.xml", "gone.raw"]);
    assert_eq!(detail(&refusal(&xml), "missing"), Some(&Detail::List(vec!["gone.raw".into()])));
    std::fs::create_dir(pairs.at("folder.raw")).unwrap();
    refused(&pairs.file("a.xml", g1("folder.raw", "")), "length_mismatch", &["folder.raw"]);
    // Said twice alike is said once; otherwise nobody knows.
    pairs.zeros("r.raw", G1);
    let twice = |other: &str| g1("r.raw", &format!("<raw_file filename=\"{other}\"/>{}", pix("1", "1")));
    assert_eq!(dims(&pairs.file("a.xml", twice("r.raw")))[..2], [1, 1]);
    refused(
        &pairs.file("a.xml", twice("s.raw")),
        "unsafe_metadata",
        &["raw_file@filename", "r.raw", "s.raw"],
    );
    let both = g1("r.raw", "<rawfile><filename>s.raw</filename></rawfile>");
    refused(&pairs.file("a.xml", both), "ambiguous_source", &["r.raw", "s.raw"]);
}

#[test]
fn members_behind_links_are_found() {
    let pairs = Pairs::new();
    std::fs::create_dir(pairs.at("real")).unwrap();
    std::fs::create_dir(pairs.at("links")).unwrap();
    pairs.zeros("real/scan.raw", 2 * G1);
    pairs.file("real/a.xml", g1("scan.raw", &pix("1", "2")));
    for (link, target) in [("links/l.raw", "real/scan.raw"), ("links/l2.xml", "real/a.xml")] {
        std::os::unix::fs::symlink(pairs.at(target), pairs.at(link)).unwrap();
        assert_eq!(dims(&pairs.at(link))[..2], [1, 2], "{link}");
    }
}

#[test]
fn only_small_plain_xml_is_read() {
    let pairs = Pairs::new();
    pairs.zeros("r.raw", G1);
    let good = g1("r.raw", &pix("1", "1"));
    let refuse = |content: &[u8], named: &str| {
        refused(&pairs.file("a.xml", content), "unsafe_metadata", &["a.xml", named]);
    };
    refuse(format!("<!DOCTYPE root []>{good}").as_bytes(), "doctype");
    refuse(format!("<!DocType root [<!ENTITY a \"b\">]>{good}").as_bytes(), "doctype");
    refuse(format!("{good}<!-- <!eNtItY a> -->").as_bytes(), "entity");
    refuse(format!("{good}{}", " ".repeat(4 << 20)).as_bytes(), "4194304");
    refuse(&[good.as_bytes(), b"<!-- \xff -->"].concat(), "UTF-8");
    let utf16: Vec<u8> =
        std::iter::once(0xfeff).chain(good.encode_utf16()).flat_map(u16::to_le_bytes).collect();
    refuse(&utf16, "UTF-8");
    refuse(&good.as_bytes()[..good.len() - 3], "well-formed");
    refuse(g1("r.raw", "&unknown;").as_bytes(), "well-formed");
    refuse(g1("r.raw", &"<a/>".repeat(300_000)).as_bytes(), "more than 200000");
    // Depth alone is harmless, and so is a name that every path would repeat.
    let deep = format!("{}{}", "<d>".repeat(50_000), "</d>".repeat(50_000));
    assert_eq!(dims(&pairs.file("a.xml", g1("r.raw", &format!("{}{deep}", pix("1", "1")))))[..2], [1, 1]);
    let long = "n".repeat(1 << 20);
    let wide = format!("{}<{long}>{}</{long}>", pix("1", "1"), "<a>1</a>".repeat(90_000));
    assert_eq!(dims(&pairs.file("a.xml", g1("r.raw", &wide)))[..2], [1, 1]);
    let fits = format!("{good}{}", " ".repeat((4 << 20) - good.len()));
    assert_eq!(dims(&pairs.file("a.xml", fits))[..2], [1, 1]);
    assert_eq!(dims(&pairs.file("a.xml", format!("\u{feff}{good}")))[..2], [1, 1]);
    refuse(g1("r.raw", "<pix_x>1</pix_x><pix_x>2</pix_x>").as_bytes(), "pix_x");
}

#[test]
fn scan_shapes_of_the_first_generation() {
    let pairs = Pairs::new();
    assert_eq!(dims(&pairs.first(6, &pix("2", " 3\n")))[..2], [2, 3]);
    assert_eq!(dims(&pairs.first(6, &block(ACQUIRE, 2, 3)))[..2], [2, 3]);
    assert_eq!(dims(&pairs.first(6, &block("", 2, 3)))[..2], [2, 3], "without a mode it was acquired");
    assert_eq!(dims(&pairs.first(6, &format!("{}{}", pix("2", "3"), block(ACQUIRE, 2, 3))))[..2], [2, 3]);
    let evidence = open(&pairs.at("a.xml")).acquisition().scan.clone().unwrap();
    assert_eq!((evidence.evidence.as_str(), evidence.stated), ("a.xml: pix_y, pix_x", false));
    let both = format!("{}{}", pix("2", "3"), block(ACQUIRE, 3, 2));
    refused(&pairs.first(6, &both), "conflicting_scan_shape", &["2x3", "3x2", "pix_y", "[acquire]"]);
    for inside in
        ["<pix_x>3</pix_x>".to_owned(), pix("", "3"), pix("2", "0"), pix("-2", "3"), pix("2.5", "3")]
    {
        refused(&pairs.first(6, &inside), "invalid_scan_shape", &["a.xml"]);
    }
    refused(&pairs.first(6, "<type>line</type>"), "unsupported_layout", &["line"]);
    // A search is never taken, whether it fits or not.
    let search = format!("{}{}", block(SEARCH, 64, 64), block(ACQUIRE, 2, 3));
    assert_eq!(dims(&pairs.first(6, &search))[..2], [2, 3]);
    assert_eq!(open(&pairs.at("a.xml")).acquisition().warnings, []);
    let source = open(&pairs.first(6, &block(SEARCH, 2, 3)));
    assert_eq!((source.acquisition().shape(), source.acquisition().frame_count), (None, 6));
    assert_eq!(source.acquisition().warnings[0].code, "search_scan_only");
}

#[test]
fn names_state_shapes_columns_first() {
    let pairs = Pairs::new();
    let raw = pairs.zeros("Scan_X3_y2.RAW", 399_360);
    assert_eq!(dims(&raw), [2, 3, 128, 128]);
    let error = refusal_with(&raw, &stated(3, 2));
    assert_eq!((error.code(), error.kind()), ("conflicting_scan_shape", Kind::Conflict));
    assert!(error.message().contains("3x2") && error.message().contains("2x3"), "{error}");
    assert_eq!(open_with(&raw, &stated(2, 3)).acquisition().shape().unwrap().dims()[..2], [2, 3]);
    // Named otherwise, a RAW states nothing.
    for name in ["my_scan_x3_y2.raw", "scan_x3_y2_2.raw", "scan_x0_y6.raw", "scan_x-3_y2.raw", "scan.raw"] {
        assert_eq!(open(&pairs.zeros(name, 6 * G1)).acquisition().shape(), None, "{name}");
    }
    pairs.file("a.xml", g1("Scan_X3_y2.RAW", &pix("3", "2")));
    let named = ["3x2", "2x3", "pix_y", "Scan_X3_y2.RAW", "records in the file: 6"];
    refused(&pairs.at("a.xml"), "conflicting_scan_shape", &named);
}

#[test]
fn a_raw_alone_says_how_many_frames_it_has() {
    let pairs = Pairs::new();
    let raw = pairs.zeros("r.raw", 12 * G1);
    let source = open(&raw);
    assert_eq!((source.acquisition().frame_count, source.acquisition().shape()), (12, None));
    let error = stempack_sources::require_shape(source.acquisition()).unwrap_err();
    assert_eq!((error.code(), error.kind()), ("missing_scan_shape", Kind::Conflict));
    for named in ["12 frames", "3x4", "4x3"] {
        assert!(error.message().contains(named), "{error}");
    }
    let scan = open_with(&raw, &stated(3, 4)).acquisition().scan.clone().unwrap();
    assert_eq!((scan.shape.rows(), scan.shape.cols(), scan.stated), (3, 4, true));
    assert_eq!(refusal_with(&raw, &stated(3, 5)).code(), "conflicting_scan_shape");
}

/// The kind of fault of real files: what the XML calls the acquisition is not what was saved.
#[test]
fn a_statement_settles_what_is_recorded_in_two_ways() {
    let pairs = Pairs::new();
    let inside = format!("{}{}{}", pix("4", "4"), block(ACQUIRE, 128, 128), block(SEARCH, 2, 8));
    let xml = pairs.first(16, &inside);
    let error = refusal(&xml);
    assert_eq!(error.code(), "conflicting_scan_shape");
    for named in ["4x4 (a.xml: pix_y, pix_x; fits the length)", "128x128", "does not fit", "[search]", "2x8"]
    {
        assert!(error.message().contains(named), "{error}");
    }
    let shapes = ["4x4", "128x128", "2x8"].map(str::to_owned).to_vec();
    assert_eq!(detail(&error, "candidates"), Some(&Detail::List(shapes)));
    for (rows, cols) in [(4, 4), (2, 8)] {
        let source = open_with(&xml, &stated(rows, cols));
        let scan = source.acquisition().scan.clone().unwrap();
        assert_eq!((scan.shape.rows() as u64, scan.shape.cols() as u64, scan.stated), (rows, cols, true));
        assert_eq!(source.acquisition().warnings[0].code, "conflicting_scan_shape");
    }
    for (rows, cols) in [(8, 2), (128, 128), (1, 16)] {
        let error = refusal_with(&xml, &stated(rows, cols));
        assert_eq!(error.code(), "conflicting_scan_shape", "{error}");
        assert!(error.message().contains("stated by the user"), "{error}");
    }
    // The acquisition as recorded does not fit, the search does: named, and the caller may say so.
    let xml = pairs.first(2, &format!("{}{}", block(ACQUIRE, 3, 3), block(SEARCH, 2, 1)));
    let named = ["[acquire]", "3x3", "[search]; fits the length", "2x1", "records in the file: 2"];
    refused(&xml, "length_mismatch", &named);
    assert_eq!(open_with(&xml, &stated(2, 1)).acquisition().shape().unwrap().dims()[..2], [2, 1]);
    assert_eq!(refusal_with(&xml, &stated(1, 2)).code(), "conflicting_scan_shape");
}

#[test]
fn lengths_are_exact() {
    let pairs = Pairs::new();
    let xml = pairs.first(6, &pix("2", "3"));
    for bytes in [0, 1, 6 * G1 - 1, 6 * G1 + 1, 5 * G1, 7 * G1] {
        pairs.zeros("r.raw", bytes);
        let error = refusal(&xml);
        assert_eq!((error.code(), error.kind()), ("length_mismatch", Kind::Malformed), "{error}");
        let numbers = [bytes.to_string(), "399360".into(), format!("records in the file: {}", bytes / G1)];
        assert!(numbers.iter().all(|n| error.message().contains(n)), "{error}");
        assert_eq!(detail(&error, "expected_bytes"), Some(&Detail::Number(399_360)));
        assert_eq!(detail(&error, "found_bytes"), Some(&Detail::Number(bytes)));
    }
    pairs.zeros("r.raw", 6 * G2);
    refused(&xml, "length_mismatch", &["393216", "6 records of 65536 bytes", "EMPAD-G2"]);
    let huge = pairs.first(6, &pix("18446744073709551615", "2"));
    refused(&huge, "length_mismatch", &["no file has"]);
    for bytes in [0, G1 + 1, G2] {
        refused(&pairs.zeros("s.raw", bytes), "length_mismatch", &["66560"]);
    }
    let xml = pairs.second(6, "2, 3", "");
    assert_eq!(dims(&xml), [2, 3, 128, 128]);
    assert_eq!(std::fs::metadata(pairs.at("r.raw")).unwrap().len(), 393_216);
    pairs.zeros("r.raw", 6 * G1);
    refused(&xml, "length_mismatch", &["399360", "393216", "6 records of 66560 bytes"]);
    // Without its XML an export is taken for the first generation, which its length contradicts.
    std::fs::remove_file(&xml).unwrap();
    pairs.zeros("r.raw", 6 * G2);
    let error = refusal(&pairs.at("r.raw"));
    assert!(error.message().contains("EMPAD-G2") && error.advice().unwrap().contains("XML"), "{error}");
}

#[test]
fn scan_shapes_of_the_second_generation() {
    let pairs = Pairs::new();
    for shape in ["2,3", "(2, 3)", " ( 2 , 3 ) ", "[2,3]"] {
        let source = open(&pairs.second(6, shape, ""));
        let a = source.acquisition();
        assert_eq!(a.shape().unwrap().dims(), [2, 3, 128, 128], "{shape}");
        assert_eq!(
            (a.reader.as_str(), a.format.as_str()),
            ("empad-g2-float32-xml/v1", "EMPAD-G2 · XML/RAW float32")
        );
    }
    for shape in ["", "6", "2,3,1", "0,3", "2;3", "a,b", "2,-3"] {
        refused(&pairs.second(6, shape, ""), "invalid_scan_shape", &["scan/shape"]);
    }
    // A counter that includes flyback adds no positions.
    assert_eq!(
        dims(&pairs.second(6, "2,3", "<framecount>8</framecount><scan><frames>8</frames></scan>"))[..2],
        [2, 3]
    );
    let good = g2("r.raw", "2,3", "");
    for (from, to, named) in [
        ("EMPAD2", "EMPAD", "sensor/type"),
        ("<type>EMPAD2</type>", "", "sensor/type"),
        ("<type>scan</type>", "<type>series</type>", "scan/type"),
        ("<type>scan</type>", "", "scan/type"),
        ("128,128", "128,130", "sensor/shape"),
        ("<shape>128,128</shape>", "", "sensor/shape"),
        ("float32", "uint32", "rawfile/datatype"),
        ("<datatype>float32</datatype>", "", "rawfile/datatype"),
    ] {
        refused(&pairs.file("a.xml", good.replace(from, to)), "unsupported_layout", &[named]);
    }
    // Two numbers in the name, in the other order: both fit, nothing says which, so the caller is asked.
    pairs.zeros("scan_x2_y1.raw", 2 * G2);
    let xml = pairs.file("b.xml", g2("scan_x2_y1.raw", "2,1", ""));
    refused(&xml, "conflicting_scan_shape", &["2x1", "1x2", "scan/shape", "file name"]);
    assert!(refusal(&xml).advice().unwrap().contains("--scan 1x2 or --scan 2x1"));
    assert_eq!(open_with(&xml, &stated(1, 2)).acquisition().shape().unwrap().dims()[..2], [1, 2]);
}

#[test]
fn a_series_is_no_raster() {
    let pairs = Pairs::new();
    let inside = "<type>series</type><count>6</count>";
    let xml = pairs.first(6, inside);
    let source = open(&xml);
    let a = source.acquisition();
    assert_eq!((a.frame_count, a.shape(), a.warnings[0].code), (6, None, "not_a_raster"));
    assert_eq!(a.reader, "stempack-empad-g1-series/v1");
    assert_eq!(stempack_sources::require_shape(a).unwrap_err().code(), "missing_scan_shape");
    assert_eq!(open_with(&xml, &stated(1, 6)).acquisition().shape().unwrap().dims()[..2], [1, 6]);
    refused(&pairs.first(5, inside), "length_mismatch", &["series of 6 frames", "399360"]);
    refused(&pairs.first(5, "<type>series</type><count>many</count>"), "invalid_scan_shape", &["count"]);
    assert_eq!(open(&pairs.first(5, "<type>series</type>")).acquisition().frame_count, 5);
}

const OFFSETS: &str = "<pdcu><SerialNumber>1</SerialNumber></pdcu><grabber><avg_scan_even_offset>1\
     </avg_scan_even_offset><avg_scan_odd_offset>1</avg_scan_odd_offset></grabber>";

fn words(frames: usize, word: impl Fn(usize, usize) -> u32) -> Vec<u8> {
    (0..frames)
        .flat_map(|f| (0..16_384).map(move |p| (f, p)))
        .flat_map(|(f, p)| word(f, p).to_le_bytes())
        .collect()
}

#[test]
fn encoded_words_are_no_floats() {
    let pairs = Pairs::new();
    let xml = pairs.second(3, "1,3", OFFSETS);
    let encoded = |_, p: usize| 0x4000_1f40 | p as u32;
    pairs.file("r.raw", words(3, encoded));
    refused(&xml, "encoded_words", &["r.raw", "bit 30"]);
    let advice = refusal(&xml).advice().unwrap().to_owned();
    assert!(advice.contains("gain calibration") && advice.contains("dark"), "{advice}");
    // Ordinary floats, also negative ones and fractions.
    pairs.file("r.raw", words(3, |f, p| ((p as f32 - 8000.25) * (f as f32 + 0.5)).to_bits()));
    assert_eq!(dims(&xml)[..2], [1, 3]);
    // One clear bit in one sampled frame, the first, the middle or the last, is enough.
    for clear in 0..3 {
        pairs.file("r.raw", words(3, |f, p| if (f, p) == (clear, 16_383) { 1 } else { encoded(f, p) }));
        assert_eq!(dims(&xml)[..2], [1, 3]);
    }
    // Without all of the marks there is no evidence of encoding.
    pairs.file("r.raw", words(3, encoded));
    for missing in ["SerialNumber", "avg_scan_even_offset", "avg_scan_odd_offset"] {
        let inside = OFFSETS.replace(missing, "x");
        assert_eq!(dims(&pairs.file("a.xml", g2("r.raw", "1,3", &inside)))[..2], [1, 3]);
    }
}

/// Bits that arithmetic would not keep: quiet and signalling NaN with payloads, both zeros, infinities, subnormals.
const BITS: [u32; 10] = [
    0x7fc0_0001,
    0x7f80_0001,
    0xffc1_2345,
    0xff80_0002,
    0x8000_0000,
    0,
    0x7f80_0000,
    0xff80_0000,
    1,
    0x807f_ffff,
];

#[test]
fn every_bit_of_every_pixel_and_none_of_the_footer() {
    let pairs = Pairs::new();
    let bit = |f: usize, p: usize| {
        if p % 7 < 3 { BITS[(f + p) % 10] } else { (f * 16_384 + p) as u32 ^ 0x3f80_0000 }
    };
    let mut raw = std::fs::File::create(pairs.at("scan_x5_y1.raw")).unwrap();
    for f in 0..5 {
        let mut record: Vec<u8> = (0..16_384).flat_map(|p| bit(f, p).to_le_bytes()).collect();
        record.extend([0xaa; 1024]);
        raw.write_all(&record).unwrap();
    }
    drop(raw);
    let source = open(&pairs.at("scan_x5_y1.raw"));
    for first in 0..5u64 {
        for count in 1..=5 - first {
            let samples = read(&*source, first, count).unwrap();
            let SamplesRef::F32(found) = samples.as_ref() else { panic!("not f32") };
            for (i, x) in found.iter().enumerate() {
                assert_eq!(x.to_bits(), bit(first as usize + i / 16_384, i % 16_384), "{first} {count} {i}");
            }
        }
    }
    assert_eq!(read(&*source, 4, 2).unwrap_err().code(), "out_of_range");
    let zero = open(&pairs.zeros("scan_x1_y1.raw", G1));
    let expected = "de2f256064a0af797747c2b97505dc0b9f3df0de4f489eac731c23ae9ca9cc31";
    assert_eq!(logical_sha256(&*zero, 1), expected);
}

#[test]
fn a_changed_raw_or_xml_is_noticed() {
    for name in ["r.raw", "a.xml"] {
        let pairs = Pairs::new();
        let source = open(&pairs.first(2, &pix("1", "2")));
        source.check_unchanged().unwrap();
        std::thread::sleep(std::time::Duration::from_millis(30));
        let bytes = std::fs::read(pairs.at(name)).unwrap();
        std::fs::write(pairs.at(name), bytes).unwrap();
        let error = source.check_unchanged().unwrap_err();
        assert_eq!((error.code(), error.message().contains(name)), ("source_changed", true), "{error}");
        assert_eq!(source.digest_members(&Task::new()).unwrap_err().code(), "source_changed");
        assert_eq!(read(&*source, 0, 1).is_err(), name == "r.raw");
    }
}

#[test]
fn reading_stops_when_cancelled() {
    let pairs = Pairs::new();
    let source = open(&pairs.first(2, &pix("1", "2")));
    let task = Task::new().with_cancel(Arc::new(AtomicBool::new(true)));
    let mut samples = Samples::zeroed(SampleType::F32, 2 * 16_384);
    assert_eq!(source.read(0, samples.as_mut(), &task).unwrap_err().kind(), Kind::Cancelled);
    source.read(0, samples.as_mut(), &Task::new()).unwrap();
}

#[test]
fn other_files_are_left_to_others() {
    let pairs = Pairs::new();
    for (name, content) in [("n.xml", "<root><a/></root>"), ("n.txt", "raw_file"), ("empty.xml", "")] {
        refused(&pairs.file(name, content), "unknown_format", &[]);
    }
    // What decides is the contents, not the name of the XML.
    pairs.zeros("r.raw", G1);
    assert_eq!(dims(&pairs.file("metadata", g1("r.raw", &pix("1", "1"))))[..2], [1, 1]);
    let why = stempack_sources::explain(&pairs.at("metadata")).unwrap();
    assert!(why.iter().any(|c| c.format == "empad" && c.why.contains("r.raw")), "{why:?}");
}

#[test]
fn a_folder_lists_each_pair_once_and_what_is_incomplete() {
    let pairs = Pairs::new();
    pairs.first(6, &pix("2", "3"));
    pairs.zeros("alone.raw", 2 * G1);
    pairs.file("gone.xml", g1("gone.raw", ""));
    let folder = pairs.at(".");
    let catalog = stempack_sources::catalog(
        &[folder],
        &stempack_sources::OpenOptions::default(),
        &stempack_model::Task::new(),
    )
    .unwrap();
    let labels: Vec<_> = catalog.acquisitions.iter().map(|a| a.label.as_str()).collect();
    assert_eq!(labels, ["a", "alone"]);
    let issues: Vec<_> =
        catalog.issues.iter().map(|i| (i.path.ends_with("gone.xml"), i.error.code())).collect();
    assert_eq!(issues, [(true, "missing_member")]);
}

/// What an XML records and no positive number is left out and said by one key; an empty element records nothing.
#[test]
fn what_is_left_out_is_said() {
    let measured = |name: &str, text: &str| {
        format!("{}<iom_measurements><{name}>{text}</{name}></iom_measurements>", pix("2", "3"))
    };
    let codes = |path: &Path| {
        let source = open(path);
        let a = source.acquisition();
        assert!(a.quantities.is_empty(), "{:?}", a.quantities);
        a.warnings.iter().map(|w| (w.code, w.message.clone())).collect::<Vec<_>>()
    };
    let said = |path: &Path, key: &str, text: &str| {
        let found = codes(path);
        assert!(
            matches!(found.as_slice(), [("unusable_calibration", message)]
            if message.contains("`a.xml`") && message.contains(key) && message.contains(&format!("`{text}`"))),
            "{key} {text}: {found:?}"
        );
    };
    let pairs = Pairs::new();
    for text in ["nan", "-300000", "inf", "0", "1e999", "300 kV", "unknown"] {
        for name in ["high_voltage", "source.get_voltage", "nominal_camera_length", "calibrated_pixelsize"] {
            said(&pairs.first(6, &measured(name, text)), name, text);
        }
        let exposure = format!("{}<exposure_time>{text}</exposure_time>", pix("2", "3"));
        said(&pairs.first(6, &exposure), "exposure_time", text);
        for name in [
            "ColumnSourceHighVoltage",
            "ColumnOpticsGetCameraLengthNominalCameraLength",
            "calibrated_diffraction_angle",
        ] {
            said(&pairs.second(6, "2,3", &measured(name, text)), name, text);
        }
        let field = format!("<x>{text}</x><y>{text}</y><scale_factor>0.72</scale_factor>");
        said(
            &pairs.first(6, &measured("full_scan_field_of_view", &field)),
            "full_scan_field_of_view/x",
            text,
        );
    }
    for field in ["<x>1e-9</x><y>2e-9</y><scale_factor>0.72</scale_factor>", "<x>1e-9</x><y>1e-9</y>"] {
        said(
            &pairs.first(6, &measured("full_scan_field_of_view", field)),
            "full_scan_field_of_view/x",
            "1e-9",
        );
    }
    let legacy = measured("optics.get_full_scan_field_of_view", "[2e-9, NaN]");
    said(&pairs.first(6, &legacy), "optics.get_full_scan_field_of_view", "[2e-9, NaN]");
    assert_eq!(codes(&pairs.first(6, &measured("high_voltage", " "))), []);
    // What the second generation does not interpret is no loss.
    assert_eq!(codes(&pairs.second(6, "2,3", &measured("calibrated_pixelsize", "nan"))), []);
}
