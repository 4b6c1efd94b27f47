//! Every file of the corpus that is meant to decode does, to the array beside it; every damaged body is refused.

use serde_json::Value;
use std::path::Path;
use stempack_codecs::qem::columns::{Chunk, Spatial, encode, spatial_index};
use stempack_codecs::qem::lanes::LaneChunk;
use stempack_codecs::qem::xor::XorChunk;
use stempack_model::{DetectorShape, Result, Task};
use stempack_testkit::{corpus, expectations};

/// Header and body, without any of the checks that belong to the container.
struct File {
    head: Value,
    body: Vec<u8>,
}

impl File {
    fn read(path: &Path) -> File {
        let raw = std::fs::read(path).unwrap();
        let end = 56 + u64::from_le_bytes(raw[8..16].try_into().unwrap()) as usize;
        File { head: serde_json::from_slice(&raw[56..end]).unwrap(), body: raw[end..].to_vec() }
    }

    fn number(&self, path: &str) -> usize {
        number(self.head.pointer(path).unwrap())
    }

    fn pixels(&self) -> usize {
        self.number("/shape/2") * self.number("/shape/3")
    }

    fn chunks(&self) -> &[Value] {
        self.head["chunks"].as_array().unwrap()
    }

    fn array(&self, chunk: &Value, index: usize, size: usize) -> &[u8] {
        let spec = &chunk["arrays"][index];
        &self.body[number(&spec["offset"])..][..number(&spec["count"]) * size]
    }

    fn part(&self, chunk: &Value, name: &str) -> &[u8] {
        let (at, len) = (number(&chunk[format!("{name}_offset")]), number(&chunk[format!("{name}_bytes")]));
        &self.body[at..at + len]
    }

    fn valid(&self) -> Vec<bool> {
        let hex = self.head["valid"].as_str().unwrap();
        let bits = |c: u8| (c as char).to_digit(16).unwrap();
        (0..self.pixels()).map(|p| bits(hex.as_bytes()[p / 4]) >> (3 - p % 4) & 1 == 1).collect()
    }

    fn detector(&self) -> DetectorShape {
        DetectorShape::new(self.number("/shape/2") as u64, self.number("/shape/3") as u64).unwrap()
    }
}

fn number(value: &Value) -> usize {
    usize::try_from(value.as_u64().unwrap()).unwrap()
}

/// The samples of a `.npy`: what follows its header.
fn npy_bytes(path: &Path) -> Vec<u8> {
    let raw = std::fs::read(path).unwrap();
    raw[10 + usize::from(u16::from_le_bytes([raw[8], raw[9]]))..].to_vec()
}

fn integer_chunk<'a>(file: &'a File, chunk: &Value) -> Result<Chunk<'a>> {
    let max = if file.head["dtype"] == "uint8" { 255 } else { u16::MAX };
    Chunk::new(
        number(&chunk["scans"]),
        file.pixels(),
        max,
        file.array(chunk, 0, 1),
        file.array(chunk, 1, 4),
        file.array(chunk, 2, 1),
    )
}

/// All samples as little-endian bytes of the file's own type.
fn decode(file: &File) -> Result<Vec<u8>> {
    let task = Task::new();
    let mut all = Vec::new();
    for chunk in file.chunks() {
        let scans = number(&chunk["scans"]);
        let samples = scans * file.pixels();
        match file.head["codec"].as_str().unwrap() {
            "float32-bit-lanes-rans-v1" => {
                let (payload, offsets) = (file.part(chunk, "payload"), file.part(chunk, "offset"));
                let lanes =
                    LaneChunk::new(scans, file.pixels(), payload, offsets, file.part(chunk, "model"))?;
                let mut out = vec![0f32; samples];
                lanes.decode(0..scans, &mut out, &task)?;
                let mut column = vec![0f32; scans];
                for pixel in (0..file.pixels()).step_by(7) {
                    lanes.decode_pixel(pixel, &mut column)?;
                    let expected = out[pixel..].iter().step_by(file.pixels()).map(|v| v.to_bits());
                    assert!(column.iter().map(|v| v.to_bits()).eq(expected));
                }
                all.extend(out.iter().flat_map(|v| v.to_le_bytes()));
            }
            "empad-xor-row-packed-v1" => {
                let rows = XorChunk::new(scans, file.part(chunk, "payload"), file.part(chunk, "descriptor"))?;
                let mut out = vec![0f32; samples];
                rows.decode(0..scans, &mut out, &task)?;
                all.extend(out.iter().flat_map(|v| v.to_le_bytes()));
            }
            _ if file.head["dtype"] == "uint8" => {
                let mut out = vec![0u8; samples];
                integer_chunk(file, chunk)?.decode(0..scans, &mut out, &task)?;
                all.extend(out);
            }
            _ => {
                let mut out = vec![0u16; samples];
                integer_chunk(file, chunk)?.decode(0..scans, &mut out, &task)?;
                all.extend(out.iter().flat_map(|v| v.to_le_bytes()));
            }
        }
    }
    Ok(all)
}

