//! Documents that hold something else, contradict themselves, are cut short, or were made to hurt.

use crate::common::*;
use crate::dm_writer::*;

const UNITS: [&str; 4] = ["1/nm", "1/nm", "nm", "nm"];

fn small() -> Image {
    Image::u16(&[3, 2, 2, 1], &UNITS)
}

fn plane() -> Image {
    Image::u16(&[4, 3], &["nm", "nm"])
}

fn refused(document: &[u8]) -> (&'static str, String) {
    let file = Written::new();
    let error = refusal(&file.write(document));
    (error.code(), error.message().to_owned())
}

fn opens(document: &[u8]) {
    let file = Written::new();
    let source = open(&file.write(document));
    assert_eq!(source.acquisition().shape().unwrap().dims(), [1, 2, 2, 3]);
    read(&*source, 0, 2).unwrap();
}

/// A survey before it, a thumbnail after it, images under other roots: never chosen, wherever they stand.
#[test]
fn the_image_of_four_axes_is_taken() {
    let (survey, scan) = (plane().to_tag(), small().to_tag());
    let documents = [
        root(&[plane(), small(), plane()]),
        group(vec![("Thumbnail", scan.clone()), ("ImageList", list(vec![survey.clone(), scan.clone()]))]),
        group(vec![
            ("ImageList", list(vec![scan.clone()])),
            ("Parent", group(vec![("ImageList", list(vec![scan.clone()]))])),
            ("SurveyImageList", list(vec![scan.clone()])),
        ]),
        group(vec![(
            "ImageList",
            list(vec![group(vec![("ImageTags", scan.clone())]), scan.clone(), DM4.u32(1)]),
        )]),
    ];
    for document in documents {
        opens(&DM4.document(&document));
    }
    let (code, message) = refused(&DM4.document(&group(vec![
        ("ImageList", list(vec![survey])),
        ("Parent", group(vec![("ImageList", list(vec![scan]))])),
    ])));
    assert_eq!(code, "unsupported_layout");
    assert!(message.contains("no image of four axes; found `ImageList.1` (3×4 uint16)"), "{message}");
    assert!(refused(&DM4.document(&group(vec![("A", DM4.u32(1))]))).1.contains("no image at all"));
}

#[test]
fn several_are_refused_by_name() {
    let mut other = small().tag(&["x"], DM4.u32(1));
    other.data_type = 3;
    let (code, message) = refused(&DM4.document(&root(&[plane(), small(), other])));
    assert_eq!(code, "ambiguous_source");
    for named in ["`ImageList.2` (1×2×2×3 uint16)", "`ImageList.3` (1×2×2×3 complex64)"] {
        assert!(message.contains(named), "{message}");
    }
    assert!(!message.contains("ImageList.1"));
    // Five axes are none of four.
    let five = Image::u16(&[3, 2, 2, 1, 1], &["1/nm", "1/nm", "nm", "nm", ""]);
    opens(&DM4.document(&root(&[five, small()])));
}

#[test]
fn samples_that_are_no_plain_numbers() {
    for (data_type, name) in [
        (3, "complex64"),
        (13, "complex128"),
        (5, "packed complex"),
        (8, "RGB"),
        (23, "RGBA"),
        (14, "binary"),
        (77, "77"),
    ] {
        let mut image = small();
        image.data_type = data_type;
        let (code, message) = refused(&image.document());
        assert_eq!(code, "unsupported_layout");
        assert!(message.contains(name) && message.contains("`ImageList.1`"), "{message}");
    }
}

#[test]
fn payload_and_description_must_agree() {
    for change in [-1i64, 1] {
        let mut image = small();
        image.samples.resize((image.samples.len() as i64 + change) as usize, vec![0, 0]);
        let (code, message) = refused(&image.document());
        assert_eq!(code, "length_mismatch");
        assert!(message.contains("1×2×2×3 needs 12"), "{message}");
    }
    let mut image = small();
    image.element = 2;
    let (code, message) = refused(&image.document());
    assert_eq!(code, "malformed_header");
    assert!(message.contains("holds int16, while `DataType` says uint16"), "{message}");
    // Dimensions whose product does not exist, or is zero.
    for dims in [[u32::MAX; 4], [3, 2, 0, 1]] {
        let mut image = small();
        image.dims = dims.to_vec();
        let code = refused(&image.document()).0;
        assert!(matches!(code, "length_mismatch" | "malformed_header"), "{code}");
    }
    let without = |name: &str| {
        let Tag::Group(mut members) = small().to_tag() else { unreachable!() };
        let Tag::Group(data) = &mut members[0].1 else { unreachable!() };
        data.retain(|(n, _)| n != name);
        refused(&DM4.document(&group(vec![("ImageList", list(vec![Tag::Group(members)]))]))).0
    };
    assert_eq!(without("Data"), "malformed_header");
    assert_eq!(without("DataType"), "unsupported_layout");
    assert_eq!(without("Dimensions"), "unsupported_layout");
    assert_eq!(without("Calibrations"), "missing_calibration");
}

