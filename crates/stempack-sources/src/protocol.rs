//! Which acquisitions conform to layout protocol 1.1, and to which of its layouts.
//!
//! A reader's identifier, or the `sourceFormatVersion` that it reports of one file, stands for a contract: only those of
//! the protocol are listed, so an extension is never taken for it. `docs/formats/native-layout-protocol.md` states the protocol.

use stempack_model::Acquisition;

/// The version of the protocol that is followed.
pub const LAYOUT_PROTOCOL: &str = "1.1";

/// Contract, display label where one reader serves several layouts, and the layout's name in the protocol.
const LAYOUTS: &[(&str, Option<&str>, &str)] = &[
    ("arina-hdf5/v1", Some("ARINA HDF5"), "ARINA HDF5"),
    // A variant of the same acquisition, told apart by what lies beside it; not a version of a file format.
    ("arina-hdf5/v1", Some("ARINA HDF5 + NXem metadata"), "ARINA HDF5 + NXem"),
    ("empad-g1-float32-xml/v1", None, "EMPAD-G1 XML/RAW"),
    ("empad-g2-float32-xml/v1", None, "EMPAD-G2 processed XML/RAW"),
    ("emd1-contiguous-float32/v1", None, "EMD 1 HDF5 datacube"),
    ("velox-scalar-image/v1", None, "Velox EMD scalar image"),
    ("digitalmicrograph/native-counts-v1", Some("K3 DM4"), "K3 DM4"),
    (
        "digitalmicrograph/native-counts-v1",
        Some("DigitalMicrograph DM4"),
        "DigitalMicrograph DM4, other/unknown camera",
    ),
];

/// The layout of an acquisition in the protocol; `None` when its reader goes beyond.
pub fn layout_of(acquisition: &Acquisition) -> Option<&'static str> {
    // A reader that goes beyond the protocol says of each file whether it keeps to it.
    let kept = acquisition.provenance.get("sourceFormatVersion").map(String::as_str);
    let fits = |contract: &str, format: Option<&str>| {
        (acquisition.reader == contract || kept == Some(contract))
            && format.is_none_or(|format| acquisition.format == format)
    };
    LAYOUTS.iter().find(|(contract, format, _)| fits(contract, *format)).map(|l| l.2)
}

#[cfg(test)]
mod tests {
    use super::*;
    use stempack_model::{DetectorShape, SampleType};

    fn of(format: &str, reader: &str) -> Option<&'static str> {
        let detector = DetectorShape::new(2, 2).unwrap();
        let excluded = crate::exclusions::none(detector).unwrap();
        layout_of(&Acquisition::new(format, reader, 1, detector, SampleType::U8, excluded))
    }

    #[test]
    fn only_the_contracts_of_the_protocol_conform() {
        assert_eq!(of("ARINA HDF5", "arina-hdf5/v1"), Some("ARINA HDF5"));
        assert_eq!(of("ARINA HDF5 + NXem metadata", "arina-hdf5/v1"), Some("ARINA HDF5 + NXem"));
        assert_eq!(of("K3 DM4", "digitalmicrograph/native-counts-v1"), Some("K3 DM4"));
        assert_eq!(of("EMD 1 · HDF5 float32", "emd1-contiguous-float32/v1"), Some("EMD 1 HDF5 datacube"));
        assert_eq!(of("EMD 1 · HDF5 uint16", "emd1-datacube/v1"), None);
        assert_eq!(of("K3 DM4", "digitalmicrograph-dm4/v1"), None);
        assert_eq!(of("NumPy", "numpy/v1"), None);
        let detector = DetectorShape::new(2, 2).unwrap();
        let excluded = crate::exclusions::none(detector).unwrap();
        let reader = "digitalmicrograph-dm4/v1";
        let mut a = Acquisition::new("K3 DM4", reader, 1, detector, SampleType::U8, excluded);
        a.provenance.insert("sourceFormatVersion", "digitalmicrograph/native-counts-v1".to_owned());
        assert_eq!(layout_of(&a), Some("K3 DM4"), "a file within the protocol, by a reader that goes beyond");
    }

    /// The page states every layout that is reported, and the version.
    #[test]
    fn the_page_names_every_layout() {
        let page = include_str!("../../../docs/formats/native-layout-protocol.md");
        assert!(page.contains(&format!("layout protocol {LAYOUT_PROTOCOL}")));
        for (reader, _, layout) in LAYOUTS {
            assert!(page.contains(&format!("`{layout}`")), "{layout}");
            assert!(page.contains(&format!("`{reader}`")), "{reader}");
        }
    }
}
