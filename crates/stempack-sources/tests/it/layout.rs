//! Which files and datasets make an acquisition, and which arrangements are refused.

use crate::common::*;
use crate::writer::{Companion, Folder, groups, stack};
use std::os::unix::ffi::OsStrExt;
use stempack_model::{Detail, MemberRole};
use stempack_sources::OpenOptions;

pub(crate) fn first_values(path: &std::path::Path) -> Vec<u64> {
    let source = open(path);
    (0..source.acquisition().frame_count)
        .map(|f| read(&*source, f, 1).unwrap().as_ref().to_f64()[0] as u64)
        .collect()
}

#[test]
fn hard_stacks_soft_links_and_links_through_links() {
    let folder = Folder::new();
    let file = folder.file("own.h5");
    stack(&groups(&file, "/entry/data"), "data_000001", 2, 2, 3, 1);
    stack(&groups(&file, "/elsewhere"), "more", 1, 2, 3, 50);
    let data = groups(&file, "/entry/data");
    data.link_soft("/elsewhere/more", "data_000002").unwrap();
    // Another name of what is there already, and things that are no stacks.
    data.link_soft("data_000001", "data").unwrap();
    data.link_soft("/entry/nothing", "note").unwrap();
    data.new_dataset::<f64>().shape([4]).create("axis").unwrap();
    data.new_dataset::<f32>().shape([1, 2, 3]).create("gain").unwrap();
    data.create_group("more").unwrap();
    drop((data, file));
    assert_eq!(first_values(&folder.at("own.h5")), [1, 7, 50]);
    let source = open(&folder.at("own.h5"));
    assert_eq!(source.acquisition().members.len(), 1);
    assert_eq!(source.acquisition().members[0].role, MemberRole::Data);

    // A master beside it whose link passes through a link of that file.
    let master = folder.file("run_master.h5");
    groups(&master, "/entry/data").link_external("own.h5", "/entry/data/data_000002", "data_1").unwrap();
    drop(master);
    assert_eq!(first_values(&folder.at("run_master.h5")), [50]);
}

#[test]
fn every_missing_link_is_named() {
    let folder = Folder::new();
    folder.shard("run_data_000002.h5", 1, 2, 3, 0);
    let master =
        folder.master("run_master.h5", &["run_data_000001.h5", "run_data_000002.h5", "run_data_000003.h5"]);
    let data = groups(&master, "/entry/data");
    data.link_external("run_data_000002.h5", "/not/there", "data_000004").unwrap();
    data.link_external("other.h5", "/x", "notes").unwrap();
    drop((data, master));
    let error = refusal(&folder.at("run_master.h5"));
    assert_eq!(error.code(), "missing_member");
    for named in
        ["run_data_000001.h5", "run_data_000003.h5", "/not/there", "other.h5", "/entry/data/data_000004"]
    {
        assert!(error.message().contains(named), "{named}: {error}");
    }
    let Some(Detail::List(missing)) = detail(&error, "missing") else { panic!("no list") };
    assert!(missing.contains(&"run_data_000001.h5".to_owned()));
}

/// A member behind a symbolic link belongs to what lies where it leads to, whatever the link is called.
#[test]
fn one_member_behind_a_symbolic_link_finds_the_others() {
    let (real, links) = (Folder::new(), Folder::new());
    for (n, first) in [(1, 10), (2, 20), (3, 30)] {
        real.shard(&format!("run_data_{n:06}.h5"), 2, 2, 3, first);
    }
    drop(real.master(
        "run_master.h5",
        &[1, 2, 3].map(|n| format!("run_data_{n:06}.h5")).each_ref().map(|n| n.as_str()),
    ));
    Companion::default().write(&real.file("run_em_metadata.h5"));
    let expected = [10, 16, 20, 26, 30, 36];
    for member in ["run_master.h5", "run_data_000001.h5", "run_data_000003.h5", "run_em_metadata.h5"] {
        for name in [member, "today.h5", "today_master.h5", "today_data_000001.h5"] {
            let link = links.at(name);
            std::os::unix::fs::symlink(real.at(member), &link).unwrap();
            assert_eq!(first_values(&link), expected, "{name} → {member}");
            std::fs::remove_file(link).unwrap();
        }
    }
    // What lies beside the link comes first.
    std::os::unix::fs::symlink(real.at("run_master.h5"), links.at("run_master.h5")).unwrap();
    links.shard("run_data_000002.h5", 2, 2, 3, 70);
    assert_eq!(first_values(&links.at("run_master.h5")), [10, 16, 70, 76, 30, 36]);
    // Without any master: the shards where it leads to, unless there are more beside the link.
    std::fs::remove_file(real.at("run_master.h5")).unwrap();
    std::fs::remove_file(links.at("run_master.h5")).unwrap();
    std::fs::remove_file(links.at("run_data_000002.h5")).unwrap();
    let one = links.at("run_data_000001.h5");
    std::os::unix::fs::symlink(real.at("run_data_000001.h5"), &one).unwrap();
    assert_eq!(first_values(&one), expected);
    links.shard("run_data_000002.h5", 1, 2, 3, 71);
    assert_eq!(first_values(&one), expected, "not a part of it, mixed with something else");
    for (n, first) in [(3, 72), (4, 73)] {
        links.shard(&format!("run_data_{n:06}.h5"), 1, 2, 3, first);
    }
    assert_eq!(first_values(&one), [10, 16, 71, 72, 73]);
}

