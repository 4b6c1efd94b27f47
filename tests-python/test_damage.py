"""Damage that no structure shows: every digest and every statement of a file is compared with what it speaks of.

The files are sound in every checksum that lies on the way; only the recorded digest of the samples, or a statement that
says the same thing twice, gives the damage away.
"""
import base64
import hashlib
import json
import os
import struct
import zlib

import numpy as np

import acquisitions
import cli
from acquisitions import counts, exclude
from test_pack import Temporary


def take_apart(data):
    """Manifest and index of a pack."""
    _, json_bytes, _, index_at, index_bytes = struct.unpack("<8s4I", data[:24])
    return json.loads(data[24 : 24 + json_bytes]), data[index_at : index_at + index_bytes]


def with_manifest(data, manifest):
    """The pack with another manifest, whose checksum is right."""
    _, index = take_apart(data)
    text = json.dumps(manifest, separators=(",", ":"), sort_keys=True).encode()
    at = (24 + len(text) + 7) // 8 * 8
    block = bytearray(65536)
    assert at + len(index) <= len(block)
    block[:24] = struct.pack("<8s4I", data[:8], len(text), zlib.crc32(text), at, len(index))
    block[24 : 24 + len(text)] = text
    block[at : at + len(index)] = index
    return bytes(block) + data[65536:]


def first_record(data):
    """Scans per shard and the seven ranges of the first shard."""
    _, index = take_apart(data)
    at = 44 if index[7] == 3 else 36
    (excluded,) = struct.unpack_from("<I", index, at)
    return struct.unpack_from("<I", index, 32)[0], struct.unpack_from("<7Q", index, at + 4 + 4 * excluded + 32)


