//! What supplier READMEs say of background subtraction: the rows of the written format facts.

use crate::common::*;
use crate::empad::{G1, G2, g2};
use std::path::{Path, PathBuf};
use stempack_model::{BackgroundSubtraction, MemberRole};

/// A folder deep enough that the folders above it are looked into as well.
struct Tree(tempfile::TempDir);

impl Tree {
    fn new() -> Self {
        let tree = Tree(tempfile::tempdir().unwrap());
        std::fs::create_dir_all(tree.at("acquisition")).unwrap();
        tree.raw("scan_x3_y2.raw");
        tree.raw("acquisition/scan_x3_y2.raw");
        tree
    }
    fn at(&self, name: &str) -> PathBuf {
        self.0.path().canonicalize().unwrap().join("a/b").join(name)
    }
    fn raw(&self, name: &str) -> PathBuf {
        std::fs::File::create(self.at(name)).unwrap().set_len(6 * G1).unwrap();
        self.at(name)
    }
    fn write(&self, name: &str, text: &str) {
        std::fs::create_dir_all(self.at(name).parent().unwrap()).unwrap();
        std::fs::write(self.at(name), text).unwrap();
    }
}

fn said(raw: &Path) -> Option<(String, String)> {
    match open(raw).acquisition().background.clone() {
        BackgroundSubtraction::Unknown => None,
        BackgroundSubtraction::AlreadySubtracted { file, sentence } => Some((file, sentence)),
    }
}

/// The sentence that a README beside the data gives.
fn beside(readme: &str) -> Option<String> {
    let tree = Tree::new();
    tree.write("README.txt", readme);
    let found = said(&tree.at("scan_x3_y2.raw"));
    assert!(found.iter().all(|(file, _)| file == "README.txt"));
    found.map(|(_, sentence)| sentence)
}

const RAW: &str = "scan_x3_y2.raw\n";

#[test]
fn an_exact_indented_sentence_below_the_name_of_the_data() {
    for sentence in
        ["Already background subtracted", "already background-subtracted", "ALREADY  Background-Corrected"]
    {
        assert_eq!(beside(&format!("{RAW}\t{sentence}.\n")).as_deref(), Some(sentence));
        assert_eq!(beside(&format!("{RAW}\n \n  Floats; {sentence}! More.\r\n")).as_deref(), Some(sentence));
    }
    // The last statement of a file is the one that is shown.
    let twice = format!("{RAW}\tAlready background subtracted.\n\tAlready background corrected.\n");
    assert_eq!(beside(&twice).as_deref(), Some("Already background corrected"));
}

#[test]
fn anything_else_is_unknown() {
    for readme in [
        "",
        "scan_x3_y2.raw\nAlready background subtracted.\n",
        "scan_x3_y2.raw\n\tExported, already background-subtracted.\n",
        "scan_x3_y2.raw\n\tData is background subtracted.\n",
        "scan_x3_y2.raw\n\tExported by v1.2 already background subtracted.\n",
        "\tAlready background subtracted.\n",
        "background_subtracted\n\tAlready background subtracted.\n",
        "scan_x3_y2.raw\n\tOriginal data.\nmissing_file.raw\n\tAlready background subtracted.\n",
        "../\n\tAlready background subtracted.\n",
        "../b/scan_x3_y2.raw\n\tAlready background subtracted.\n",
        ".\n\tAlready background subtracted.\n",
        "./\n\tAlready background subtracted.\n",
        "acquisition/\n\tAlready background subtracted.\n",
        "acquisition/scan_x3_y2.raw\n\tAlready background subtracted.\n",
    ] {
        assert_eq!(beside(readme), None, "{readme:?}");
    }
    let tree = Tree::new();
    let absolute = tree.at("scan_x3_y2.raw").display().to_string();
    tree.write("README", &format!("{absolute}\n\tAlready background subtracted.\n"));
    assert_eq!(said(&tree.at("scan_x3_y2.raw")), None, "an absolute heading");
}