#[test]
fn links_out_of_the_folder_need_permission() {
    let folder = Folder::new();
    let inner = folder.at("inner");
    std::fs::create_dir(&inner).unwrap();
    folder.shard("outside.h5", 1, 2, 3, 9);
    let absolute = folder.at("outside.h5");
    for target in ["../outside.h5", std::str::from_utf8(absolute.as_os_str().as_bytes()).unwrap()] {
        let path = inner.join("run_master.h5");
        let master = hdf5_metno::File::create(&path).unwrap();
        groups(&master, "/entry/data").link_external(target, "/entry/data/data", "data_000001").unwrap();
        drop(master);
        let error = refusal(&path);
        assert_eq!(error.code(), "outside_link");
        assert!(error.message().contains(target));
        let permitted = OpenOptions { allow_outside_links: true, ..OpenOptions::default() };
        assert_eq!(open_with(&path, &permitted).acquisition().frame_count, 1);
    }
}

#[test]
fn the_same_stack_twice_is_refused() {
    for kind in ["external", "hard", "numbered soft"] {
        let folder = Folder::new();
        let file = folder.run(2);
        let data = groups(&file, "/entry/data");
        match kind {
            "external" => {
                data.link_external("./run_data_000001.h5", "/entry/data/data", "data_000002").unwrap();
            }
            "hard" => {
                stack(&groups(&file, "/own"), "s", 1, 2, 3, 0);
                data.link_hard("/own/s", "data_000002").unwrap();
                data.link_hard("/own/s", "data_000003").unwrap();
            }
            _ => data.link_soft("data_000001", "data_000002").unwrap(),
        }
        drop((data, file));
        let error = refusal(&folder.at("run_master.h5"));
        assert_eq!(error.code(), "ambiguous_source", "{kind}: {error}");
        assert!(error.message().contains("twice"), "{kind}: {error}");
    }
}

#[test]
fn stacks_that_nothing_orders_are_refused() {
    for names in [["data", "data_000001"], ["data_1", "data_01"], ["data_1", "raw_2"]] {
        let folder = Folder::new();
        let file = folder.file("run_master.h5");
        for name in names {
            stack(&groups(&file, "/entry/data"), name, 1, 2, 3, 0);
        }
        drop(file);
        assert_eq!(refusal(&folder.at("run_master.h5")).code(), "ambiguous_source", "{names:?}");
    }
}

#[test]
fn what_claims_to_be_a_stack_must_be_one() {
    let make = |build: &dyn Fn(&hdf5_metno::Group)| {
        let folder = Folder::new();
        let file = folder.file("run_master.h5");
        build(&groups(&file, "/entry/data"));
        drop(file);
        let error = refusal(&folder.at("run_master.h5"));
        assert!(error.message().contains("run_master.h5"), "{error}");
        (error.code(), error.message().to_owned())
    };
    let (code, message) = make(&|g| drop(g.new_dataset::<i16>().shape([1, 2, 3]).create("data").unwrap()));
    assert_eq!(code, "missing_chunk", "nothing was written: {message}");
    let written = |g: &hdf5_metno::Group, name: &str, shape: &[usize]| {
        let d = g.new_dataset::<i16>().shape(shape).create(name).unwrap();
        d.write_raw(&vec![1i16; shape.iter().product()]).unwrap();
    };
    let (code, message) = make(&|g| written(g, "data", &[1, 2, 3]));
    assert!(code == "unsupported_layout" && message.contains("signed"), "{message}");
    let (code, message) = make(&|g| {
        g.new_dataset::<u64>().shape([1, 2, 3]).create("data").unwrap().write_raw(&[1u64; 6]).unwrap();
    });
    assert!(code == "unsupported_layout" && message.contains("8 bytes"), "{message}");
    let (code, message) = make(&|g| {
        g.new_dataset::<u16>().shape([2, 3]).create("data_000001").unwrap().write_raw(&[1u16; 6]).unwrap();
    });
    assert!(code == "unsupported_layout" && message.contains("2 axes"), "{message}");
    let (code, _) = make(&|g| drop(g.create_group("data_000001").unwrap()));
    assert_eq!(code, "unsupported_layout");
    let (code, _) = make(&|_| {});
    assert_eq!(code, "unsupported_layout");
}

#[test]
fn shards_must_agree() {
    let folder = Folder::new();
    folder.shard("a.h5", 2, 2, 3, 0);
    folder.shard("b.h5", 2, 3, 2, 0);
    folder.master("run_master.h5", &["a.h5", "b.h5"]);
    let error = refusal(&folder.at("run_master.h5"));
    assert_eq!(error.code(), "inconsistent_members");
    assert!(error.message().contains("a.h5") && error.message().contains("b.h5"));
}

#[test]
fn without_a_master_the_shards_stand_for_themselves() {
    let folder = Folder::new();
    for n in 1..=3u16 {
        folder.shard(&format!("run_data_{n:06}.h5"), 1, 2, 3, n * 10);
    }
    assert_eq!(first_values(&folder.at("run_data_000002.h5")), [10, 20, 30]);
    std::fs::remove_file(folder.at("run_data_000002.h5")).unwrap();
    let error = refusal(&folder.at("run_data_000003.h5"));
    assert_eq!(error.code(), "missing_member");
    assert!(error.message().contains("run_data_000002.h5"));
    std::fs::remove_file(folder.at("run_data_000001.h5")).unwrap();
    assert!(refusal(&folder.at("run_data_000003.h5")).message().contains("run_data_000001.h5"));
}

#[test]
fn other_files_are_of_no_known_format() {
    let folder = Folder::new();
    drop(folder.file("empty.h5"));
    std::fs::write(folder.at("text.txt"), "hello").unwrap();
    for name in ["empty.h5", "text.txt"] {
        let error = refusal(&folder.at(name));
        assert_eq!(error.code(), "unknown_format");
        assert!(error.message().contains("/entry/data"), "{error}");
    }
    assert_eq!(refusal(folder.path()).code(), "unknown_format");
    assert_eq!(refusal(&folder.at("absent_master.h5")).code(), "io");
}
