#!/usr/bin/env python3
"""An independent reader of `.qem` files, every codec, in numpy and plain Python.

Written from docs/formats/qem.md and nothing else, so that the tests can ask a second opinion about the files that
stempack writes. It is slow and strict; a file it refuses raises `Refused`.

  qem_oracle.py FILE [--array OUT.npy]
"""
import argparse
import hashlib
import json
import math
import pathlib
import struct
import sys

import numpy as np

BLOCK = 64 << 20
MOST_HEADER = 16 << 20
INTERVAL = 512
LOW = 1 << 23
COLUMNS, LANES = "runtime-column-rans-spatial-v2", "float32-bit-lanes-rans-v1"
XOR, SCALED = "empad-xor-row-packed-v1", "scaled-uint16-column-rans-v1"
AXES = ["scan_row", "scan_column", "detector_row", "detector_column"]
MODELS = json.loads((pathlib.Path(__file__).resolve().parents[1] / "docs/formats/qem-models.json").read_text())


class Refused(ValueError):
    """The file contradicts the format."""


def need(condition, what):
    if not condition:
        raise Refused(what)


def is_int(value):
    return isinstance(value, int) and not isinstance(value, bool)


def tables():
    """For every model and every slot of 1024: symbol, frequency, slot − start."""
    for frequencies in MODELS["frequencies"]:
        slots = []
        for symbol, frequency in enumerate(frequencies):
            slots += [(symbol, frequency, i) for i in range(frequency)]
        need(len(slots) == 1024, "model table")
        yield slots


SLOTS = list(tables())


def entropy_coded(model, stream, length):
    """One rANS stream of `length` values."""
    need(len(stream) >= 4, "stream without a state")
    state, at, out = int.from_bytes(stream[:4], "little"), 4, []
    need(LOW <= state < 1 << 31, "first state")
    slots = SLOTS[model]
    for _ in range(length):
        symbol, frequency, offset = slots[state & 1023]
        state = frequency * (state >> 10) + offset
        while state < LOW:
            need(at < len(stream), "stream ends early")
            state = state << 8 | stream[at]
            at += 1
        if symbol == 32:
            need(at + 2 <= len(stream), "escape ends early")
            symbol = stream[at] | stream[at + 1] << 8
            at += 2
        out.append(symbol)
    need(state == LOW and at == len(stream), "stream does not end where its values do")
    return out


def column(selector, stream, length):
    """The values of one stream."""
    if selector < 64:
        return entropy_coded(selector, stream, length)
    if selector == 252:
        need(len(stream) % 2 == 0, "half an event")
        out, before = np.zeros(length, np.uint16), -1
        for event in np.frombuffer(stream, "<u2").tolist():
            position = event >> 7
            need(before < position < length, "position of an event")
            out[position], before = (event & 127) + 1, position
        return out
    if selector == 253:
        need(not stream, "zeros with bytes")
        return np.zeros(length, np.uint16)
    if selector == 254:
        need(len(stream) == 2 * length, "literal length")
        return np.frombuffer(stream, "<u2")
    need(selector == 255, f"selector {selector}")
    need(len(stream) == 2, "constant length")
    return np.full(length, int.from_bytes(stream, "little"), np.uint16)


def packed(words, width, length):
    """`length` numbers of `width` bits from the lowest bit of u32 words upward."""
    stream = int.from_bytes(np.asarray(words, "<u4").tobytes(), "little")
    return [stream >> i * width & (1 << width) - 1 for i in range(length)]


def strict_json(text):
    def once(pairs):
        need(len({k for k, _ in pairs}) == len(pairs), "a key appears twice")
        return dict(pairs)

    def never(constant):
        raise Refused(f"{constant} is no JSON")

    need(text[:1] == b"{", "the header does not begin with an object")
    return json.loads(text.decode("utf-8"), object_pairs_hook=once, parse_constant=never)


