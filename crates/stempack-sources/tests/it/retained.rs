//! What is kept of a file without interpretation, and under which names; flags of what is interpreted.

use crate::common::open;
use crate::writer::{Companion, Folder, groups, numbers_attribute, scalar, text, text_attribute};
use hdf5_metno::types::{FixedAscii, VarLenUnicode};
use std::collections::BTreeMap;
use stempack_model::Quantity;

fn retained(folder: &Folder) -> BTreeMap<String, String> {
    let source = open(&folder.at("run_master.h5"));
    source.acquisition().retained.iter().cloned().collect()
}

#[test]
fn names_and_values_follow_the_rules() {
    let folder = Folder::new();
    let file = folder.run(6);
    let root = file.group("/").unwrap();
    text_attribute(&root, "creator", "root attributes are left out");
    // Numbers: one to sixteen of them, with their unit after a blank.
    scalar(&file, "/m/whole", 300_000.0f64, Some("eV"));
    scalar(&file, "/m/small", 3.990_588_235_294_118e-5f64, None);
    scalar(&file, "/m/negative", -7i64, Some(""));
    scalar(&file, "/m/large", u64::MAX, None);
    let array = |name: &str, values: &[f64]| {
        let dataset = groups(&file, "/m").new_dataset::<f64>().shape([values.len()]).create(name).unwrap();
        dataset.write_raw(values).unwrap();
        dataset
    };
    text_attribute(&array("offset", &[0.0, 0.0, 0.5]), "units", "m");
    array("sixteen", &[1.0; 16]);
    text_attribute(&array("seventeen", &[1.0; 17]), "note", "its attributes are kept");
    // Texts: padding of fixed ones is no text, and a text of nothing is nothing.
    let fixed = |name: &str, value: &[u8]| {
        let dataset = groups(&file, "/m").new_dataset::<FixedAscii<8>>().create(name).unwrap();
        dataset.write_scalar(&FixedAscii::<8>::from_ascii(value).unwrap()).unwrap();
    };
    fixed("padded", b"bslz4  ");
    fixed("blank", b"   ");
    text(&file, "/m/kept", "as it stands ");
    let two = groups(&file, "/m").new_dataset::<VarLenUnicode>().shape([2]).create("texts").unwrap();
    two.write_raw(&["a".parse::<VarLenUnicode>().unwrap(), "b".parse().unwrap()]).unwrap();
    // Attributes of groups and datasets; `units` never under a name of its own.
    numbers_attribute(&groups(&file, "/m"), "vector", &[-1, 0, 0]);
    text_attribute(&groups(&file, "/m"), "units", "of a group");
    // Each object once, by hard links alone.
    groups(&file, "/m").link_hard("/m/whole", "zz_again").unwrap();
    groups(&file, "/m").link_soft("/m/whole", "soft").unwrap();
    groups(&file, "/m").link_external("run_data_000001.h5", "/entry", "elsewhere").unwrap();
    // Not the data, and of a mask only what is said about it.
    text(&file, "/entry/data/below", "left out");
    numbers_attribute(&groups(&file, "/entry/data"), "scan_shape", &[2, 3]);
    let mask = groups(&file, "/entry/instrument/detector/detectorSpecific")
        .new_dataset::<u32>()
        .shape([2, 3])
        .create("pixel_mask")
        .unwrap();
    mask.write_raw(&[0u32; 6]).unwrap();
    text_attribute(&mask, "made", "at night");
    drop((mask, two, root, file));

    let expected = [
        ("entry/instrument/detector/detectorSpecific/pixel_mask@made", "at night"),
        ("m/kept", "as it stands "),
        ("m/large", "18446744073709551615"),
        ("m/negative", "-7"),
        ("m/offset", "0, 0, 0.5 m"),
        ("m/padded", "bslz4"),
        ("m/seventeen@note", "its attributes are kept"),
        ("m/sixteen", "1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1"),
        // The shortest decimal that reads back as the same number; 17 digits end in …41178.
        ("m/small", "3.990588235294118e-5"),
        ("m/whole", "300000 eV"),
        ("m@vector", "-1, 0, 0"),
    ];
    let expected = expected.map(|(k, v)| (k.to_owned(), v.to_owned()));
    assert_eq!(retained(&folder), BTreeMap::from(expected));
}

/// Each file has a bound of its own, and interpreted fields have room in it whatever they are called.
#[test]
fn a_companion_has_its_own_hundred() {
    let folder = Folder::new();
    let file = folder.run(6);
    let companion = folder.file("run_em_metadata.h5");
    Companion::default().write(&companion);
    for i in 0..120 {
        scalar(&file, &format!("/a/master_{i:03}"), i, None);
        scalar(&companion, &format!("/a/companion_{i:03}"), i, None);
    }
    drop((file, companion));
    let source = open(&folder.at("run_master.h5"));
    let a = source.acquisition();
    let of = |part: &str| a.retained.iter().filter(|(key, _)| key.contains(part)).count();
    // The companion's block has seven fields, all of them interpreted.
    assert_eq!((of("a/master_"), of("a/companion_"), of("electron_microscope/")), (100, 93, 7));
    assert_eq!(a.retained_left_out, 20 + 27);
}

#[test]
fn unusual_values_are_kept_and_flagged_whatever_the_quantity() {
    let folder = Folder::new();
    let file = folder.run(6);
    scalar(&file, "/entry/instrument/detector/incident_energy", 300.0f64, Some("eV"));
    for (name, value, unit) in
        [("detector_distance", 0.1, "mm"), ("y_pixel_size", 75.0, "um"), ("x_pixel_size", 1.0, "um")]
    {
        scalar(&file, &format!("/entry/instrument/detector/{name}"), value, Some(unit));
    }
    drop(file);
    let source = open(&folder.at("run_master.h5"));
    let found = &source.acquisition().quantities;
    let flagged: Vec<_> = found.iter().map(|(q, r)| (q.as_str(), r.flag.as_deref())).collect();
    let expected = [
        ("detector_angle_row", Some("outside the usual range of 0.0001 to 100 mrad")),
        ("detector_angle_col", None),
        ("beam_energy", Some("outside the usual range of 1 to 3000 keV")),
    ];
    assert_eq!(flagged, expected);
    assert_eq!(found[&Quantity::BeamEnergy].value, 0.3);
}