#[test]
fn doubt_anywhere_leaves_everything_unknown() {
    let yes = "\tAlready background subtracted.\n";
    for doubt in [
        "Not already background subtracted",
        "Unsure whether already background subtracted",
        "Not background corrected",
        "No background subtraction",
        "never background-corrected",
        "may be background subtracted",
        "Already background subtracted, maybe",
        "background subtracted unless noted",
        "background subtracted if dark",
    ] {
        assert_eq!(beside(&format!("{RAW}\t{doubt}.\n")), None, "{doubt}");
        assert_eq!(beside(&format!("{RAW}{yes}\t{doubt}.\n")), None, "{doubt}");
        assert_eq!(beside(&format!("{RAW}\t{doubt}.\n{yes}")), None, "{doubt}");
    }
    // Of other data, or of other things, it is no doubt.
    assert!(beside(&format!("acquisition\n\tNot background corrected.\n{RAW}{yes}")).is_some());
    assert!(beside(&format!("{RAW}\tNot cropped.\n{yes}")).is_some());
    assert!(beside(&format!("{RAW}\tNote: notation unchanged; already background subtracted.\n")).is_some());
    // In one folder a statement, in another the opposite.
    let tree = Tree::new();
    let raw = tree.at("acquisition/scan_x3_y2.raw");
    tree.write("acquisition/README.md", &format!("{RAW}{yes}"));
    assert!(said(&raw).is_some());
    tree.write("../README", "b\\acquisition\n\tNot background corrected.\n");
    assert_eq!(said(&raw), None);
}

#[test]
fn a_folder_speaks_for_what_it_contains_and_the_nearest_wins() {
    let tree = Tree::new();
    let raw = tree.at("acquisition/scan_x3_y2.raw");
    tree.write("README.md", "acquisition\\\n\tExported by the lab; already background-subtracted.\n");
    let found = |file: &str, sentence: &str| Some((file.to_owned(), sentence.to_owned()));
    assert_eq!(said(&raw), found("README.md", "already background-subtracted"));
    tree.write("acquisition/README", "scan_x3_y2.raw\n  Already background corrected\n");
    assert_eq!(said(&raw), found("README", "Already background corrected"));
    // Several in one folder: in the order of their names in the contract.
    tree.write("acquisition/readme.txt", "scan_x3_y2.raw\n  already background subtracted\n");
    assert_eq!(said(&raw), found("readme.txt", "already background subtracted"));
    // Other names are no READMEs.
    assert_eq!(said(&tree.at("scan_x3_y2.raw")), None);
    tree.write("notes.txt", "scan_x3_y2.raw\n  already background subtracted\n");
    assert_eq!(said(&tree.at("scan_x3_y2.raw")), None);
}

#[test]
fn the_search_ends_after_six_folders_and_below_short_paths() {
    let tree = Tree::new();
    for (deep, found) in [("1/2/3/4/5", true), ("1/2/3/4/5/6", false)] {
        std::fs::create_dir_all(tree.at(deep)).unwrap();
        tree.raw(&format!("{deep}/s.raw"));
        tree.write("README", &format!("{deep}/s.raw\n\talready background subtracted\n"));
        assert_eq!(said(&tree.at(&format!("{deep}/s.raw"))).is_some(), found, "{deep}");
    }
    std::fs::remove_file(tree.at("README")).unwrap();
    // Of a path with at most three parts only the data's own folder is looked into.
    let root = tree.at("../..").canonicalize().unwrap();
    if root.components().count() == 3 {
        std::fs::write(
            root.join("README"),
            "a\n\talready background subtracted\nr.raw\n\talready background subtracted\n",
        )
        .unwrap();
        assert_eq!(said(&tree.at("scan_x3_y2.raw")), None);
        std::fs::copy(tree.at("scan_x3_y2.raw"), root.join("r.raw")).unwrap();
        assert!(said(&root.join("r.raw")).is_some());
    }
}