/// Layout and sums of the spatial index, compared with the decoded counts.
fn check_index(file: &File, decoded: &[u8]) -> Result<()> {
    let frame = decoded.len() / (file.number("/shape/0") * file.number("/shape/1"));
    for chunk in file.chunks() {
        let (first, scans) = (number(&chunk["first"]), number(&chunk["scans"]));
        let spatial = Spatial::new(
            scans,
            file.detector(),
            file.array(chunk, 3, 4),
            file.array(chunk, 4, 8),
            file.array(chunk, 5, 1),
        )?;
        let frames = &decoded[first * frame..(first + scans) * frame];
        if file.head["dtype"] == "uint8" {
            spatial.compare(0, frames, &file.valid())?;
        } else {
            let frames: Vec<u16> = frames.as_chunks().0.iter().map(|&b| u16::from_le_bytes(b)).collect();
            spatial.compare(0, &frames, &file.valid())?;
        }
    }
    Ok(())
}

#[test]
fn accepted_files_decode_to_their_arrays() {
    let Some(root) = corpus("qem") else { return };
    let manifest = expectations(&root.join("manifest.json"));
    let entries = manifest["valid"].as_array().unwrap();
    assert!(entries.len() >= 27);
    for entry in entries {
        let name = entry["name"].as_str().unwrap();
        let path = root.join(entry["file"].as_str().unwrap());
        let file = File::read(&path);
        let decoded = decode(&file).unwrap_or_else(|e| panic!("{name}: {e}"));
        let truth = match file.head["codec"].as_str().unwrap() {
            "scaled-uint16-column-rans-v1" => path.with_extension("codes.npy"),
            _ => root.join(entry["npy"].as_str().unwrap()),
        };
        assert!(decoded == npy_bytes(&truth), "{name}: other samples");
        if file.head.get("valid").is_some() {
            check_index(&file, &decoded).unwrap_or_else(|e| panic!("{name}: {e}"));
            reencode(&file, &decoded, name);
        }
    }
}

/// What we write for the same counts decodes to them, is never longer than literal, and has the same index when the
/// other writer used the least widths.
fn reencode(file: &File, decoded: &[u8], name: &str) {
    let width = if file.head["dtype"] == "uint8" { 1 } else { 2 };
    let counts: Vec<u16> = decoded
        .chunks_exact(width)
        .map(|b| u16::from(b[0]) | b.get(1).map_or(0, |&high| u16::from(high) << 8))
        .collect();
    let pixels = file.pixels();
    for chunk in file.chunks() {
        let (first, scans) = (number(&chunk["first"]), number(&chunk["scans"]));
        let frames = &counts[first * pixels..(first + scans) * pixels];
        let ours = encode(frames, pixels, &Task::new()).unwrap();
        assert!(
            ours.payload.len() <= file.array(chunk, 0, 1).len() + pixels,
            "{name}: longer than the other"
        );
        let offsets: Vec<u8> = ours.offsets.iter().flat_map(|v| v.to_le_bytes()).collect();
        let view = Chunk::new(scans, pixels, u16::MAX, &ours.payload, &offsets, &ours.selectors).unwrap();
        let mut back = vec![0u16; frames.len()];
        view.decode(0..scans, &mut back, &Task::new()).unwrap();
        assert!(back == frames, "{name}: our streams decode to other counts");
        let index = spatial_index(frames, file.detector(), &file.valid());
        if index.widths == file.array(chunk, 5, 1) {
            let words: Vec<u8> = index.words.iter().flat_map(|v| v.to_le_bytes()).collect();
            let starts: Vec<u8> = index.offsets.iter().flat_map(|v| v.to_le_bytes()).collect();
            assert!(words == file.array(chunk, 3, 4) && starts == file.array(chunk, 4, 8), "{name}: index");
        } else {
            assert_eq!(name, "u16-wide-index");
        }
    }
}

#[test]
fn damaged_bodies_are_refused() {
    let Some(root) = corpus("qem") else { return };
    let manifest = expectations(&root.join("manifest.json"));
    let mut seen = 0;
    for entry in manifest["malformed"].as_array().unwrap() {
        let name = entry["name"].as_str().unwrap();
        let code = match name.split_once('-').unwrap() {
            ("off", _) | ("f32", "offset-decreasing" | "offset-over") => "qem_stream_offsets",
            ("sel", _) | ("f32", "model-64") => "qem_selector",
            ("sparse", "odd-length") | ("const" | "zero" | "literal", _) => "qem_stream_length",
            ("f32", "model-literal-for-short" | "lane-longer-than-literal") => "qem_stream_length",
            ("rans", "empty") => "qem_stream_length",
            ("sparse", _) => "qem_sparse_positions",
            ("rans", _) => "qem_entropy",
            ("u8", _) => "qem_value_range",
            ("f32", "offset-bytes") | ("xor", "payload-6") => "qem_array_length",
            ("f32", "chunk-513") => "out_of_range",
            ("xor", "width-33" | "shift-33" | "word-offset" | "width-uncovered") => "qem_xor_descriptor",
            ("idx", "sum-wrong") => "qem_spatial_sum",
            ("idx", _) => "qem_spatial_layout",
            _ => continue,
        };
        seen += 1;
        let file = File::read(&root.join(entry["file"].as_str().unwrap()));
        let result = decode(&file);
        let error = if name.starts_with("idx") {
            check_index(&file, &result.unwrap_or_else(|e| panic!("{name}: {e}"))).unwrap_err()
        } else {
            result.err().unwrap_or_else(|| panic!("{name} was accepted: {}", entry["fault"]))
        };
        assert_eq!(error.code(), code, "{name}: {error}");
    }
    assert!(seen >= 44, "{seen} cases");
}
