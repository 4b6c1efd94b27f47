#!/usr/bin/env python3
"""An independent reader of Lossless Pack Format v1, both profiles, in numpy.

Written from docs/formats/lossless-pack.md and nothing else, so that the tests can ask a second opinion about the files
that stempack writes. It is slow and strict; a file it refuses raises `Refused`.

  pack_oracle.py FILE [--working OUT.npy] [--raw OUT.npy]
"""
import argparse
import hashlib
import json
import math
import struct
import sys
import zlib

import numpy as np

PRELUDE = b"QGPUH5\x00\x01"
INDEX_U16 = b"QGIX\x00\x00\x00\x01"
INDEX_U8 = b"QGIX\x00\x00\x00\x03"
SUPERBLOCK = b"\x89HDF\r\n\x1a\n"
MAX_JSON = 16 << 20
HEX = set("0123456789abcdef")


class Refused(ValueError):
    """The file contradicts the format."""


def need(condition, what):
    if not condition:
        raise Refused(what)


def is_int(value):
    return isinstance(value, int) and not isinstance(value, bool)


def is_number(value):
    return is_int(value) or (isinstance(value, float) and math.isfinite(value))


def is_digest(value):
    return isinstance(value, str) and len(value) == 64 and set(value) <= HEX


def sha256(data):
    return hashlib.sha256(data).hexdigest()


def lz4_block(source, size):
    """One raw LZ4 block that must decode to exactly `size` bytes and use all of its input."""
    out, at = bytearray(), 0

    def length(start):
        nonlocal at
        if start < 15:
            return start
        while True:
            need(at < len(source), "LZ4: a length runs off the input")
            step = source[at]
            at += 1
            start += step
            if step != 255:
                return start

    while at < len(source):
        token = source[at]
        at += 1
        literals = length(token >> 4)
        need(at + literals <= len(source), "LZ4: literals run off the input")
        out += source[at : at + literals]
        at += literals
        need(len(out) <= size, "LZ4: more output than declared")
        if at == len(source):
            break
        need(at + 2 <= len(source), "LZ4: no match offset")
        offset = source[at] | source[at + 1] << 8
        at += 2
        need(0 < offset <= len(out), "LZ4: a match begins before the output")
        match = length(token & 15) + 4
        need(len(out) + match <= size, "LZ4: a match runs past the output")
        for _ in range(match):
            out.append(out[-offset])
    need(len(out) == size, f"LZ4: {len(out)} bytes instead of {size}")
    return bytes(out)


def unpack_bits(words, width, samples):
    """Rows of u32 words → rows of `samples` numbers of `width` bits, least significant bit first."""
    bits = np.unpackbits(np.ascontiguousarray(words, "<u4").view(np.uint8), axis=1, bitorder="little")
    bits = bits[:, : samples * width].reshape(len(words), samples, width)
    return bits.astype(np.uint32) @ (np.uint32(1) << np.arange(width, dtype=np.uint32))


class Record:
    """One of the 96-byte shard records."""

    def __init__(self, data):
        (
            self.payload_offset,
            self.payload_bytes,
            self.lengths_offset,
            self.lengths_bytes,
            self.widths_offset,
            self.widths_bytes,
            self.decoded_bytes,
            self.descriptors,
            self.chunks,
        ) = struct.unpack_from("<7Q2I", data)
        self.digest = data[64:96].hex()


