"""scripts/import_tokens.py: what it makes of ids that other programs wrote is the token file that moh makes of their text."""

import importlib.util
import os
import pathlib
import struct
import subprocess
import sys

ROOT = pathlib.Path(os.environ["MOH_SOURCE_DIR"])
sys.path.insert(0, str(ROOT / "tests/cli"))
import support  # noqa: E402

if importlib.util.find_spec("numpy") is None:
    print(f"moh test skipped: {sys.executable} has no NumPy")
    sys.exit(77)

DOCUMENTS = [b"First document.", b"The second one."]
TEXT = b"\0".join(DOCUMENTS)  # 0 ends a document of the tokenizer byte


def npy(shape, descr="<u2"):
    header = f"{{'descr': '{descr}', 'fortran_order': False, 'shape': {shape}, }}".ljust(117) + "\n"
    return b"\x93NUMPY\1\0" + struct.pack("<H", len(header)) + header.encode()


def megatron(sizes, bounds, item=2, code=8):
    pointers = [item * sum(sizes[:i]) for i in range(len(sizes))]
    return (b"MMIDIDX\0\0" + struct.pack("<QBQQ", 1, code, len(sizes), len(bounds)) + struct.pack(f"<{len(sizes)}i", *sizes)
            + struct.pack(f"<{len(sizes)}q", *pointers) + struct.pack(f"<{len(bounds)}q", *bounds))


def words(ids, kind="H"):
    return struct.pack(f"<{len(ids)}{kind}", *ids)


class ImportTokens(support.MohTest):
    def setUp(self):
        super().setUp()
        for number, document in enumerate(DOCUMENTS):
            self.write(f"texts/{number}.txt", document)
        self.moh("data", "tokenize", "--input", "texts", "--output", "like.safetensors")

    def run_script(self, *arguments):
        return subprocess.run([sys.executable, ROOT / "scripts/import_tokens.py", *arguments, "--like", "like.safetensors",
                               "--output", "out.safetensors"], cwd=self.folder, capture_output=True, text=True, check=False)

    def imported(self, *arguments):
        """What moh says of the file, whose ids are those of the one that it made itself."""
        done = self.run_script(*arguments)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn(f"tokens      {len(TEXT)}", done.stdout)
        self.assertEqual((self.folder / "out.safetensors").read_bytes()[1024:], TEXT)
        info = self.moh("data", "info", "out.safetensors", "--verify")
        own = self.moh("data", "info", "like.safetensors")
        for line in own.splitlines():
            if line.startswith(("tokens", "tokenizer", "vocabulary")):
                self.assertIn(line, info)
        self.assert_says(info, "verified: all ids are in the vocabulary")
        return info

    def test_every_format(self):
        self.write("a.npy", npy(f"({len(TEXT)},)") + words(TEXT))
        self.write("rows.npy", npy(f"({len(TEXT)}, 1)", "<i8") + words(TEXT, "q"))
        self.write("raw.bin", words(TEXT, "I"))
        for name, magic, version, kind in (("c16.bin", 20240520, 1, "H"), ("c32.bin", 20240801, 7, "I")):
            self.write(name, struct.pack("<3I", magic, version, len(TEXT)) + bytes(1012) + words(TEXT, kind))
        for arguments in (("a.npy",), ("rows.npy",), ("raw.bin", "--dtype", "uint32"), ("c16.bin",), ("c32.bin",)):
            with self.subTest(arguments[0]):
                self.assert_says(self.imported(*arguments), "documents   not known")

    def test_documents_of_megatron(self):
        first, second = map(len, DOCUMENTS)
        # Two sequences of the first document; one with the end of document in it, one without.
        self.write("m.bin", words(b"".join(DOCUMENTS)))
        self.write("m.idx", megatron([5, first - 5, second], [0, 2, 3]))
        self.write("ended.bin", words(TEXT))
        self.write("ended.idx", megatron([first + 1, second], [0, 1, 2]))
        for name in "m.idx", "m.bin", "ended.idx":
            with self.subTest(name):
                self.assert_says(self.imported(name, "--separator", "0"), "documents   2")

    def test_a_run_takes_the_file_in_place_of_the_text(self):
        self.write("raw.bin", words(TEXT))
        self.imported("raw.bin", "--dtype", "uint16")
        self.write("a.yaml", "data: {train: out.safetensors, sequence_length: 4, validation_fraction: 0}\n"
                             "model: {layers: 1, hidden: 16, intermediate: 16, heads: 2, max_positions: 4}\n")
        self.moh("plan", "a.yaml")

    def test_what_is_refused(self):
        self.write("raw.bin", words([1, 300]))
        self.write("f.npy", npy("(1,)", "<f4") + bytes(4))
        self.write("c.bin", struct.pack("<3I", 20240520, 1, 9) + bytes(1012) + words(TEXT))
        self.write("m.idx", megatron([3], [0, 1]))
        self.write("m.bin", words(TEXT))
        for arguments, said in ((("raw.bin",), "no header says the type of the ids"),
                                (("raw.bin", "--dtype", "uint16"), "expected ids of 0 ... 255, found 1 ... 300 of type uint16"),
                                (("f.npy",), "of type float32"), (("c.bin",), "expected 9 ids, as its header says"),
                                (("m.idx",), "expected sequences that follow each other"), (("none.npy",), "none.npy")):
            with self.subTest(arguments):
                done = self.run_script(*arguments)
                self.assertEqual(done.returncode, 1)
                self.assertIn(said, done.stderr)
                self.assertNotIn("Traceback", done.stderr)
        self.assertEqual([path.name for path in self.folder.glob("*out.safetensors*")], [])

    def test_moh_names_the_script(self):
        self.write("raw.bin", words(TEXT))
        self.write("a.npy", npy(f"({len(TEXT)},)") + words(TEXT))
        self.write("m.idx", megatron([len(TEXT)], [0, 1]))
        for name in "raw.bin", "a.npy", "m.idx":
            for command in ("data", "tokenize", "--output", "t", "--input", name), ("data", "info", name):
                self.assert_says(self.moh(*command, code=support.INPUT_ERROR), f"{name}: expected", "scripts/import_tokens.py")


if __name__ == "__main__":
    support.main()