#[test]
fn a_name_that_stands_twice_is_no_answer() {
    let Tag::Group(mut members) = small().to_tag() else { unreachable!() };
    let again = members[0].clone();
    members.push(again);
    let (code, message) =
        refused(&DM4.document(&group(vec![("ImageList", list(vec![Tag::Group(members)]))])));
    assert_eq!(code, "ambiguous_source");
    assert!(message.contains("`ImageData`"), "{message}");
}

/// Dimensions may carry their numbers as names, in any order.
#[test]
fn numbered_dimensions() {
    let Tag::Group(mut members) = small().to_tag() else { unreachable!() };
    let Tag::Group(data) = &mut members[0].1 else { unreachable!() };
    let numbered = |names: [&str; 4]| {
        let mut sizes: Vec<(&str, Tag)> = names.into_iter().zip([3, 2, 2, 1].map(|d| DM4.u32(d))).collect();
        sizes.reverse();
        group(sizes)
    };
    for (names, ok) in
        [(["1", "2", "3", "4"], true), (["1", "2", "3", "x"], false), (["1", "2", "3", "3"], false)]
    {
        data.iter_mut().find(|(n, _)| n == "Dimensions").unwrap().1 = numbered(names);
        let mut members = vec![("ImageData".to_owned(), Tag::Group(data.clone()))];
        members.push(("Name".to_owned(), DM4.text("numbered")));
        let document = DM4.document(&group(vec![("ImageList", list(vec![Tag::Group(members)]))]));
        if ok {
            opens(&document);
        } else {
            assert_eq!(refused(&document).0, "malformed_header", "{names:?}");
        }
    }
}

/// Cut at every byte: an error with a code, never a panic, never an acquisition that is not whole.
#[test]
fn cut_short_at_every_byte() {
    let file = Written::new();
    for version in [3, 4] {
        let mut image = small().tag(&["Acquisition", "Device", "Source Model"], DM4.text("K3"));
        image.style.version = version;
        let document = image.document();
        let mut codes = std::collections::BTreeSet::new();
        for end in 0..document.len() {
            // What follows the root group is not needed.
            if end >= document.len() - 8 && version == 4 || end >= document.len() - 4 {
                open(&file.write(&document[..end]));
                continue;
            }
            let error = refusal(&file.write(&document[..end]));
            assert!(error.message().contains("scan.dm4"), "{error}");
            codes.insert(error.code());
        }
        assert_eq!(Vec::from_iter(codes), ["length_mismatch", "unknown_format"]);
        // The same with a root length that does not give it away.
        let word = if version == 4 { 4..12 } else { 4..8 };
        let mut codes = std::collections::BTreeSet::new();
        for end in 30..document.len() - 8 {
            let mut cut = document[..end].to_vec();
            cut[word.clone()].fill(0);
            codes.insert(refusal(&file.write(&cut)).code());
        }
        assert_eq!(Vec::from_iter(codes), ["malformed_header"]);
    }
}

/// Other values of every byte are refused or described; a file that opens gives all its frames.
#[test]
fn one_changed_byte_never_panics() {
    let file = Written::new();
    let document = small().document();
    let mut opened = 0;
    for at in 0..document.len() {
        let mut changed = document.clone();
        for value in (0..=255).step_by(5) {
            changed[at] = value;
            stempack_sources::fuzzing::dm(&changed);
        }
        changed[at] = document[at] ^ 1;
        if let Ok(source) =
            stempack_sources::open(&file.write(&changed), &stempack_sources::OpenOptions::default())
        {
            read(&*source, 0, source.acquisition().frame_count).unwrap();
            opened += 1;
        }
    }
    assert!(opened > 0);
}

