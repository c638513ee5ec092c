"""The golden tests do not pass over what they find: $MOH_SHARED/golden may hold any of the files that they know, other
kinds are failures, and every result in a file counts."""

import json
import os
import pathlib
import shutil
import struct
import subprocess
import tempfile
import unittest

GOLDEN = pathlib.Path(os.environ["MOH_SOURCE_DIR"]) / "tests/golden/data"
TESTS, WEIGHTS_TESTS = os.environ["MOH_GOLDEN_TESTS"], os.environ["MOH_WEIGHTS_TESTS"]
SKIPPED = "moh test skipped: "


def read(path):
    """Header and data of a safetensors file."""
    content = path.read_bytes()
    (size,) = struct.unpack("<Q", content[:8])
    return json.loads(content[8:8 + size]), bytearray(content[8 + size:])


def write(path, header, data):
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)


def results(header):
    """Names of the tensors that are compared with something, one for each prefix: "out", "grad_lb" ..."""
    first = {}
    for name in sorted(header):
        prefix = name.split(".")[0]
        if prefix not in ("__metadata__", "in", "param", "w"):
            first.setdefault(prefix, name)
    return first.values()


def altered(header, data, name):
    """The data with another first element in that tensor."""
    data = bytearray(data)
    code = {"F32": "<f", "F64": "<d", "I64": "<q", "BOOL": "<?"}[header[name]["dtype"]]
    begin = header[name]["data_offsets"][0]
    (value,) = struct.unpack_from(code, data, begin)
    struct.pack_into(code, data, begin, not value if code == "<?" else value + 1)
    return data


class GoldenFolders(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.shared = pathlib.Path(folder.name)
        self.golden = self.shared / "golden"
        self.golden.mkdir()

    def run_tests(self, *names, program=TESTS, passes=True):
        """Runs test cases, all of the golden ones by default; returns what they wrote."""
        result = subprocess.run([program, ",".join(names) or "*golden: *"],
                                env={**os.environ, "MOH_SHARED": str(self.shared)},
                                stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace", check=False)
        self.assertEqual(result.returncode == 0, passes, result.stdout)
        return result.stdout

    def assert_says(self, text, output):
        """Apart from where lines break."""
        self.assertIn("".join(text.split()), "".join(output.split()))

    def test_an_empty_folder_is_said_and_skipped(self):
        name = "golden: every shared file is of a kind that is known"
        self.assert_says(f"{SKIPPED}{self.golden} has no reference files", self.run_tests(name))
        self.run_tests()
        self.run_tests(program=WEIGHTS_TESTS)
        self.golden.rmdir()
        self.assert_says(f"{SKIPPED}MOH_SHARED is not set, or has no folder golden", self.run_tests(name))
        self.shared = self.shared / "absent"
        self.assert_says("MOH_SHARED: expected a folder, found ", self.run_tests(name, passes=False))

    def test_a_kind_that_nobody_knows_fails(self):
        header, data = read(GOLDEN / "losses.safetensors")
        for kind in ("gains", None):
            with self.subTest(kind):
                metadata = {"kind": kind} if kind else {}
                write(self.golden / "some.safetensors", {**header, "__metadata__": metadata}, data)
                self.assert_says(f"of kind '{kind or ''}', which no test knows", self.run_tests(passes=False))
        (self.golden / "some.safetensors").unlink()
        (self.golden / "table.json").write_text("{}")
        self.assert_says("of kind 'table'", self.run_tests(passes=False))

    def test_a_folder_may_hold_one_file_alone_under_any_name(self):
        for case in sorted(GOLDEN.glob("*.safetensors")):
            kind = read(case)[0]["__metadata__"]["kind"]
            for place in ("renamed.safetensors", "below/it.safetensors"):
                with self.subTest(case.name, place=place):
                    shutil.rmtree(self.golden)
                    (self.golden / place).parent.mkdir(parents=True)
                    shutil.copy(case, self.golden / place)
                    self.assert_says(f"golden: {kind}: 1 in {self.golden}", self.run_tests(f"golden: {kind}"))
        self.assert_says(f"golden: {self.golden}: {kind}: 1", self.run_tests())

    def test_a_folder_may_hold_weights_alone(self):
        shutil.copytree(GOLDEN / "hf_llama_tiny", self.golden / "elsewhere")
        said = self.run_tests()
        self.assert_says(f"golden: {self.golden / 'elsewhere'}: 0 references", said)
        self.assert_says(f"golden: {self.golden / 'elsewhere/sharded'}: 1 references", said)
        shutil.copytree(GOLDEN / "torch_checkpoints", self.golden / "torch_checkpoints")
        self.run_tests(program=WEIGHTS_TESTS)

    def test_torch_files_are_known_by_the_manifest_not_by_their_names(self):
        manifest = json.loads((GOLDEN / "torch_checkpoints/manifest.json").read_text())
        folder = self.golden / "torch_checkpoints"
        folder.mkdir()
        renamed = {}
        for number, (name, entry) in enumerate(manifest.items()):
            renamed[f"file_{number}.pt"] = entry
            shutil.copy(GOLDEN / "torch_checkpoints" / name, folder / f"file_{number}.pt")
        for names in (list(renamed)[:1], list(renamed)):
            (folder / "manifest.json").write_text(json.dumps({name: renamed[name] for name in names}))
            said = self.run_tests(program=WEIGHTS_TESTS, passes=names == list(renamed))
            self.assert_says(f"golden: torch files: {len(names)} in {self.golden}", said)

    def test_every_result_counts(self):
        cases = {}
        for path in sorted(GOLDEN.glob("*.safetensors")):
            cases.setdefault(read(path)[0]["__metadata__"]["kind"], path)
        for kind, path in cases.items():
            header, data = read(path)
            for name in results(header):
                with self.subTest(kind, altered=name):
                    write(self.golden / "case.safetensors", header, altered(header, data, name))
                    self.assert_says(name, self.run_tests(f"golden: {kind}", passes=False))
            with self.subTest(kind, unknown="out.more"):
                more = {"out.more": {"dtype": "F32", "shape": [0], "data_offsets": [len(data), len(data)]}}
                write(self.golden / "case.safetensors", {**header, **more}, data)
                self.assert_says("out.more: not compared with anything", self.run_tests(f"golden: {kind}", passes=False))


if __name__ == "__main__":
    unittest.main()