#[test]
fn unreadable_readmes_say_nothing() {
    let tree = Tree::new();
    let raw = tree.at("scan_x3_y2.raw");
    let good = format!("{RAW}\tAlready background subtracted.\n");
    let padded = |bytes: usize| format!("{good}{}", " ".repeat(bytes - good.len()));
    tree.write("README", &padded(65_536));
    assert!(said(&raw).is_some());
    tree.write("README", &padded(65_537));
    assert_eq!(said(&raw), None);
    std::fs::write(tree.at("README"), [good.as_bytes(), b"\xff"].concat()).unwrap();
    assert_eq!(said(&raw), None);
    std::fs::remove_file(tree.at("README")).unwrap();
    std::fs::create_dir(tree.at("README")).unwrap();
    assert_eq!(said(&raw), None);
}

#[test]
fn the_xml_may_be_what_is_named_and_links_lead_to_the_data() {
    let tree = Tree::new();
    tree.write("a.xml", "<r><raw_file filename=\"scan_x3_y2.raw\"/></r>");
    tree.write("README", "a.xml\n\talready background subtracted\n");
    assert!(said(&tree.at("scan_x3_y2.raw")).is_some());
    assert!(said(&tree.at("a.xml")).is_some());
    // Data behind a link: the README beside the data counts, not the one beside the link.
    tree.write("links/README", "l.raw\n\tnot background subtracted\n");
    std::os::unix::fs::symlink(tree.at("scan_x3_y2.raw"), tree.at("links/l.raw")).unwrap();
    assert!(said(&tree.at("links/l.raw")).is_some());
    // A heading that is a link out of the README's folder names nothing.
    std::os::unix::fs::symlink(tree.at("scan_x3_y2.raw"), tree.at("acquisition/out.raw")).unwrap();
    tree.write("README", "");
    tree.write("acquisition/README", "out.raw\n\talready background subtracted\n");
    assert_eq!(said(&tree.at("scan_x3_y2.raw")), None);
}

#[test]
fn the_readme_belongs_to_the_snapshot() {
    let tree = Tree::new();
    let readme = format!("{RAW}\tAlready background subtracted.\n");
    tree.write("README", &readme);
    let source = open(&tree.at("scan_x3_y2.raw"));
    let a = source.acquisition();
    let member = a.members.last().unwrap();
    assert_eq!(
        (member.path.clone(), member.role, member.bytes),
        (tree.at("README"), MemberRole::Companion, readme.len() as u64)
    );
    assert_eq!(a.signal_unit, None);
    source.check_unchanged().unwrap();
    std::thread::sleep(std::time::Duration::from_millis(30));
    tree.write("README", &readme);
    let error = source.check_unchanged().unwrap_err();
    assert_eq!((error.code(), error.message().contains("README")), ("source_changed", true));
    // One that says nothing may change as it likes.
    tree.write("README", "nothing\n");
    let source = open(&tree.at("scan_x3_y2.raw"));
    tree.write("README", "nothing at all\n");
    source.check_unchanged().unwrap();
}

#[test]
fn a_readme_unlocks_no_encoded_words() {
    let tree = Tree::new();
    let offsets = "<pdcu><SerialNumber>1</SerialNumber></pdcu><grabber><avg_scan_even_offset>1</avg_scan_even_offset>\
                   <avg_scan_odd_offset>1</avg_scan_odd_offset></grabber>";
    tree.write("a.xml", &g2("r.raw", "1,1", offsets));
    std::fs::write(tree.at("r.raw"), 0x4000_1f40u32.to_le_bytes().repeat(G2 as usize / 4)).unwrap();
    tree.write("README", "r.raw\n\tAlready background corrected.\n");
    assert_eq!(refusal(&tree.at("a.xml")).code(), "encoded_words");
    std::fs::write(tree.at("r.raw"), 0x3f80_0000u32.to_le_bytes().repeat(G2 as usize / 4)).unwrap();
    assert!(said(&tree.at("a.xml")).is_some());
}
