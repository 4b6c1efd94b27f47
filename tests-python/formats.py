"""Writes a small acquisition in every format that is read, with h5py or byte by byte from the format's description.

Files larger than memory are made of holes, which take no room on disk.
"""
import pathlib
import struct

import h5py
import numpy as np


def arina(folder, frames, stem="scan", scan=None, shards=1):
    """A master, its shards (one frame a chunk, no filter) and, with `scan`, a companion that records the shape."""
    paths = []
    step = -(-len(frames) // shards)
    for number, first in enumerate(range(0, len(frames), step), 1):
        path = folder / f"{stem}_data_{number:06d}.h5"
        with h5py.File(path, "w") as file:
            part = frames[first : first + step]
            file.create_dataset("entry/data/data", data=part, chunks=(1, *part.shape[1:]))
        paths.append(path)
    master = folder / f"{stem}_master.h5"
    with h5py.File(master, "w") as file:
        data = file.create_group("entry/data")
        for number, path in enumerate(paths, 1):
            data[f"data_{number:06d}"] = h5py.ExternalLink(path.name, "/entry/data/data")
    paths.insert(0, master)
    if scan:
        paths.append(folder / f"{stem}_em_metadata.h5")
        with h5py.File(paths[-1], "w") as file:
            controller = file.create_group("electron_microscope/scan_controller")
            controller["scan_type"] = "regular"
            block = controller.create_group("regular_scan")
            block["n_pixels_y"], block["n_pixels_x"], block["n_frames"] = *scan, 1
            for key, step_nm in (("pixel_size_y", 0.05), ("pixel_size_x", 0.04)):
                block[key] = step_nm
                block[key].attrs["units"] = "nm"
    return paths


def empad(folder, frames, scan, generation=1, stem="scan"):
    """An XML and its RAW; the first generation puts two rows of footer under every frame."""
    raw = folder / f"{stem}.raw"
    footer = b"\x7f" * 1024 if generation == 1 else b""
    raw.write_bytes(b"".join(np.ascontiguousarray(f, "<f4").tobytes() + footer for f in frames))
    return [empad_xml(folder, scan, generation, stem), raw]


def empad_xml(folder, scan, generation=1, stem="scan"):
    rows, cols = scan
    if generation == 1:
        inside = f'<raw_file filename="{stem}.raw"/><pix_x>{cols}</pix_x><pix_y>{rows}</pix_y>'
    else:
        inside = (
            "<sensor><type>EMPAD2</type><shape>128,128</shape></sensor>"
            f"<scan><type>scan</type><shape>({rows}, {cols})</shape></scan>"
            f"<rawfile><filename>{stem}.raw</filename><datatype>float32</datatype></rawfile>"
        )
    xml = folder / f"{stem}.xml"
    xml.write_text(f"<root>{inside}</root>", encoding="utf-8")
    return xml


def emd(folder, data=None, stem="scan", shape=None, dtype=None, **how):
    """An emdfile datacube; without `data` its array is allocated and not written."""
    path = folder / f"{stem}.h5"
    with h5py.File(path, "w") as file:
        file.attrs["authoring_program"], file.attrs["version_major"] = "emdfile", 1
        file.create_dataset("datacube_root/datacube/data", data=data, shape=shape, dtype=dtype, **how)
    return [path]


def velox(folder, image, stem="scan"):
    """A scalar image with steps of 1e-10 and 2e-10 m."""
    rows, cols = image.shape
    text = (
        '{"BinaryResult": {"Detector": "HAADF", "PixelUnitX": "m", "PixelUnitY": "m",'
        ' "PixelSize": {"height": "1e-10", "width": "2e-10"}},'
        f' "Scan": {{"ScanSize": {{"height": "{rows}", "width": "{cols}"}}}},'
        f' "Optics": {{"FullScanFieldOfView": {{"y": "{rows * 1e-10}", "x": "{cols * 2e-10}"}}}}}}'
    ).encode() + bytes(100)
    path = folder / f"{stem}.emd"
    with h5py.File(path, "w") as file:
        group = file.create_group("Data/Image/0123abc")
        group["Data"] = image[..., None]
        group["Metadata"] = np.frombuffer(text, np.uint8)[:, None]
    return [path]


class Hole(int):
    """So many zero bytes that take no room on disk."""


def _length(parts):
    return sum(p if isinstance(p, Hole) else len(p) for p in parts)


def _write(path, parts):
    with open(path, "wb") as file:
        for part in parts:
            if isinstance(part, Hole):
                file.seek(part, 1)
            else:
                file.write(part)
        file.truncate()


class _Tags:
    """DigitalMicrograph's tags, little-endian data in big-endian structure; version 3 has narrower words and no sizes.
    A body is a list of bytes and holes."""

    def __init__(self, version):
        self.version, self.word = version, ">Q" if version == 4 else ">I"

    def data(self, kind, *payload):
        words = b"".join(struct.pack(self.word, k) for k in kind)
        return 21, [b"%%%%" + struct.pack(self.word, len(kind)) + words, *payload]

    def group(self, members):
        out = [struct.pack(">BB", 0, 0) + struct.pack(self.word, len(members))]
        for name, (kind, body) in members:
            name = name.encode()
            size = struct.pack(">Q", _length(body)) if self.version == 4 else b""
            out += [struct.pack(">BH", kind, len(name)) + name + size, *body]
        return 20, out

    def list(self, tags):
        return self.group([("", tag) for tag in tags])

    def text(self, text):
        return self.data([20, 4, len(text)], text.encode("utf-16-le"))

    def number(self, kind, code, value):
        return self.data([kind], struct.pack(f"<{code}", value))


def dm(folder, shape, *payload, version=4, stem="scan", claimed=None):
    """The one image of a document: counts of 16 bits, the detector fastest. `payload` are its samples, bytes and holes,
    `claimed` their number where it is to be another than that of the shape."""
    tags = _Tags(version)
    steps = [(0.05, "1/nm"), (0.04, "1/nm"), (2.5, "nm"), (1.5, "nm")]
    dimensions = tags.list(
        [tags.group([("Origin", tags.number(7, "d", 0)), ("Scale", tags.number(7, "d", s)), ("Units", tags.text(u))]) for s, u in steps]
    )
    image = tags.group(
        [
            ("Calibrations", tags.group([("Dimension", dimensions)])),
            ("Data", tags.data([20, 4, claimed or int(np.prod(shape, dtype=object))], *payload)),
            ("DataType", tags.number(3, "i", 10)),
            ("Dimensions", tags.list([tags.number(5, "I", n) for n in reversed(shape)])),
        ]
    )
    _, root = tags.group([("ImageList", tags.list([tags.group([("ImageData", image)])]))])
    # Version 3 counts four bytes more than the group has.
    length = struct.pack(tags.word, _length(root) + (0 if version == 4 else 4))
    path = folder / f"{stem}.dm{version}"
    _write(path, [struct.pack(">I", version) + length + struct.pack(">I", 1), *root, bytes(8)])
    return [path]


def npy(folder, array, stem="scan"):
    path = folder / f"{stem}.npy"
    np.save(path, array)
    return [path]


SCAN, DETECTOR = (2, 3), (9, 8)


def counts(seed=4):
    return np.random.default_rng(seed).integers(0, 60_000, (*SCAN, *DETECTOR)).astype("<u2")


def patterns(seed=5):
    return np.random.default_rng(seed).normal(0, 3, (*SCAN, 128, 128)).astype("<f4")


def _frames(array):
    return array.reshape(-1, *array.shape[2:])


# Name → a function of folder and stem that writes an acquisition and returns its files, the one to open first, and the
# array in them. A Velox image has one number for each scan position.
ORIGINALS = {
    "ARINA": lambda folder, stem: (arina(folder, _frames(counts()), stem, SCAN, shards=2), counts()),
    "EMPAD-G1": lambda folder, stem: (empad(folder, _frames(patterns()), SCAN, 1, stem), patterns()),
    "EMPAD-G2": lambda folder, stem: (empad(folder, _frames(patterns()), SCAN, 2, stem), patterns()),
    "EMD": lambda folder, stem: (emd(folder, counts(), stem), counts()),
    "EMD in chunks": lambda folder, stem: (emd(folder, counts(), stem, chunks=(1, 1, *DETECTOR), compression="gzip"), counts()),
    "DM4": lambda folder, stem: (dm(folder, (*SCAN, *DETECTOR), counts().tobytes(), version=4, stem=stem), counts()),
    "DM3": lambda folder, stem: (dm(folder, (*SCAN, *DETECTOR), counts().tobytes(), version=3, stem=stem), counts()),
    "npy": lambda folder, stem: (npy(folder, counts(), stem), counts()),
    "Velox": lambda folder, stem: (velox(folder, counts()[0, 0], stem), counts()[0, 0]),
}


def originals(folder, stem="scan"):
    """(name, files, array) of an acquisition of every format, each in a folder of its own."""
    for name, write in ORIGINALS.items():
        own = pathlib.Path(folder) / name
        own.mkdir(parents=True)
        files, array = write(own, stem)
        yield name, files, array
