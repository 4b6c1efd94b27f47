#!/usr/bin/env python3
"""One contender in a process of its own: `peers.py NAME FOLDER RUNS` prints its times and the digest of its result.

Each contender reads the same files and computes the same thing; `compare.py` starts it and checks the digest. Imports
and, where the name says `resident`, loading are outside the timed part.
"""
import hashlib
import json
import pathlib
import sys
import time

import numpy as np

BATCH = 256


def load_truth(folder):
    truth, arrays = json.loads((folder / "truth.json").read_text()), np.load(folder / "truth.npz")
    return truth, arrays["selected"], arrays["mask"]


def open_stack(folder):
    import h5py
    import hdf5plugin  # noqa: F401  (registers the filter)

    return h5py.File(folder / "scan_data_000001.h5", "r")["entry/data/data"]


def h5py_decode(folder):
    """h5py + hdf5plugin read the whole source into one array."""
    stack = open_stack(folder)

    def run():
        stack[...]
        return None

    return run


def h5py_decode_batches(folder):
    """h5py + hdf5plugin read every frame into a small buffer that is reused: their fastest way to decode."""
    stack = open_stack(folder)
    buffer = np.empty((BATCH, *stack.shape[1:]), stack.dtype)

    def run():
        for first in range(0, len(stack), BATCH):
            n = min(BATCH, len(stack) - first)
            stack.read_direct(buffer, np.s_[first : first + n], np.s_[:n])
        return None

    return run


def select_and_sum(frames, selected):
    return frames.reshape(len(frames), -1)[:, selected].sum(1, dtype=np.uint64)


def float_matmul(frames, weights):
    # Exact below 2²⁴, which the sums here are; the digest would tell.
    return (frames.reshape(len(frames), -1).astype(np.float32) @ weights).astype(np.uint64)


def weights_of(selected, pixels):
    weights = np.zeros(pixels, np.float32)
    weights[selected] = 1
    return weights


def h5py_bf(folder):
    """h5py + hdf5plugin read, numpy selects the pixels and sums them."""
    _, selected, _ = load_truth(folder)
    stack = open_stack(folder)
    buffer = np.empty((BATCH, *stack.shape[1:]), stack.dtype)

    def run():
        out = []
        for first in range(0, len(stack), BATCH):
            n = min(BATCH, len(stack) - first)
            stack.read_direct(buffer, np.s_[first : first + n], np.s_[:n])
            out.append(select_and_sum(buffer[:n], selected))
        return np.concatenate(out)

    return run


def h5py_bf_matmul(folder):
    """h5py + hdf5plugin read, numpy multiplies with the mask in float32."""
    truth, selected, _ = load_truth(folder)
    stack = open_stack(folder)
    weights = weights_of(selected, truth["detector"][0] * truth["detector"][1])
    buffer = np.empty((BATCH, *stack.shape[1:]), stack.dtype)

    def run():
        out = []
        for first in range(0, len(stack), BATCH):
            n = min(BATCH, len(stack) - first)
            stack.read_direct(buffer, np.s_[first : first + n], np.s_[:n])
            out.append(float_matmul(buffer[:n], weights))
        return np.concatenate(out)

    return run


def numpy_resident_select(folder):
    """numpy on a dense array in memory: select the pixels and sum them."""
    _, selected, _ = load_truth(folder)
    dense = open_stack(folder)[...]
    step = 1024

    def run():
        return np.concatenate([select_and_sum(dense[i : i + step], selected) for i in range(0, len(dense), step)])

    return run


def numpy_resident_matmul(folder):
    """numpy on a dense array in memory: batches in float32 times the mask (BLAS, all its threads)."""
    truth, selected, _ = load_truth(folder)
    dense = open_stack(folder)[...]
    weights = weights_of(selected, truth["detector"][0] * truth["detector"][1])

    def run():
        return np.concatenate([float_matmul(dense[i : i + BATCH], weights) for i in range(0, len(dense), BATCH)])

    return run