def swapped_u8_widths(data):
    """The widths of two tiles of one pixel change places: every sum of widths stays."""
    data = bytearray(data)
    scans, (_, _, _, _, offset, size, _) = first_record(data)
    tiles = scans // 32
    checkpoints, per_pixel = -(-tiles // 32), -(-tiles // 32) - (-tiles // 8)
    for pixel in range(size // 4 // per_pixel):
        at = offset + 4 * (pixel * per_pixel + checkpoints)
        (word,) = struct.unpack_from("<I", data, at)
        low, high = word & 15, word >> 4 & 15
        if low != high:
            struct.pack_into("<I", data, at, word & ~0xFF | high | low << 4)
            return bytes(data)
    raise AssertionError("no pixel has two widths")


def swapped_u16_widths(data):
    data = bytearray(data)
    _, (_, _, _, _, offset, size, _) = first_record(data)
    for at in range(offset, offset + size - 1):
        if data[at] != data[at + 1]:
            data[at], data[at + 1] = data[at + 1], data[at]
            return bytes(data)
    raise AssertionError("all widths are the same")


def without_width_digests(data):
    manifest, _ = take_apart(data)
    for shard in manifest["shards"]:
        del shard["descriptor_widths_sha256"]
    return with_manifest(data, manifest)


class Damage(Temporary):
    def setUp(self):
        super().setUp()
        raw = counts((8, 8), (12, 14))
        raw[:4] //= 4
        self.original = acquisitions.write(self.folder / "low", raw, exclude(raw, [5, 30]))
        raw = counts((8, 16), (9, 11))
        raw[..., 4, 4] += 700
        self.bright = acquisitions.write(self.folder / "bright", raw, exclude(raw, [17]))

    def packed(self, source, name="packed.h5"):
        file = self.folder / name
        answer = cli.run("pack", source.master, file, *source.scan_argument)
        self.assertEqual(answer.code, 0, repr(answer))
        return file, answer.json["profile"]

    def damaged(self, file, data, name="damaged.h5"):
        path = self.folder / name
        path.write_bytes(data)
        return path

    def failed(self, file, *args):
        """Names of the checks that fail; the verdict is that something is different."""
        answer = cli.run("verify", file, *args)
        self.assertEqual(answer.code, 1, repr(answer))
        self.assertFalse(answer.json["ok"])
        return {c["name"] for c in answer.json["checks"] if not c["ok"]}

    def refuses(self, *args, code="digest_mismatch"):
        """A verb that would write a file refuses, and leaves nothing."""
        before = sorted(self.folder.rglob("*"))
        document = cli.refused(self, cli.run(*args), code=code)
        self.assertEqual(sorted(self.folder.rglob("*")), before)
        return document

    def test_widths_that_trade_places(self):
        for source, profile, swap in ((self.original, "u8", swapped_u8_widths), (self.bright, "u16", swapped_u16_widths)):
            with self.subTest(profile):
                file, found = self.packed(source, f"{profile}.h5")
                self.assertEqual(found, profile)
                data = swap(file.read_bytes())
                if profile == "u16":
                    # The shard table's digest of the widths would be enough.
                    self.assertEqual(self.failed(self.damaged(file, data)), {"decoded"})
                    data = without_width_digests(data)
                bad = self.damaged(file, data)
                self.assertEqual(self.failed(bad), {"working", "raw"})
                out = self.folder / "out"
                self.refuses("unpack", bad, f"{out}.npy")
                self.refuses("unpack", bad, f"{out}.npy", "--working")
                self.refuses("pack", bad, f"{out}.h5")
                self.refuses("pack", bad, f"{out}.qem")
                digest = hashlib.sha256(data).hexdigest()
                self.refuses("enrich", bad, f"{out}.h5", "--expect-sha256", digest, "--disk", "4,4,2")

    def test_a_digest_of_the_raw_samples_alone_is_used_too(self):
        file, _ = self.packed(self.bright)
        data = without_width_digests(swapped_u16_widths(file.read_bytes()))
        manifest, _ = take_apart(data)
        del manifest["working_logical_sha256"]
        bad = self.damaged(file, with_manifest(data, manifest))
        self.assertEqual(self.failed(bad), {"raw"})
        self.refuses("unpack", bad, self.folder / "out.npy", "--working")

    def test_a_changed_constant_of_an_excluded_pixel(self):
        file, _ = self.packed(self.original)
        manifest, _ = take_apart(file.read_bytes())
        manifest["masked_detector_raw_values"][0] ^= 1
        bad = self.damaged(file, with_manifest(file.read_bytes(), manifest))
        self.assertEqual(self.failed(bad), {"raw"})
        self.refuses("unpack", bad, self.folder / "out.npy")
        cli.array("unpack", bad, "--working")

    def test_a_part_is_read_without_the_digest_of_the_whole(self):
        file, _ = self.packed(self.original)
        got, _ = cli.array("unpack", file, "--region", "2:5,1:4")
        np.testing.assert_array_equal(got, self.original.raw[2:5, 1:4])

    def test_every_statement_of_the_shard_table(self):
        file, _ = self.packed(self.bright)
        data = file.read_bytes()
        manifest, _ = take_apart(data)
        _, (payload, payload_bytes, _, _, widths, widths_bytes, _) = first_record(data)
        entry = manifest["shards"][0]
        entry["scan_count"] = manifest["scans_per_shard"]
        entry["payload_compressed_sha256"] = hashlib.sha256(data[payload : payload + payload_bytes]).hexdigest()
        entry["descriptor_widths_sha256"] = hashlib.sha256(data[widths : widths + widths_bytes]).hexdigest()
        entry["maximum_width"] = max(data[widths : widths + widths_bytes])
        good = self.damaged(file, with_manifest(data, manifest))
        self.assertEqual(cli.run("verify", good).code, 0)
        digest = "ab" * 32
        for key, value, checks, code in (
            ("scan_count", entry["scan_count"] + 1, None, "index_manifest_disagree"),
            ("scan_count", "128", None, "manifest_key"),
            ("maximum_width", entry["maximum_width"] + 1, None, "index_manifest_disagree"),
            ("maximum_width", True, None, "manifest_key"),
            ("descriptor_widths_sha256", digest, {"decoded"}, "digest_mismatch"),
            ("descriptor_widths_sha256", digest.upper(), None, "manifest_value"),
            ("payload_compressed_sha256", digest, {"envelope"}, None),
            ("payload_compressed_sha256", 5, None, "manifest_key"),
        ):
            with self.subTest(key=key, value=value):
                changed = json.loads(json.dumps(manifest))
                changed["shards"][0][key] = value
                bad = self.damaged(file, with_manifest(data, changed))
                if checks is None:
                    cli.refused(self, cli.run("verify", bad), code=code)
                else:
                    self.assertEqual(self.failed(bad), checks)
                if code is not None:
                    self.refuses("unpack", bad, self.folder / "out.npy", code=code)

    def test_every_statement_of_a_receipt(self):
        file, _ = self.packed(self.original)
        receipt = json.loads((self.folder / "packed.h5.receipt.json").read_text())
        stated = self.folder / "stated.json"
        digest = "ab" * 32
        for change in (
            {"outputBytes": 5},
            {"sourceIdentitySHA256": digest},
            {"formatSchema": "another/v1"},
            {"encodingProfile": "exact-uint16-lz4"},
            {"sourceShape": [8, 8, 14, 12]},
            {"workingDtype": "uint16"},
            {"scanTile": 128},
            {"scansPerShard": 32},
            {"shardCount": 2},
            {"scanBin": 2},
            {"detectorBin": 2},
            {"badPixelIndices": [5, 31]},
            {"sourceRawLogicalSHA256": digest},
            {"workingLogicalSHA256": digest},
            {"detectorMaskIdentitySHA256": digest},
            {"shards": receipt["shards"] * 2},
            {"shards": [receipt["shards"][0] | {"ordinal": 1}]},
            {"shards": [receipt["shards"][0] | {"firstScan": 1}]},
            {"shards": [receipt["shards"][0] | {"scanCount": 1}]},
            {"shards": [receipt["shards"][0] | {"payloadBytes": 1}]},
            {"shards": [receipt["shards"][0] | {"payloadSHA256": digest}]},
            {"shards": [receipt["shards"][0] | {"headerBytes": 1}]},
            {"shards": [receipt["shards"][0] | {"headerSHA256": digest}]},
        ):
            with self.subTest(change):
                stated.write_text(json.dumps(receipt | change))
                answer = cli.run("verify", file, "--receipt", stated)
                self.assertEqual(answer.code, 1, repr(answer))
                self.assertFalse(answer.json["sealed"])
                cli.refused(self, cli.run("verify", file, "--receipt", stated, "--require-seal"), code="unsealed")
        stated.write_text(json.dumps(receipt | {"destination": "elsewhere"}))
        answer = cli.run("verify", file, "--receipt", stated, "--require-seal")
        self.assertEqual((answer.code, answer.json["sealed"]), (0, True), repr(answer))

    def prepared(self, file):
        """The pack with moments and images beside its shards, made by numpy; and its manifest."""
        data = file.read_bytes()
        manifest, _ = take_apart(data)
        identity, mask = manifest["source_identity_sha256"], manifest["detector_mask_sha256"]
        working = manifest["prepared_uint8_sha256"]
        frames = self.original.raw.astype(np.uint64).reshape(64, 12, 14)
        admitted = np.ones((12, 14), bool)
        admitted.flat[[5, 30]] = False
        frames = frames * admitted
        row, col = np.mgrid[:12, :14].astype(np.uint64)
        moments = np.stack([frames.sum((1, 2)), (frames * row).sum((1, 2)), (frames * col).sum((1, 2))], 1)
        words = np.zeros((64, 8), "<u4")
        words[:, 0:6:2], words[:, 1:6:2] = moments & 0xFFFFFFFF, moments >> 32
        bounds = [255 * int(k[admitted].sum()) for k in (np.ones_like(row), row, col)]

        def put(blob):
            nonlocal data
            data += b"\0" * (-len(data) % 4)
            data += blob
            return len(data) - len(blob), len(blob), hashlib.sha256(blob).hexdigest()

        at, size, digest = put(words.tobytes())
        manifest["prepared_dpc_moments"] = {
            "schema": "quantem.gpu.prepared-dpc-moments/v1",
            "source_identity_sha256": identity,
            "detector_mask_sha256": mask,
            "working_uint8_sha256": working,
            "detector_selection": "all-nonexcluded-v1",
            "scan_count": 64,
            "selected_detector_pixels": 166,
            "detector_columns": 14,
            "dtype": "little-endian-u32",
            "word_order": "little-endian-u32-pairs",
            "words_per_scan": 8,
            "layout": [f"{n}_{h}" for n in ("total", "row", "column") for h in ("lo", "hi")] + ["padding_0", "padding_1"],
            "file_offset": at,
            "file_bytes": size,
            "sha256": digest,
            "total_bound": str(bounds[0]),
            "row_moment_bound": str(bounds[1]),
            "column_moment_bound": str(bounds[2]),
            "narrow_integer": True,
            "narrow_products": True,
        }
        radius = 2.5
        calibration = {
            "schema": "quantem.gpu.detector-calibration/v1",
            "source_identity_sha256": identity,
            "detector_center_px": [5.5, 6.0],
            "bright_field_radius_px": radius,
            "method": "beam é",
        }
        manifest["detector_calibration"] = calibration

        def canonical(value):
            if isinstance(value, (int, float)):
                return json.dumps("f64be:" + struct.pack(">d", value).hex())
            if isinstance(value, list):
                return "[" + ",".join(map(canonical, value)) + "]"
            if isinstance(value, dict):
                return "{" + ",".join(f"{json.dumps(k)}:{canonical(v)}" for k, v in sorted(value.items())) + "}"
            return json.dumps(value)

        distance = np.hypot(row - 5.5, col - 6.0)
        images = []
        for name, inner, outer in (("bf", 0.0, 1.0), ("abf", 0.5, 1.0), ("adf", 1.0, 2.0)):
            members = (distance >= inner * radius) & (distance <= outer * radius) & admitted
            entry = {"name": name, "center_px": [5.5, 6.0], "selected_detector_pixels": int(members.sum())}
            entry |= {"inner_radius_px": inner * radius, "outer_radius_px": outer * radius}
            values = (frames * members).sum((1, 2)).astype("<u4")
            for what, blob in (("mask", members.astype("u1").tobytes()), ("values", values.tobytes())):
                at, size, digest = put(blob)
                entry |= {f"{what}_file_offset": at, f"{what}_file_bytes": size, f"{what}_sha256": digest}
            images.append(entry)
        manifest["prepared_detector_products"] = {
            "schema": "quantem.gpu.prepared-detector-products/v1",
            "source_identity_sha256": identity,
            "working_uint8_sha256": working,
            "detector_mask_sha256": mask,
            "detector_calibration_sha256": hashlib.sha256(canonical(calibration).encode()).hexdigest(),
            "detector_calibration_digest_encoding": "canonical-json-numbers-as-f64be-hex/v1",
            "scan_shape": [8, 8],
            "detector_shape": [12, 14],
            "product_dtype": "little-endian-u32",
            "mask_dtype": "uint8-binary-row-major",
            "mask_rule": "quantem.gpu.detector-mask-inclusive/v1",
            "product_order": ["bf", "abf", "adf"],
            "products": images,
        }
        return data, manifest

    def test_prepared_results_that_fit(self):
        file, _ = self.packed(self.original)
        data, manifest = self.prepared(file)
        good = self.damaged(file, with_manifest(data, manifest))
        answer = cli.run("verify", good)
        self.assertEqual(answer.code, 0, repr(answer))
        self.assertIn("prepared", {c["name"] for c in answer.json["checks"]})
        # Each number may be wrong and its digest right.
        for section, prefix in (("prepared_dpc_moments", ""), ("prepared_detector_products", "values_"), ("prepared_detector_products", "mask_")):
            with self.subTest(section=section, prefix=prefix):
                changed, bad = json.loads(json.dumps(manifest)), bytearray(data)
                entry = changed[section] if not prefix else changed[section]["products"][1]
                at, size = entry[prefix + "file_offset"], entry[prefix + "file_bytes"]
                bad[at + size // 2] ^= 1
                self.assertEqual(self.failed(self.damaged(file, with_manifest(bytes(bad), manifest))), {"prepared"})
                entry[prefix + "sha256"] = hashlib.sha256(bad[at : at + size]).hexdigest()
                self.assertEqual(self.failed(self.damaged(file, with_manifest(bytes(bad), changed))), {"prepared"})

    def test_prepared_results_that_do_not_fit(self):
        file, _ = self.packed(self.original)
        data, manifest = self.prepared(file)
        _, (payload, *_) = first_record(data)
        first = ("prepared_detector_products", "products", 0)
        for *path, key, value in (
            ("prepared_dpc_moments", []),
            ("prepared_detector_products", 3),
            ("detector_calibration", None),
            ("prepared_dpc_moments", "schema", "quantem.gpu.prepared-dpc-moments/v2"),
            ("prepared_dpc_moments", "file_offset", payload),
            ("prepared_dpc_moments", "file_offset", manifest["prepared_dpc_moments"]["file_offset"] + 4),
            ("prepared_dpc_moments", "file_offset", manifest["prepared_dpc_moments"]["file_offset"] + 1),
            ("prepared_dpc_moments", "file_offset", 1024),
            ("prepared_dpc_moments", "file_offset", 2**64 - 32),
            ("prepared_dpc_moments", "file_bytes", 64 * 32 - 32),
            ("prepared_dpc_moments", "scan_count", 63),
            ("prepared_dpc_moments", "total_bound", 5),
            ("prepared_dpc_moments", "row_moment_bound", "5"),
            ("prepared_dpc_moments", "narrow_integer", False),
            ("prepared_dpc_moments", "narrow_products", 1),
            ("prepared_dpc_moments", "detector_mask_sha256", "ab" * 32),
            ("prepared_dpc_moments", "working_uint8_sha256", "ab" * 32),
            ("prepared_dpc_moments", "source_identity_sha256", "ab" * 32),
            ("prepared_dpc_moments", "layout", []),
            ("prepared_detector_products", "mask_rule", "another/v1"),
            ("prepared_detector_products", "scan_shape", [4, 16]),
            ("prepared_detector_products", "product_order", ["bf", "adf", "abf"]),
            ("prepared_detector_products", "detector_calibration_sha256", "ab" * 32),
            ("prepared_detector_products", "products", []),
            (*first, "name", "adf"),
            (*first, "center_px", [5.5, 6.5]),
            (*first, "outer_radius_px", 2.4),
            (*first, "mask_file_offset", 10**9),
            (*first, "values_file_bytes", 5),
            (*first, "values_sha256", "short"),
        ):
            with self.subTest(path=path, key=key, value=value):
                changed = json.loads(json.dumps(manifest))
                section = changed
                for step in path:
                    section = section[step]
                section[key] = value
                bad = self.damaged(file, with_manifest(data, changed))
                document = cli.refused(self, cli.run("verify", bad), kind="Malformed")
                self.refuses("unpack", bad, self.folder / "out.npy", code=document["code"])

    def test_tables_that_lie_before_their_payload(self):
        """In a file without an HDF5 structure, which alone would say where the user block ends."""
        file, _ = self.packed(self.bright)
        data = file.read_bytes()
        manifest, index = take_apart(data)
        _, (payload, payload_bytes, lengths, lengths_bytes, widths, widths_bytes, _) = first_record(data)
        parts = {"widths": (widths, widths_bytes), "lengths": (lengths, lengths_bytes), "payload": (payload, payload_bytes)}
        # Many bytes of nothing behind the widths, so that the payload begins behind another power of two.
        body, starts = b"", {}
        for name, (at, size) in parts.items():
            starts[name] = 65536 + len(body)
            body += data[at : at + size] + (bytes(100000) if name == "widths" else b"")
        del manifest["shards"]
        record = len(index) - 96
        changed = bytearray(data[:65536])
        at = struct.unpack_from("<I", data, 16)[0] + record
        for slot, name in ((0, "payload"), (16, "lengths"), (32, "widths")):
            struct.pack_into("<Q", changed, at + slot, starts[name])
        bare = self.damaged(file, with_manifest(bytes(changed) + body, manifest))
        got, _ = cli.array("unpack", bare)
        np.testing.assert_array_equal(got, self.bright.raw)

    def with_header(self, path, change):
        """A `.qem` file whose header is changed and whose digests are right."""
        data = path.read_bytes()
        size, start = struct.unpack("<QQ", data[8:24])
        header = json.loads(data[56:start])
        change(header)
        text = json.dumps(header).encode()
        front = b"QEMDATA1" + struct.pack("<QQ", len(text), 56 + len(text)) + hashlib.sha256(text).digest()
        bad = self.folder / "damaged.qem"
        bad.write_bytes(front + text + data[start:])
        return bad

    def floats(self):
        array = self.folder / "floats.npy"
        np.save(array, np.random.default_rng(3).normal(size=(3, 5, 4, 6)).astype(np.float32))
        file = self.folder / "floats.qem"
        self.assertEqual(cli.run("pack", array, file).code, 0)
        return file

    def test_a_qem_file_has_the_array_that_it_records(self):
        bad = self.with_header(self.floats(), lambda h: h.update(logical_sha256="ab" * 32))
        self.assertEqual(self.failed(bad), {"logical"})
        self.refuses("unpack", bad, self.folder / "out.npy")

    def test_something_else_in_the_place_of_a_dark_frame(self):
        file = self.floats()
        plane = np.zeros(24, "<f4")
        good = {
            "schema": "empad-mean-dark/v1",
            "identity": "ab" * 32,
            "values_float32_le": base64.b64encode(plane.tobytes()).decode(),
        }

        def verify(background):
            return cli.run("verify", self.with_header(file, lambda h: h["empad"].update(background=background)))

        answer = verify(good)
        self.assertEqual(answer.code, 0, repr(answer))
        self.assertIn("background", {c["name"] for c in answer.json["checks"]})
        plane[7] = np.nan
        for change in (
            {"schema": "another/v1"},
            {"identity": "AB" * 32},
            {"values_float32_le": "?"},
            {"values_float32_le": base64.b64encode(bytes(92)).decode()},
            {"values_float32_le": base64.b64encode(plane.tobytes()).decode()},
        ):
            with self.subTest(change):
                cli.refused(self, verify(good | change), code="qem_metadata")
        cli.refused(self, verify(["plane"]), code="qem_metadata")


class Sources(Temporary):
    """What a result is made from is never replaced by it."""

    def test_a_result_does_not_replace_its_source(self):
        array = self.folder / "array.npy"
        np.save(array, counts((4, 8), (6, 7)))
        pack, copy = self.folder / "pack.h5", self.folder / "copy.qem"
        for to in (pack, copy):
            self.assertEqual(cli.run("pack", array, to).code, 0)
        digest = hashlib.sha256(pack.read_bytes()).hexdigest()
        before = {p: p.read_bytes() for p in self.folder.iterdir()}
        (self.folder / "link.npy").symlink_to(array)
        (self.folder / "link.h5").symlink_to(pack)
        for command in (
            ("unpack", array, array),
            ("unpack", array, self.folder / "link.npy"),
            ("image", array, "--total", "-o", array),
            ("mean", array, "-o", array),
            ("com", array, "-o", array),
            ("dpc", array, "-o", array),
            ("frame", array, 0, 0, "-o", array),
            ("image", pack, "--total", "-o", pack),
            ("image", pack, "--total", "-o", self.folder / "link.h5"),
            ("enrich", pack, pack, "--expect-sha256", digest, "--disk", "3,3,2"),
            ("pack", pack, pack),
            ("pack", array, array),
            ("pack", copy, copy),
        ):
            with self.subTest(command):
                cli.refused(self, cli.run(*command, "--force"), code="destination_is_source")
                self.assertEqual({p: p.read_bytes() for p in before}, before)

    def test_nothing_waits_for_the_writer_of_a_pipe(self):
        array, pack, pipe, out = (self.folder / n for n in ("array.npy", "pack.h5", "pipe", "out.npy"))
        np.save(array, counts((4, 8), (6, 7)))
        self.assertEqual(cli.run("pack", array, pack).code, 0)
        os.mkfifo(pipe)
        os.mkfifo(self.folder / "pipe.qem")
        for command in (
            ("verify", pipe),
            ("verify", self.folder / "pipe.qem"),
            ("info", pipe),
            ("info", self.folder / "pipe.qem"),
            ("verify", pack, "--receipt", pipe),
            ("verify", pack, "--against", pipe),
            ("image", pack, "--mask", pipe, "-o", out),
            ("mean", pack, "--scan-mask", pipe, "-o", out),
            ("unpack", pipe, out),
            ("pack", pipe, self.folder / "other.h5"),
            ("enrich", pipe, self.folder / "other.h5", "--expect-sha256", "ab" * 32, "--disk", "3,3,2"),
        ):
            with self.subTest(command):
                cli.refused(self, cli.run(*command, timeout=20))

    def test_a_folder_is_not_replaced_either(self):
        array, folder = self.folder / "array.npy", self.folder / "folder.qem"
        np.save(array, counts((4, 8), (6, 7)))
        folder.mkdir()
        for to in (folder, self.folder):
            cli.refused(self, cli.run("pack", array, to, "--force"), code="destination_exists")
        self.assertEqual(sorted(p.name for p in self.folder.iterdir()), ["array.npy", "folder.qem"])
