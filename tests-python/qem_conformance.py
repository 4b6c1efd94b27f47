#!/usr/bin/env python3
"""The conformance bundle of `.qem`: what it must decode to, by formula, and how it was written.

`qem_conformance.py STEMPACK` writes docs/formats/qem-conformance anew; test_qem_conformance.py holds it to the formulas.
"""
import hashlib
import json
import pathlib
import subprocess
import sys
import tempfile

import numpy as np

FOLDER = pathlib.Path(__file__).resolve().parents[1] / "docs/formats/qem-conformance"


def noise(n, seed):
    """A sequence that any language reproduces: s ← (6364136223846793005·s + 1442695040888963407) mod 2^64, high 32 bits."""
    state, out = seed, []
    for _ in range(n):
        state = (6364136223846793005 * state + 1442695040888963407) % 2**64
        out.append(state >> 32)
    return np.array(out, np.uint64)


def mixed(shape, most, seed):
    """Columns that are zero, constant, rare, small and large, by pixel number modulo 5."""
    n, pixels = int(np.prod(shape)), shape[2] * shape[3]
    value = noise(n, seed)
    kind = np.arange(n) % pixels % 5
    chosen = np.choose(kind, [0 * value, 0 * value + 7, (value % 97 == 0) * 3, value % 9, value])
    return (chosen % (most + 1)).reshape(shape)


def special(shape):
    """Zeros of both signs, subnormals, infinities, NaNs with payloads, and anything else."""
    bits = [0x00000000, 0x80000000, 0x00000001, 0x7F800000, 0xFF800000, 0x7FC00001, 0x7F800001, 0xFFFFFFFF, 0x3F800000]
    n = int(np.prod(shape))
    value = noise(n, 5)
    for k, b in enumerate(bits):
        value[np.arange(n) % 11 == k] = b
    return value.astype(np.uint32).view(np.float32).reshape(shape)


CASES = {
    "u8-one-pixel": lambda: mixed((1, 3, 1, 1), 255, 1).astype(np.uint8),
    "u8-partial-tiles": lambda: mixed((5, 7, 9, 35), 255, 2).astype(np.uint8),
    "u16-two-blocks": lambda: mixed((27, 20, 3, 6), 65535, 3).astype(np.uint16),
    "f32-special-bits": lambda: special((6, 5, 3, 7)),
}
# Each makes one fault; what the digests cover is hashed again where the fault lies deeper.
FAULTS = {
    "bad-magic": "the first byte is another",
    "header-digest": "a byte of the header's digest is another",
    "body-byte": "the last byte of the body is another, its checksum is not",
    "cut": "the last byte is missing",
    "longer": "a byte follows the body",
}


def fault(name, data):
    data = bytearray(data)
    if name == "bad-magic":
        data[0] ^= 1
    elif name == "header-digest":
        data[24] ^= 1
    elif name == "body-byte":
        data[-1] ^= 1
    elif name == "cut":
        data.pop()
    elif name == "longer":
        data.append(0)
    return bytes(data)


def entry(path, array):
    return {
        "file": path.name,
        "sha256": hashlib.sha256(path.read_bytes()).hexdigest(),
        "shape": list(array.shape),
        "dtype": str(array.dtype),
        "array_sha256": hashlib.sha256(array.astype(array.dtype.newbyteorder("<")).tobytes()).hexdigest(),
    }


def main():
    FOLDER.mkdir(parents=True, exist_ok=True)
    entries = []
    with tempfile.TemporaryDirectory() as folder:
        for name, make in CASES.items():
            array, source, out = make(), pathlib.Path(folder) / f"{name}.npy", FOLDER / f"{name}.qem"
            np.save(source, array)
            subprocess.run([sys.argv[1], "pack", source, out, "--force", "-q"], check=True)
            entries.append(entry(out, array))
    (FOLDER / "manifest.json").write_text(json.dumps({"accepted": entries, "faults": FAULTS}, indent=1) + "\n")


if __name__ == "__main__":
    main()