class Pack:
    """A parsed and checked file. Nothing is decoded yet."""

    def __init__(self, path):
        with open(path, "rb") as file:
            self.data = file.read()
        self._prelude()
        self._index()
        self._ranges()
        self._manifest()
        self.raw_access = self._raw_access()

    # ------------------------------------------------------------------ structure

    def _prelude(self):
        d = self.data
        need(len(d) >= 24 and d[:8] == PRELUDE, "no prelude")
        json_bytes, crc, self.index_at, self.index_bytes = struct.unpack_from("<4I", d, 8)
        need(0 < json_bytes <= MAX_JSON, "JSON size")
        need(24 + json_bytes <= self.index_at, "JSON runs into the index")
        need(self.index_at + self.index_bytes <= len(d), "index outside the file")
        text = d[24 : 24 + json_bytes]
        need(zlib.crc32(text) == crc, "JSON checksum")

        def pairs(items):
            need(len({k for k, _ in items}) == len(items), "a JSON key occurs twice")
            return dict(items)

        def constant(name):
            raise Refused(f"JSON {name}")

        try:
            self.json = json.loads(text.decode("utf-8"), object_pairs_hook=pairs, parse_constant=constant)
        except (UnicodeDecodeError, json.JSONDecodeError, RecursionError) as e:
            raise Refused(f"JSON: {e}") from e
        need(isinstance(self.json, dict), "JSON is no object")

    def _index(self):
        d = self.data[self.index_at : self.index_at + self.index_bytes]
        need(len(d) >= 72, "index too short")
        if d[:8] == INDEX_U16:
            self.profile, head, self.tile = "u16", 40, 128
            k, chunk, *shape, self.scans_per_shard, excluded = struct.unpack_from("<8I", d, 8)
            need(chunk == 128, "payload chunk bytes")
        elif d[:8] == INDEX_U8:
            self.profile, head, self.tile = "u8", 48, 32
            k, reserved, *shape, self.scans_per_shard, tile, encoding, excluded = struct.unpack_from("<10I", d, 8)
            need(reserved == 0 and tile == 32 and encoding == 1, "u8 layout words")
            need(self.scans_per_shard % 32 == 0, "shards of incomplete tiles")
        else:
            raise Refused("index magic")
        self.shape = tuple(shape)
        need(k > 0 and all(self.shape) and self.scans_per_shard > 0, "a zero in the geometry")
        self.scans, self.pixels = shape[0] * shape[1], shape[2] * shape[3]
        need(self.scans == k * self.scans_per_shard, "shards do not cover the scan")
        need(excluded <= self.pixels, "more exclusions than pixels")
        need(len(d) == head + 4 * excluded + 32 + 96 * k, "index size")
        self.excluded = list(struct.unpack_from(f"<{excluded}I", d, head))
        need(len(set(self.excluded)) == excluded, "an exclusion occurs twice")
        need(all(p < self.pixels for p in self.excluded), "an exclusion outside the detector")
        at = head + 4 * excluded
        self.identity = d[at : at + 32].hex()
        self.records = [Record(d[at + 32 + 96 * i : at + 128 + 96 * i]) for i in range(k)]
        self.tiles = -(-self.scans_per_shard // self.tile)

    def _ranges(self):
        taken = [(0, 24, "prelude"), (self.index_at, self.index_bytes, "index")]
        # Where HDF5 looks for its superblock behind a user block. Everything before it belongs to the user block.
        places = (512 << i for i in range(48))
        behind = (p for p in places if p >= self.index_at + self.index_bytes and self.data[p : p + 8] == SUPERBLOCK)
        self.user_block = next(behind, None)
        for i, r in enumerate(self.records):
            need(r.payload_bytes > 0 and r.decoded_bytes > 0 and r.decoded_bytes % 4 == 0, f"shard {i}: empty or no words")
            if self.profile == "u16":
                need(r.descriptors == self.pixels * self.tiles, f"shard {i}: descriptor count")
                need(r.widths_bytes == r.descriptors, f"shard {i}: width bytes")
                need(r.chunks == -(-r.decoded_bytes // 128), f"shard {i}: chunk count")
                need(r.lengths_bytes == r.chunks, f"shard {i}: length bytes")
            else:
                words = self.pixels * (-(-self.tiles // 32) + -(-self.tiles // 8))
                need(r.descriptors == words, f"shard {i}: header words")
                need(r.widths_bytes == 4 * words, f"shard {i}: header bytes")
                need(r.lengths_offset == r.lengths_bytes == r.chunks == 0, f"shard {i}: lengths in a u8 pack")
                need(r.payload_bytes == r.decoded_bytes, f"shard {i}: payload and decoded size")
            for what in ("payload", "lengths", "widths"):
                offset, size = getattr(r, f"{what}_offset"), getattr(r, f"{what}_bytes")
                need(size <= len(self.data) and offset <= len(self.data) - size, f"shard {i}: {what} outside the file")
                if size:
                    need(offset >= (self.user_block or 0), f"shard {i}: {what} inside the user block")
                    taken.append((offset, size, f"shard {i} {what}"))
        taken.sort()
        for (a, size, left), (b, _, right) in zip(taken, taken[1:]):
            need(a + size <= b, f"{left} overlaps {right}")

    # ------------------------------------------------------------------ manifest

    def _equal(self, key, value):
        need(key in self.json, f"JSON has no {key}")
        found = self.json[key]
        # Equal is not enough: true equals 1 and 2.0 equals 2 in Python.
        need(found == value and type(found) is type(value), f"JSON {key} is {found!r}, not {value!r}")

    def _digest(self, key, required=False):
        value = self.json.get(key)
        need(value is not None or not required, f"JSON has no {key}")
        need(value is None or is_digest(value), f"JSON {key} is no digest")
        return value

    def _manifest(self):
        j, u16 = self.json, self.profile == "u16"
        self._equal("schema", "quantem.gpu.packed-detector-h5/" + ("v1" if u16 else "v3"))
        self._equal("status", "complete")
        shape = j.get("source_shape")
        need(isinstance(shape, list) and all(map(is_int, shape)) and tuple(shape) == self.shape, "JSON source_shape")
        self._equal("source_identity_sha256", self.identity)
        self._equal("source_dtype", "uint16")
        for key in ("scan_bin", "detector_bin"):
            self._equal(key, 1)
        self._equal("crop", None)
        self._equal("shard_count", len(self.records))
        if u16:
            self._equal("scans_per_shard", self.scans_per_shard)
            self._equal("payload_chunk_bytes", 128)
            self._equal("payload_chunk_codec", "independent raw LZ4 blocks")
            self._equal("payload_chunk_length_codec", "uint8 encoded_bytes_minus_one")
            self._equal("descriptor_codec", "uint8 five-bit widths")
            need(j.get("working_dtype") in ("uint8", "uint16"), "JSON working_dtype")
            columns = self.shape[3]
            pixels = j.get("masked_detector_pixels")
            want = [[p // columns, p % columns] for p in self.excluded]
            need(isinstance(pixels, list) and all(isinstance(p, list) and all(map(is_int, p)) for p in pixels), "JSON pixels")
            need(pixels == want, "JSON masked_detector_pixels")
            for key in ("source_raw_logical_sha256", "detector_mask_sha256", "working_logical_sha256"):
                self._digest(key)
            policy = j.get("masked_detector_payload_policy")
            need(policy in (None, "retained_exactly_in_payload"), "JSON payload policy")
            self._shard_table()
        else:
            self._equal("payload_codec", "direct-bitpacked-u32")
            self._equal("scan_tile", 32)
            self._equal("working_dtype", "uint8")
            self._equal(
                "working_value_definition",
                "all admitted source counts exactly; authenticated dead pixels set to zero",
            )
            for key in ("prepared_uint8_sha256", "detector_mask_sha256", "source_raw_logical_sha256"):
                self._digest(key, required=True)
            pixels = j.get("masked_detector_pixels")
            need(isinstance(pixels, list) and all(map(is_int, pixels)), "JSON masked_detector_pixels")
            need(pixels == self.excluded and sorted(pixels) == pixels, "JSON masked_detector_pixels")
        self._constants()
        self._calibration()

    def _constants(self):
        values, digest = self.json.get("masked_detector_raw_values"), self._digest("masked_detector_pixels_sha256")
        self.constants = None
        if self.profile == "u16":
            need((values is None) == (digest is None), "JSON raw values and pixel digest go together")
        if digest is not None:
            need(digest == sha256(np.array(self.excluded, "<u4").tobytes()), "JSON masked_detector_pixels_sha256")
        if values is not None:
            good = isinstance(values, list) and all(is_int(v) and 0 <= v <= 65535 for v in values)
            need(good and len(values) == len(self.excluded), "JSON masked_detector_raw_values")
        if values is not None and digest is not None:
            self.constants = values

    def _shard_table(self):
        table = self.json.get("shards")
        if table is None:
            return
        need(isinstance(table, list) and len(table) == len(self.records), "JSON shards")
        for i, (entry, r) in enumerate(zip(table, self.records)):
            want = {
                "ordinal": i,
                "payload_file_offset": r.payload_offset,
                "payload_file_bytes": r.payload_bytes,
                "lengths_file_offset": r.lengths_offset,
                "lengths_file_bytes": r.lengths_bytes,
                "descriptor_widths_file_offset": r.widths_offset,
                "descriptor_widths_file_bytes": r.widths_bytes,
                "payload_decoded_bytes": r.decoded_bytes,
                "descriptor_count": r.descriptors,
                "payload_chunk_count": r.chunks,
                "payload_decoded_sha256": r.digest,
            }
            need(isinstance(entry, dict), "JSON shards")
            for key, value in want.items():
                found = entry.get(key)
                need(found == value and type(found) is type(value), f"JSON shards[{i}].{key} is {found!r}, not {value!r}")

    def _calibration(self):
        c = self.json.get("detector_calibration")
        if c is None:
            return
        need(isinstance(c, dict), "calibration is no object")
        need(c.get("schema") == "quantem.gpu.detector-calibration/v1", "calibration schema")
        need(c.get("source_identity_sha256") == self.identity, "calibration of another source")
        centre, radius = c.get("detector_center_px"), c.get("bright_field_radius_px")
        need(isinstance(centre, list) and len(centre) == 2 and all(map(is_number, centre)), "calibration centre")
        need(0 <= centre[0] < self.shape[2] and 0 <= centre[1] < self.shape[3], "calibration centre")
        need(is_number(radius) and 0 < radius <= math.hypot(*self.shape[2:]), "calibration radius")
        need(isinstance(c.get("method"), str) and c["method"].strip(), "calibration method")
        angle, order = c.get("dpc_rotation_degrees"), c.get("dpc_component_order_exchanged")
        need((angle is None) == (order is None), "calibration rotation without order")
        need(angle is None or (is_number(angle) and isinstance(order, bool)), "calibration rotation")

    # ------------------------------------------------------------------ what raw reads may claim

    def _raw_access(self):
        extension = self.json.get("stempack_source")
        self.extension = None
        if extension is not None:
            need(isinstance(extension, dict) and extension.get("schema") == "stempack.source/1", "stempack_source")
            need(extension.get("dtype") in ("uint8", "uint32"), "stempack_source dtype")
            need(is_digest(extension.get("logical_sha256")), "stempack_source digest")
            values = extension.get("excluded_raw_values")
            if values is not None:
                good = isinstance(values, list) and all(is_int(v) and 0 <= v < 1 << 32 for v in values)
                need(good and len(values) == len(self.excluded), "stempack_source excluded_raw_values")
            self.extension = extension
        if self.profile == "u8":
            if self.constants is not None:
                return "exact_exclusion_constants"
            return "mask_applied_only_legacy" if self.excluded else "exact_no_exclusions"
        if not self.excluded:
            return "exact_no_exclusions"
        if self.json.get("masked_detector_payload_policy") is not None:
            return "exact_retained_payload"
        if self.extension and self.extension.get("excluded_raw_values") is not None:
            return "exact_extension_constants"
        return "mask_applied_only_legacy"

    # ------------------------------------------------------------------ decoding

    def stored(self):
        """What the payload holds, as (scan positions, pixels)."""
        if not hasattr(self, "_stored"):
            shard = self._u16_shard if self.profile == "u16" else self._u8_shard
            self._stored = np.concatenate([shard(i, r) for i, r in enumerate(self.records)])
        return self._stored

    def _piece(self, offset, size):
        return self.data[offset : offset + size]

    def _u16_shard(self, i, r):
        lengths = np.frombuffer(self._piece(r.lengths_offset, r.lengths_bytes), np.uint8).astype(int) + 1
        need(int(lengths.sum()) == r.payload_bytes, f"shard {i}: lengths do not cover the payload")
        payload, at, out = self._piece(r.payload_offset, r.payload_bytes), 0, []
        for block, length in enumerate(lengths.tolist()):
            size = min(128, r.decoded_bytes - 128 * block)
            out.append(lz4_block(payload[at : at + length], size))
            at += length
        decoded = b"".join(out)
        need(sha256(decoded) == r.digest, f"shard {i}: decoded_sha256")

        widths = np.frombuffer(self._piece(r.widths_offset, r.widths_bytes), np.uint8).astype(np.int64)
        need(int(widths.max()) <= 16, f"shard {i}: a width above 16")
        admitted = np.ones(self.pixels, bool)
        admitted[self.excluded] = False
        if self.json["working_dtype"] == "uint8":
            wide = widths.reshape(self.pixels, self.tiles)[admitted]
            need(wide.size == 0 or int(wide.max()) <= 8, f"shard {i}: a uint8 label over an admitted width above 8")
        ends = np.cumsum(4 * widths)
        need(4 * int(ends[-1]) == r.decoded_bytes, f"shard {i}: widths do not cover the decoded bytes")
        starts = ends - 4 * widths
        need(int(starts.max()) < 1 << 27, f"shard {i}: an offset above 27 bits")
        return self._samples(np.frombuffer(decoded, "<u4"), starts, widths, 4)

    def _u8_shard(self, i, r):
        payload = self._piece(r.payload_offset, r.payload_bytes)
        need(sha256(payload) == r.digest, f"shard {i}: decoded_sha256")
        checkpoints = -(-self.tiles // 32)
        header = np.frombuffer(self._piece(r.widths_offset, r.widths_bytes), "<u4").astype(np.int64)
        header = header.reshape(self.pixels, -1)
        nibbles = header[:, checkpoints:, None] >> (4 * np.arange(8)) & 15
        nibbles = nibbles.reshape(self.pixels, -1)
        widths = nibbles[:, : self.tiles]
        need(not nibbles[:, self.tiles :].any(), f"shard {i}: an unused nibble is not zero")
        need(int(widths.max()) <= 8, f"shard {i}: a width above 8")
        need(not widths[self.excluded].any(), f"shard {i}: an excluded pixel has payload")
        ends = np.cumsum(widths, axis=1)
        bases = np.concatenate([[0], np.cumsum(ends[:, -1])])
        need((header[:, 0] == bases[:-1]).all(), f"shard {i}: payload bases")
        need((header[:, 1:checkpoints] == ends[:, 31::32][:, : checkpoints - 1]).all(), f"shard {i}: checkpoints")
        need(4 * int(bases[-1]) == r.payload_bytes, f"shard {i}: widths do not cover the payload")
        need(int(header[:, 0].max()) < 1 << 27, f"shard {i}: a base above 27 bits")
        starts = (bases[:-1, None] + ends - widths).ravel()
        return self._samples(np.frombuffer(payload, "<u4"), starts, widths.ravel(), 1)

    def _samples(self, words, starts, widths, words_per_bit):
        """Pixel-major tiles of packed words → (scan positions, pixels)."""
        values = np.zeros((len(widths), self.tile), np.uint16)
        for width in range(1, 17):
            rows = np.flatnonzero(widths == width)
            if rows.size:
                place = starts[rows, None] + np.arange(words_per_bit * width)
                values[rows] = unpack_bits(words[place], width, self.tile)
        return values.reshape(self.pixels, -1)[:, : self.scans_per_shard].T

    def working(self):
        """The mask-applied array that every scientific product starts from, checked against the manifest's digest."""
        array = self.stored().copy()
        array[:, self.excluded] = 0
        array = array.reshape(self.shape)
        if self.profile == "u8":
            need(sha256(array.astype(np.uint8).tobytes()) == self.json["prepared_uint8_sha256"], "prepared_uint8_sha256")
        elif self.json.get("working_logical_sha256") is not None:
            need(sha256(array.astype("<u2").tobytes()) == self.json["working_logical_sha256"], "working_logical_sha256")
        return array

    def raw(self):
        """What the detector wrote, in the source's own type, checked against every digest that the manifest has."""
        need(self.raw_access != "mask_applied_only_legacy", "the file cannot prove its raw values")
        array = self.stored().copy()
        if self.raw_access == "exact_exclusion_constants":
            array[:, self.excluded] = self.constants
        if self.raw_access != "exact_extension_constants" and self.json.get("source_raw_logical_sha256") is not None:
            need(sha256(array.astype("<u2").tobytes()) == self.json["source_raw_logical_sha256"], "source_raw_logical_sha256")
        if self.extension:
            dtype = np.dtype(self.extension["dtype"])
            need(int(array.max()) <= np.iinfo(dtype).max, "a value that the source's type cannot hold")
            array = array.astype(dtype)
            values = self.extension.get("excluded_raw_values")
            if values is not None:
                array[:, self.excluded] = values
            need(sha256(array.astype(dtype.newbyteorder("<")).tobytes()) == self.extension["logical_sha256"], "logical_sha256")
        return array.reshape(self.shape)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file")
    parser.add_argument("--working", metavar="OUT.npy")
    parser.add_argument("--raw", metavar="OUT.npy")
    options = parser.parse_args()
    try:
        pack = Pack(options.file)
        working = pack.working()
        if options.working:
            np.save(options.working, working)
        if options.raw:
            np.save(options.raw, pack.raw())
    except Refused as e:
        print(f"refused: {e}", file=sys.stderr)
        return 2
    print(
        json.dumps(
            {
                "profile": pack.profile,
                "shape": pack.shape,
                "shards": len(pack.records),
                "excluded": pack.excluded,
                "raw_access": pack.raw_access,
            }
        )
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