class Qem:
    """An opened file: header checked, checksums compared."""

    def __init__(self, path):
        data = pathlib.Path(path).read_bytes()
        need(len(data) >= 56 and data[:8] == b"QEMDATA1", "magic")
        length, start = struct.unpack_from("<QQ", data, 8)
        need(0 < length <= MOST_HEADER and start == 56 + length <= len(data), "prefix")
        text, self.body = data[56:start], data[start:]
        need(hashlib.sha256(text).digest() == data[24:56], "header digest")
        self.header = h = strict_json(text)
        need(h["container"] == "quantem.qem" and h["container_version"] == 1 and is_int(h["container_version"]), "container")
        need(h["codec"] == h["profile"] and h["version"] == 1 and is_int(h["version"]), "codec")
        self.codec, self.shape = h["codec"], h["shape"]
        need(len(self.shape) == 4 and all(is_int(n) and 0 < n < 1 << 24 for n in self.shape), "shape")
        need(is_int(h["bytes"]) and h["bytes"] == len(self.body) > 0, "body length")
        need(len(h["sha256"]) == math.ceil(len(self.body) / BLOCK), "number of checksums")
        for i, digest in enumerate(h["sha256"]):
            need(hashlib.sha256(self.body[i * BLOCK : (i + 1) * BLOCK]).hexdigest() == digest, f"checksum {i}")
        self.scans, self.pixels = self.shape[0] * self.shape[1], self.shape[2] * self.shape[3]
        self.cursor = 0
        self.metadata()

    def metadata(self):
        s = self.header["scientific_metadata"]
        need(s["schema"] in ("quantem.scientific-metadata/1", "quantem.scientific-metadata/2"), "schema")
        need([a["name"] for a in s["axes"]] == AXES and [a["size"] for a in s["axes"]] == self.shape, "axes")
        need(isinstance(s["source_metadata"], dict), "source_metadata")
        need(s["source_metadata_coverage"] in ("reader-retained", "exhaustive", "unknown"), "coverage")
        need(s["processing"] and all(isinstance(r["changes_measurements"], bool) for r in s["processing"]), "processing")
        for axis in s["axes"]:
            if "sampling" in axis:
                self.quantity(axis["sampling"])
        for quantity in [*s.get("electron_microscope", {}).values(), *s.get("calibration_overrides", {}).values()]:
            self.quantity(quantity)
        for document in s.get("source_documents", []):
            need(hashlib.sha256(document["content"].encode()).hexdigest() == document["sha256"], "document digest")

    @staticmethod
    def quantity(q):
        need(not isinstance(q["value"], bool) and math.isfinite(q["value"]) and q["value"] > 0, "value")
        need(q["unit"].strip() and q["provenance"].strip(), "unit and provenance")

    def aligned(self, entry, kind):
        """An array that begins at the next multiple of eight."""
        self.cursor += -self.cursor % 8
        kind = np.dtype(kind)
        need(is_int(entry["offset"]) and entry["offset"] == self.cursor, "array offset")
        need(is_int(entry["count"]) and entry["count"] >= 0, "array count")
        self.cursor += entry["count"] * kind.itemsize
        need(self.cursor <= len(self.body), "array beyond the body")
        return np.frombuffer(self.body, kind, entry["count"], entry["offset"])

    def follows(self, chunk, name, kind="u1"):
        """An array that begins where the one before it ended."""
        offset, size = chunk[f"{name}_offset"], chunk[f"{name}_bytes"]
        need(is_int(offset) and offset == self.cursor and is_int(size) and size > 0, f"{name} place")
        self.cursor += size
        need(self.cursor <= len(self.body), f"{name} beyond the body")
        return np.frombuffer(self.body, kind, size // np.dtype(kind).itemsize, offset)

    def streams(self, payload, offsets, selectors, scans, columns, filler=False):
        """(scans, columns) of the streams of one chunk."""
        blocks = math.ceil(scans / INTERVAL)
        need(len(offsets) == blocks * columns + 1 and len(selectors) == blocks * columns, "table sizes")
        need(offsets[0] == 0 and (np.diff(offsets.astype(np.int64)) >= 0).all(), "stream offsets")
        need(offsets[-1] == len(payload) or filler and offsets[-1] <= len(payload), "end of the streams")
        out, data = np.empty((scans, columns), np.uint16), payload.tobytes()
        for k, selector in enumerate(selectors.tolist()):
            block, pixel = divmod(k, columns)
            first, stop = block * INTERVAL, min((block + 1) * INTERVAL, scans)
            stream = data[offsets[k] : offsets[k + 1]]
            need(not filler or len(stream) <= 2 * (stop - first), "a lane longer than its literal")
            out[first:stop, pixel] = column(selector, stream, stop - first)
        return out

    def tile_sums(self, counts, valid, arrays):
        """Compares every stored tile sum with the counts."""
        words, offsets, widths = arrays
        rows, cols = self.shape[2:]
        frames = np.where(valid, counts, 0).astype(np.uint64).reshape(-1, rows, cols)
        fields = [
            frames[:, y : y + t, x : x + t].sum((1, 2)) for t in (8, 32) for y in range(0, rows, t) for x in range(0, cols, t)
        ]
        blocks = math.ceil(len(frames) / INTERVAL)
        need(len(widths) == blocks * len(fields) and len(offsets) == len(widths) + 1, "index sizes")
        need(offsets[0] == 0 and offsets[-1] == len(words), "index offsets")
        for k, width in enumerate(widths.tolist()):
            block, field = divmod(k, len(fields))
            want = fields[field][block * INTERVAL : (block + 1) * INTERVAL]
            first, stop = int(offsets[k]), int(offsets[k + 1])
            need(width <= 32 and stop - first == math.ceil(len(want) * width / 32), "index span")
            need(packed(words[first:stop], width, len(want)) == want.tolist(), f"tile sum of field {field}")

    def valid(self):
        text = self.header["valid"]
        need(len(text) == 2 * math.ceil(self.pixels / 8), "mask length")
        return np.unpackbits(np.frombuffer(bytes.fromhex(text), np.uint8))[: self.pixels].astype(bool)

    def chunks(self):
        """Entries of the chunk table, with their first scan position."""
        first = 0
        for chunk in self.header["chunks"]:
            need(is_int(chunk["first"]) and chunk["first"] == first, "first scan position")
            need(is_int(chunk["scans"]) and 0 < chunk["scans"] <= self.scans - first, "scans of a chunk")
            yield first, chunk["scans"], chunk
            first += chunk["scans"]
        need(first == self.scans, "chunks do not cover the scan")
        need(self.cursor == len(self.body), "chunks do not cover the body")

    def array(self):
        """The whole array in its own type; sums and digests compared on the way."""
        self.cursor = 0
        decode = {COLUMNS: self.counts, LANES: self.lanes, XOR: self.rows, SCALED: self.scaled}
        need(self.codec in decode, f"codec {self.codec}")
        out = decode[self.codec]().reshape(self.shape)
        expected = self.header.get("logical_sha256")
        if self.codec == COLUMNS:
            own = self.header["scientific_metadata"].get("extensions", {}).get("stempack/acquisition", {})
            expected = own.get("logical_sha256")
        if expected is not None:
            need(hashlib.sha256(out.tobytes()).hexdigest() == expected, "logical digest")
        return out

    def counts(self):
        h = self.header
        need(h["interval"] == INTERVAL and h["dtype"] in ("uint8", "uint16"), "interval and type")
        need(isinstance(h["metadata"], dict), "metadata")
        valid, out = self.valid(), np.empty((self.scans, self.pixels), h["dtype"])
        for first, scans, chunk in self.chunks():
            need(len(chunk["arrays"]) == 6, "six arrays")
            kinds = ("u1", "<u4", "u1", "<u4", "<u8", "u1")
            arrays = [self.aligned(entry, kind) for entry, kind in zip(chunk["arrays"], kinds)]
            counts = self.streams(*arrays[:3], scans, self.pixels)
            need(int(counts.max()) <= np.iinfo(out.dtype).max, "a count above the type")
            self.tile_sums(counts, valid, arrays[3:])
            out[first : first + scans] = counts
        return out

    def float_header(self):
        h = self.header
        need(h["dtype"] == "float32" and isinstance(h["empad"], dict), "float header")
        need(len(h["logical_sha256"]) == 64, "logical digest")

    def lanes(self):
        self.float_header()
        out = np.empty((self.scans, 2 * self.pixels), "<u2")
        for first, scans, chunk in self.chunks():
            need(scans <= min(INTERVAL, (32 << 20) // (4 * self.pixels)), "scans of a float chunk")
            payload, offsets, selectors = self.follows(chunk, "payload"), self.follows(chunk, "offset", "<u4"), self.follows(chunk, "model")
            out[first : first + scans] = self.streams(payload, offsets, selectors, scans, 2 * self.pixels, filler=True)
        return out.view("<f4")

    def rows(self):
        self.float_header()
        need(self.shape[2:] == [128, 128], "detector of 128×128")
        out = np.empty((self.scans * 128, 128), "<u4")
        for first, scans, chunk in self.chunks():
            words, descriptors = self.follows(chunk, "payload", "<u4"), self.follows(chunk, "descriptor", "<u4")
            need(len(descriptors) == scans * 512, "descriptors")
            at = 0
            for row, (base, width, shift, place) in enumerate(descriptors.reshape(-1, 4).tolist()):
                need(width <= 32 and shift <= 32 - width and place == at, "descriptor")
                at += 4 * width
                need(at <= len(words), "row beyond the payload")
                out[first * 128 + row] = [base ^ d << shift for d in packed(words[place:at], width, 128)]
        return out.view("<f4")

    def scaled(self):
        calibration = self.header["intensity_calibration"]
        need(calibration["version"] == 2 and calibration["complete"] is True, "calibration")
        need(all(math.isfinite(r["scale"]) and r["scale"] > 0 and math.isfinite(r["offset"]) for r in calibration["regions"]), "scale")
        out = np.empty((self.scans, self.pixels), "<f4")
        for first, scans, chunk in self.chunks():
            arrays = [self.aligned(entry, kind) for entry, kind in zip(chunk["arrays"], ("u1", "<u4", "u1"))]
            region = calibration["regions"][chunk["region"]]
            need(region["first_frame"] <= first and first + scans <= region["stop_frame"], "region of a chunk")
            codes = self.streams(*arrays, scans, self.pixels).astype(np.float64)
            out[first : first + scans] = codes * region["scale"] + region["offset"]
        return out


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file")
    parser.add_argument("--array", metavar="OUT.npy")
    options = parser.parse_args()
    try:
        qem = Qem(options.file)
        array = qem.array()
    except (Refused, KeyError, TypeError, ValueError) as e:
        print(f"refused: {e!r}", file=sys.stderr)
        return 2
    if options.array:
        np.save(options.array, array)
    print(json.dumps({"codec": qem.codec, "shape": qem.shape, "logical_sha256": hashlib.sha256(array.tobytes()).hexdigest()}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