def numpy_resident_rows(folder):
    """numpy on a dense array in memory: for each detector row, the slice inside the disk is summed (works only for
    masks that are few slices; the quickest numpy we know)."""
    truth, _, mask = load_truth(folder)
    dense = open_stack(folder)[...]
    height, width = truth["detector"]
    kept = mask.copy()
    kept.flat[truth["excluded"]] = 0
    runs = []
    for row in range(height):
        edges = np.flatnonzero(np.diff(np.concatenate([[0], kept[row], [0]]).astype(np.int8)))
        runs += [(row, a, b) for a, b in edges.reshape(-1, 2)]

    def run():
        out = np.zeros(len(dense), np.uint64)
        for row, a, b in runs:
            out += dense[:, row, a:b].sum(1, dtype=np.uint64)
        return out

    return run


def libertem_bf(folder):
    """LiberTEM applies the mask to the HDF5 file with one worker for each core."""
    import libertem.api

    truth, selected, _ = load_truth(folder)
    import hdf5plugin  # noqa: F401

    weights = weights_of(selected, truth["detector"][0] * truth["detector"][1]).reshape(truth["detector"])
    context = libertem.api.Context()
    dataset = context.load(
        "hdf5", path=str(folder / "scan_data_000001.h5"), ds_path="/entry/data/data", nav_shape=tuple(truth["scan"])
    )
    analysis = context.create_mask_analysis(dataset=dataset, factories=[lambda: weights])

    def run():
        return np.rint(np.asarray(context.run(analysis).mask_0.raw_data).real).astype(np.uint64).ravel()

    run.close = context.close
    return run


def libertem_resident_bf(folder):
    """LiberTEM applies the mask to a dense array in memory, in this process."""
    import libertem.api

    truth, selected, _ = load_truth(folder)
    weights = weights_of(selected, truth["detector"][0] * truth["detector"][1]).reshape(truth["detector"])
    context = libertem.api.Context.make_with("inline")
    dense = open_stack(folder)[...].reshape(*truth["scan"], *truth["detector"])
    dataset = context.load("memory", data=dense, sig_dims=2)
    analysis = context.create_mask_analysis(dataset=dataset, factories=[lambda: weights])

    def run():
        return np.rint(np.asarray(context.run(analysis).mask_0.raw_data).real).astype(np.uint64).ravel()

    run.close = context.close
    return run


def py4dstem_resident_bf(folder):
    """py4DSTEM's virtual image with a mask, on a dense array in memory."""
    import py4DSTEM

    truth, selected, _ = load_truth(folder)
    weights = weights_of(selected, truth["detector"][0] * truth["detector"][1]).reshape(truth["detector"])
    cube = py4DSTEM.DataCube(open_stack(folder)[...].reshape(*truth["scan"], *truth["detector"]))

    def run():
        image = cube.get_virtual_image(mode="mask", geometry=weights > 0, name="bf", verbose=False, returncalc=True)
        return np.rint(image.data).astype(np.uint64).ravel()

    return run


CONTENDERS = {
    f.__name__: f
    for f in (
        h5py_decode,
        h5py_decode_batches,
        h5py_bf,
        h5py_bf_matmul,
        numpy_resident_select,
        numpy_resident_matmul,
        numpy_resident_rows,
        libertem_bf,
        libertem_resident_bf,
        py4dstem_resident_bf,
    )
}


def main():
    name, folder, runs = sys.argv[1], pathlib.Path(sys.argv[2]), int(sys.argv[3])
    run = CONTENDERS[name](folder)
    result = run()  # once unmeasured: caches, thread pools
    seconds = []
    for _ in range(runs):
        start = time.perf_counter()
        result = run()
        seconds.append(time.perf_counter() - start)
    digest = None if result is None else hashlib.sha256(result.astype("<u8").tobytes()).hexdigest()
    getattr(run, "close", lambda: None)()
    modules = {m: getattr(sys.modules[m], "__version__", None) or sys.modules[m].version for m in ("numpy", "h5py", "hdf5plugin", "libertem", "py4DSTEM") if m in sys.modules}
    print("RESULT " + json.dumps({"seconds": seconds, "sum_sha256": digest, "versions": modules}))


if __name__ == "__main__":
    main()
