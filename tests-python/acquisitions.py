"""Writes ARINA-layout acquisitions with h5py and hdf5plugin, in every storage layout that a reader has to know.

The counts are made here, so the array that a test expects is the one that went in.
"""
import dataclasses
import hashlib
import pathlib

import h5py
import hdf5plugin
import numpy as np


@dataclasses.dataclass
class Acquisition:
    """A written acquisition and the truth about it."""

    folder: pathlib.Path
    raw: np.ndarray
    mask: np.ndarray
    data_files: list
    recorded_shape: bool

    @property
    def master(self):
        return self.folder / "scan_master.h5"

    @property
    def scan_argument(self):
        """What a command needs to know the scan shape."""
        rows, cols = self.raw.shape[:2]
        return [] if self.recorded_shape else ["--scan", f"{rows}x{cols}"]

    @property
    def excluded(self):
        return np.flatnonzero(self.mask).tolist()

    @property
    def working(self):
        return np.where(self.mask == 0, self.raw, 0).astype(self.raw.dtype)

    @property
    def members(self):
        """Master and data files, as their digests enter the identity."""
        return [self.master, *self.data_files]

    @property
    def identity(self):
        """The aggregate digest: a tag, the master's digest, then each data file's."""
        master, *data = [hashlib.sha256(p.read_bytes()).hexdigest().encode() for p in self.members]
        return hashlib.sha256(b"live4dstem.dataset/v0.1\0" + master + b"".join(b"\0" + d for d in data)).hexdigest()


def little_endian_sha256(array):
    return hashlib.sha256(np.ascontiguousarray(array.astype(array.dtype.newbyteorder("<"))).tobytes()).hexdigest()


def counts(scan, detector, dtype=np.uint16, mean=1.5, seed=1):
    """Poisson counts with a brighter disk, so that tiles get many different widths."""
    rng = np.random.default_rng(seed)
    y, x = np.mgrid[: detector[0], : detector[1]]
    d = np.hypot(y - detector[0] / 2, x - detector[1] / 2)
    expected = np.where(d < min(detector) / 4, 8 * mean, mean * np.exp(-d / min(detector)))
    drift = 1 + 0.5 * np.sin(np.arange(scan[0] * scan[1]) / 9.0).reshape(*scan, 1, 1)
    return rng.poisson(expected * drift).astype(dtype)


def exclude(raw, pixels, value=None):
    """Sticks `pixels` at `value` (the type's maximum) and returns the mask that flags them."""
    mask = np.zeros(raw.shape[2:], np.uint32)
    mask.flat[pixels] = 1
    raw.reshape(*raw.shape[:2], -1)[..., pixels] = np.iinfo(raw.dtype).max if value is None else value
    return mask


def stored_one_frame_a_chunk(file, frames, block=0):
    return file.create_dataset(
        "entry/data/data", data=frames, chunks=(1, *frames.shape[1:]), **hdf5plugin.Bitshuffle(nelems=block, cname="lz4")
    )


def stored_small_blocks(file, frames):
    return stored_one_frame_a_chunk(file, frames, block=512)


def stored_several_frames_a_chunk(file, frames):
    chunks = (min(5, len(frames)), *frames.shape[1:])
    return file.create_dataset("entry/data/data", data=frames, chunks=chunks, **hdf5plugin.Bitshuffle(cname="lz4"))


def stored_several_chunks_a_frame(file, frames):
    chunks = (1, max(1, frames.shape[1] // 2), max(1, frames.shape[2] // 3))
    return file.create_dataset("entry/data/data", data=frames, chunks=chunks, **hdf5plugin.Bitshuffle(cname="lz4"))


def stored_gzip(file, frames):
    return file.create_dataset("entry/data/data", data=frames, chunks=(1, *frames.shape[1:]), compression="gzip")


def stored_lz4(file, frames):
    return file.create_dataset("entry/data/data", data=frames, chunks=(1, *frames.shape[1:]), **hdf5plugin.LZ4())


def stored_unfiltered(file, frames):
    return file.create_dataset("entry/data/data", data=frames, chunks=(1, *frames.shape[1:]))


def stored_contiguous(file, frames):
    return file.create_dataset("entry/data/data", data=frames)


def stored_with_skipped_filters(file, frames):
    """Every third chunk went past the filter, and its filter mask says so."""
    dataset = stored_one_frame_a_chunk(file, frames)
    for i in range(0, len(frames), 3):
        dataset.id.write_direct_chunk((i, 0, 0), np.ascontiguousarray(frames[i]).tobytes(), filter_mask=1)
    return dataset


def stored_latest(file, frames):
    return stored_one_frame_a_chunk(file, frames)


STORAGE = {
    "one frame a chunk": stored_one_frame_a_chunk,
    "blocks of 512 elements": stored_small_blocks,
    "several frames a chunk": stored_several_frames_a_chunk,
    "several chunks a frame": stored_several_chunks_a_frame,
    "gzip": stored_gzip,
    "LZ4 without bitshuffle": stored_lz4,
    "chunks without a filter": stored_unfiltered,
    "contiguous": stored_contiguous,
    "chunks that skipped the filter": stored_with_skipped_filters,
    "HDF5's latest file format": stored_latest,
}


def write(folder, raw, mask=None, storage="one frame a chunk", frames_per_file=None, companion=False):
    """Writes a master, its data files and, on request, an NXem companion that records the scan shape."""
    folder = pathlib.Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    rows, cols, height, width = raw.shape
    frames = raw.reshape(rows * cols, height, width)
    step = frames_per_file or len(frames)
    data_files = []
    for number, first in enumerate(range(0, len(frames), step), 1):
        path = folder / f"scan_data_{number:06d}.h5"
        with h5py.File(path, "w", libver="latest" if "latest" in storage else "earliest") as file:
            STORAGE[storage](file, frames[first : first + step])
        data_files.append(path)
    with h5py.File(folder / "scan_master.h5", "w") as master:
        data = master.create_group("entry/data")
        for number, path in enumerate(data_files, 1):
            data[f"data_{number:06d}"] = h5py.ExternalLink(path.name, "/entry/data/data")
        detector = master.create_group("entry/instrument/detector")
        detector["description"] = "ARINA layout, written for a test"
        specific = detector.create_group("detectorSpecific")
        specific["ntrigger"], specific["nimages"] = np.uint32(len(frames)), np.uint32(1)
        if mask is not None:
            specific["pixel_mask"] = mask.astype(np.uint32)
    if companion:
        with h5py.File(folder / "scan_em_metadata.h5", "w") as file:
            controller = file.create_group("electron_microscope/scan_controller")
            controller["scan_type"] = "regular"
            scan = controller.create_group("regular_scan")
            scan["n_pixels_y"], scan["n_pixels_x"], scan["n_frames"] = rows, cols, 1
            for key, step_nm in (("pixel_size_y", 0.05), ("pixel_size_x", 0.04)):
                scan[key] = step_nm
                scan[key].attrs["units"] = "nm"
    kept = np.zeros((height, width), np.uint32) if mask is None else mask
    return Acquisition(folder, raw, kept, data_files, companion)