#[test]
fn structures_made_to_hurt() {
    let with = |tag: Tag| DM4.document(&group(vec![("ImageList", list(vec![small().to_tag()])), ("x", tag)]));
    let deep = |levels: usize| (0..levels).fold(DM4.u32(1), |inner, _| group(vec![("g", inner)]));
    opens(&with(deep(62)));
    let (code, message) = refused(&with(deep(64)));
    assert_eq!(code, "too_large");
    assert!(message.contains("deeper"), "{message}");
    refused(&with(deep(5000)));
    let claims = [
        // A group of more entries than there are bytes, and of more than are taken at all.
        (Tag::Raw(20, [[0, 0].as_slice(), &1000u64.to_be_bytes()].concat()), "malformed_header"),
        (Tag::Raw(20, [[0, 0].as_slice(), &u64::MAX.to_be_bytes()].concat()), "too_large"),
        // Lengths beyond the entry, and beyond what can be counted.
        (Tag::Data(vec![20, 10, 1000], vec![0; 10]), "malformed_header"),
        (Tag::Data(vec![20, 7, u64::MAX], vec![0; 10]), "malformed_header"),
        (Tag::Data(vec![18, u64::MAX], vec![]), "malformed_header"),
        (Tag::Data(vec![20, 15, 0, 1, 0, 7, u64::MAX / 4], vec![]), "malformed_header"),
        (Tag::Data(vec![7], vec![0; 7]), "malformed_header"),
        // Types described by no word or too many, and data without their mark.
        (Tag::Data(vec![], vec![]), "malformed_header"),
        (Tag::Data(vec![2; 4096], vec![]), "malformed_header"),
        (Tag::Raw(21, b"%%%$\0\0\0\0".to_vec()), "malformed_header"),
        (Tag::Raw(21, vec![]), "malformed_header"),
    ];
    for (tag, code) in claims {
        let (found, message) = refused(&with(tag));
        assert_eq!(found, code, "{message}");
        assert!(message.contains("`x`"), "{message}");
    }
}

#[test]
fn what_is_not_known_is_passed_over() {
    let with = |tag: Tag| {
        DM4.document(&group(vec![("a", DM4.u32(1)), ("x", tag), ("ImageList", list(vec![small().to_tag()]))]))
    };
    opens(&with(Tag::Raw(22, vec![1, 2, 3])));
    opens(&with(Tag::Data(vec![99, 3], vec![1, 2, 3])));
    opens(&with(Tag::Data(vec![15, 0, 3, 0, 2], vec![1, 2, 3])));
    // Bytes left over inside an entry.
    opens(&with(Tag::Data(vec![3], vec![0; 9])));
    let mut trailing = small().document();
    trailing.extend([7; 100]);
    opens(&trailing);
    // DM3 does not say how long an entry is.
    let mut image = small();
    image.style.version = 3;
    let style = image.style;
    for tag in [Tag::Raw(22, vec![1]), Tag::Data(vec![99, 3], vec![1, 2, 3])] {
        let document = style.document(&group(vec![
            ("a", style.u32(1)),
            ("x", tag),
            ("ImageList", list(vec![image.to_tag()])),
        ]));
        assert_eq!(refused(&document).0, "malformed_header");
    }
}

#[test]
fn the_header() {
    let document = small().document();
    let changed = |at: usize, value: u8| {
        let mut bytes = document.clone();
        bytes[at] = value;
        bytes
    };
    for other in [changed(3, 5), changed(3, 2), changed(0, 1), changed(15, 2), changed(16, 9), changed(26, 1)]
    {
        assert_eq!(refused(&other).0, "unknown_format");
    }
    // Longer than the file: it was cut. Shorter than the tags: a remark.
    let (code, message) = refused(&changed(4, 1));
    assert_eq!(code, "length_mismatch");
    assert!(message.contains(&document.len().to_string()), "{message}");
    let file = Written::new();
    let mut short = document.clone();
    short[4..12].fill(0);
    let source = open(&file.write(&short));
    assert!(source.acquisition().warnings.iter().any(|w| w.code == "root_length"));
    // Four bytes more, as some writers count.
    let mut four = document.clone();
    let declared = document.len() as u64 - 24 + 4;
    four[4..12].copy_from_slice(&declared.to_be_bytes());
    opens(&four);
}
