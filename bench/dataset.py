"""The acquisition that the comparison runs on: Poisson counts in the ARINA layout, and the truth about it."""
import hashlib
import json
import pathlib

import h5py
import hdf5plugin
import numpy as np

BATCH = 256


def make(folder, scan, detector, seed=11):
    """Writes one master, one data file and truth.npz / truth.json into `folder`, unless they are there already."""
    folder = pathlib.Path(folder)
    wanted = {"scan": list(scan), "detector": list(detector), "seed": seed, "generator": 2}
    note = folder / "truth.json"
    if note.exists():
        truth = json.loads(note.read_text())
        if all(truth.get(k) == v for k, v in wanted.items()):
            return truth
        raise SystemExit(f"{folder} holds another acquisition; name an empty folder")
    folder.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(seed)
    rows, cols = scan
    height, width = detector
    y, x = np.mgrid[:height, :width].astype(np.float32)
    radius = 0.21 * min(height, width)
    centre = (0.507 * height, 0.498 * width)

    def pattern(shift):
        d = np.hypot(y - centre[0] - shift, x - centre[1] + shift)
        disk = 1.2 / (1 + np.exp((d - radius) / 0.7))
        return disk + 0.1 * np.exp(-np.maximum(d - radius, 0) / (0.35 * min(height, width)))

    bank = np.stack([pattern(s) for s in np.linspace(-2, 2, 17)]).astype(np.float32)
    excluded = np.sort(rng.choice(height * width, 3, replace=False))
    pixel_mask = np.zeros((height, width), np.uint32)
    pixel_mask.flat[excluded] = 1

    count, digest = rows * cols, hashlib.sha256()
    with h5py.File(folder / "scan_data_000001.h5", "w", libver="latest") as file:
        data = file.create_dataset(
            "entry/data/data", (count, height, width), np.uint16, chunks=(1, height, width), **hdf5plugin.Bitshuffle(cname="lz4")
        )
        for first in range(0, count, BATCH):
            position = np.arange(first, min(first + BATCH, count))
            row, col = np.divmod(position, cols)
            wave = np.sin(2 * np.pi * row / 19.0) * np.cos(2 * np.pi * col / 23.0)
            frames = rng.poisson(bank[np.round(8 + 8 * wave).astype(int)] * (1 + 0.3 * wave[:, None, None])).astype(np.uint16)
            frames.reshape(len(frames), -1)[:, excluded] = 65535
            data[first : first + len(frames)] = frames
            digest.update(frames.astype("<u2").tobytes())
    with h5py.File(folder / "scan_master.h5", "w") as master:
        master["entry/data/data_000001"] = h5py.ExternalLink("scan_data_000001.h5", "/entry/data/data")
        specific = master.create_group("entry/instrument/detector/detectorSpecific")
        specific["ntrigger"], specific["nimages"] = count, 1
        specific["pixel_mask"] = pixel_mask
    truth = {
        **wanted,
        "dtype": "uint16",
        "logical_bytes": 2 * count * height * width,
        "stored_bytes": (folder / "scan_data_000001.h5").stat().st_size,
        "logical_sha256": digest.hexdigest(),
        "excluded": excluded.tolist(),
    }
    note.write_text(json.dumps(truth, indent=1))
    return truth


def choose_disk(folder, truth, centre, radius):
    """Writes mask.npy and truth.npz for the pixels with `d ≤ radius`; the sums are numpy's, over frames that h5py read."""
    height, width = truth["detector"]
    y, x = np.mgrid[:height, :width]
    mask = (y - centre[0]) ** 2 + (x - centre[1]) ** 2 <= radius**2
    admitted = np.ones(height * width, bool)
    admitted[truth["excluded"]] = False
    selected = np.flatnonzero(mask.ravel() & admitted)
    sums = []
    with h5py.File(folder / "scan_data_000001.h5", "r") as file:
        data = file["entry/data/data"]
        for first in range(0, len(data), BATCH):
            frames = data[first : first + BATCH]
            sums.append(frames.reshape(len(frames), -1)[:, selected].sum(1, dtype=np.uint64))
    bf = np.concatenate(sums).reshape(truth["scan"])
    np.savez(folder / "truth.npz", bf=bf, mask=mask.astype(np.uint8), selected=selected)
    np.save(folder / "mask.npy", mask.astype(np.uint8))
    return len(selected)
