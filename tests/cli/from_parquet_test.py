"""scripts/from_parquet.py: files with columns of FineWeb-Edu and of ImageNet-1k, as the Hub has them, become data that moh trains on."""

import json
import os
import pathlib
import pty
import random
import subprocess
import sys
import tarfile

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1] / "support"))
import python_packages  # noqa: E402

python_packages.require("pyarrow")

import pyarrow as pa  # noqa: E402
import pyarrow.parquet as pq  # noqa: E402

import support  # noqa: E402
from forked_scripts import ForkedScripts  # noqa: E402

SCRIPT = pathlib.Path(__file__).resolve().parents[2] / "scripts/from_parquet.py"
PICTURES = pa.schema([("image", pa.struct([("bytes", pa.binary()), ("path", pa.string())])), ("label", pa.int64())])
CLASSES = ["tench, Tinca tinca", "goldfish", "great white shark"]
CLASSIFIER = """\
task: image_classification
threads: 1
model: {architecture: vit, classes: 3, image_size: 16, vit: {patch_size: 8, hidden: 16, layers: 1, heads: 2}}
augment: {rand_augment: none, mixing: 0, erasing: 0}
train: {steps: 2, batch_size: 4}
schedule: {warmup_steps: 0}
"""


def fineweb(texts):
    """The columns of FineWeb-Edu."""
    rows = len(texts)
    return pa.table({"text": texts, "id": [f"<urn:uuid:{row}>" for row in range(rows)], "dump": ["CC-MAIN-2024-10"] * rows,
                     "url": ["http://example.org/"] * rows, "file_path": ["s3://commoncrawl/x.warc.gz"] * rows, "language": ["en"] * rows,
                     "language_score": [0.97] * rows, "token_count": [len(text or "") for text in texts], "score": [3.25] * rows,
                     "int_score": [3] * rows})


def picture(label):
    return support.png(20, 20, (b"\0" + bytes((80 * label, 40, 200 - 80 * label)) * 20) * 20)


def imagenet(labels, classes=CLASSES):
    """The columns of ImageNet-1k, with the metadata that the package datasets writes."""
    features = {"image": {"_type": "Image"}, "label": {"names": classes, "_type": "ClassLabel"}}
    schema = PICTURES.with_metadata({"huggingface": json.dumps({"info": {"features": features}})} if classes else None)
    rows = [{"image": {"bytes": picture(max(label, 0)), "path": f"n0_{label}.JPEG"}, "label": label} for label in labels]
    return pa.Table.from_pylist(rows, schema)


class FromParquet(support.MohTest):
    def parquet(self, name, table, rows=50):
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(table, path, row_group_size=rows)

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.forked = cls.enterClassContext(ForkedScripts("import pyarrow.parquet"))

    def convert(self, *arguments, code=0):
        result = self.forked.run(SCRIPT, "--moh", support.MOH, *arguments, cwd=self.folder)
        self.assertEqual(result.returncode, code, result.stdout + result.stderr)
        self.assertNotIn("Traceback", result.stderr)
        return result.stdout + result.stderr

    def files(self, folder):
        return {path.name: path.read_bytes() for path in (self.folder / folder).iterdir() if not path.name.startswith(".")}

    def web(self, count=120):
        """Two files of one name in folders of the layout; returns their texts in order."""
        texts = [support.text_of_words(8, seed) + "ä\t\"\u2028\\" for seed in range(2 * count)]
        for place, dump in enumerate(("CC-MAIN-2023-50", "CC-MAIN-2024-10")):
            of_dump = texts[place * count:(place + 1) * count]
            self.parquet(f"fineweb-edu/data/{dump}/train-00000-of-00001.parquet", fineweb([*of_dump, "", None]))
        return texts

    def test_texts_become_token_files(self):
        texts = self.web()
        said = self.convert("fineweb-edu/data", "--output", "corpus", "--tokenizer", "byte")
        self.assert_says(said, "files       2 (0 already up to date)", "rows        244", "train-00000-of-00001.tokens (122 rows)")
        names = [f"CC-MAIN-{dump}-train-00000-of-00001.tokens" for dump in ("2023-50", "2024-10")]
        made = self.files("corpus")
        self.assertEqual(sorted(made), names)
        for place, name in enumerate(names):
            _, tensors = support.read_dump(self.folder / "corpus" / name)
            self.assertEqual(tensors["tokens"][2].tobytes(), "\0".join(texts[120 * place:120 * place + 120]).encode())
        self.assert_says(self.moh("data", "info", "corpus/"), "token files 2")
        self.train({"data.train": "corpus", "train.steps": 2})
        # A second start changes nothing, and what is missing is made again, with the same bytes.
        self.assert_says(self.convert("fineweb-edu/data", "--output", "corpus", "--tokenizer", "byte"), "(2 already up to date)")
        (self.folder / "corpus" / names[1]).unlink()
        self.assert_says(self.convert("fineweb-edu/data", "--output", "corpus", "--tokenizer", "byte"), "(1 already up to date)")
        self.assertEqual(self.files("corpus"), made)

    def test_texts_become_json_lines(self):
        texts = self.web()
        file = "fineweb-edu/data/CC-MAIN-2024-10/train-00000-of-00001.parquet"
        self.assert_says(self.moh("data", "tokenize", "--input", file, "--output", "x", code=support.INPUT_ERROR), "scripts/from_parquet.py")
        self.convert("fineweb-edu/data/*/*-of-*.parquet", "--output", "lines", code=1)
        self.convert("fineweb-edu/data/CC-MAIN-2024-10/*.parquet", "--output", "lines")
        with pa.input_stream(str(self.folder / "lines/train-00000-of-00001.jsonl.zst"), compression="zstd") as lines:
            found = lines.read().decode().split("\n")
        self.assertEqual([json.loads(line)["text"] for line in found[:-1]], texts[120:])
        self.moh("data", "tokenize", "--input", "lines", "--output", "lines.safetensors")
        self.assert_says(self.moh("data", "info", "lines.safetensors"), "documents   120")

    def test_pictures_become_archives(self):
        draw = random.Random(1)
        labels = [draw.randrange(3) for _ in range(100)]
        for place in range(2):
            self.parquet(f"imagenet-1k/data/train-0000{place}-of-00002.parquet", imagenet(labels[50 * place:50 * place + 50]), 20)
        self.parquet("imagenet-1k/data/validation-00000-of-00001.parquet", imagenet([2, 0, 1]))
        self.assert_says(self.convert("imagenet-1k/data/train-*.parquet", "--output", "train"), "rows        100",
                         "classes     3, in train/classes.txt")
        self.convert("imagenet-1k/data/validation-*.parquet", "--output", "val")
        self.assertEqual((self.folder / "train/classes.txt").read_text().splitlines(), CLASSES)
        with tarfile.open(self.folder / "train/train-00001-of-00002.tar") as shard:
            members = {member.name: shard.extractfile(member).read() for member in shard}
        self.assertEqual(list(members)[:2], ["00000000.png", "00000000.cls"])
        self.assertEqual([int(members[f"{row:08}.cls"]) for row in range(50)], labels[50:])
        self.assertEqual([members[f"{row:08}.png"] for row in range(50)], [picture(label) for label in labels[50:]])
        self.write("vit.yaml", CLASSIFIER)
        self.moh("train", "vit.yaml", "data.train=train", "data.validation=val", "data.class_names=train/classes.txt", "output.dir=run")
        classes = json.loads(self.moh("eval", "--checkpoint", "run", "data=val", "--json").splitlines()[-1])["classes"]
        self.assertEqual([(found["name"], found["images"]) for found in classes], [(name, 1) for name in CLASSES])

    def test_an_interrupted_command_continues(self):
        for place in range(3):
            self.parquet(f"d/{place}.parquet", imagenet([place] * 60))
        self.convert("d", "--output", "whole")
        contents = (self.folder / "d/1.parquet").read_bytes()
        self.write("d/1.parquet", contents[:900] + b"damage" + contents[906:])  # within a picture's page, not in the footer
        self.convert("d", "--output", "cut", code=1)
        self.assertEqual(list(self.files("cut")), ["0.tar"])
        self.write("cut/.1.part", "what a process that was killed leaves")
        first = (self.folder / "cut/0.tar").stat().st_mtime_ns
        self.write("d/1.parquet", contents)
        self.assert_says(self.convert("d", "--output", "cut"), "(1 already up to date)")
        self.assertEqual(self.files("cut"), self.files("whole"))
        self.assertEqual((self.folder / "cut/0.tar").stat().st_mtime_ns, first)
        self.assertFalse((self.folder / "cut/.1.part").exists())
        # A file that is another one is made again.
        self.parquet("d/2.parquet", imagenet([0] * 3))
        self.assert_says(self.convert("d", "--output", "cut"), "(2 already up to date)")

    def test_a_bar_on_a_terminal(self):
        self.parquet("d/0.parquet", imagenet([0] * 200))
        reader, terminal = pty.openpty()
        subprocess.run([sys.executable, "-B", str(SCRIPT), "d", "--output", "out"], cwd=self.folder, stdout=subprocess.DEVNULL,
                       stderr=terminal, check=True, timeout=support.TIMEOUT_SECONDS)
        os.close(terminal)
        self.assertRegex(os.read(reader, 4096).decode(), r"\[=+ *\]\s+\d+\.\d%  [\d,]+ rows/s  \d+ min left")
        os.close(reader)

    def test_what_is_refused(self):
        self.parquet("web.parquet", fineweb(["a text"]))
        self.parquet("img.parquet", imagenet([0, 1]))
        self.parquet("test.parquet", imagenet([0, -1]))
        self.parquet("unnamed.parquet", imagenet([0], None))
        self.parquet("webp.parquet", pa.Table.from_pylist([{"image": {"bytes": b"RIFF1234", "path": "a.webp"}, "label": 0}], PICTURES))
        self.parquet("path.parquet", pa.Table.from_pylist([{"image": {"bytes": None, "path": "a.jpg"}, "label": 0}], PICTURES))
        self.parquet("text_label.parquet", pa.table({"image": imagenet([0])["image"], "label": ["cat"]}))
        self.parquet("both.parquet", pa.table({"image": imagenet([0])["image"], "text": ["cat"]}))
        self.parquet("numbers.parquet", pa.table({"text": [1, 2]}))
        self.parquet("nothing.parquet", pa.table({"text": pa.array([None, ""], pa.string())}))
        self.write("lfs.parquet", "version https://git-lfs.github.com/spec/v1\n")
        self.write("full/other.txt", "")
        for arguments, said in (
                (("none.parquet",), "none.parquet: expected a Parquet file, a folder of .parquet files or a pattern of names, found none"),
                (("lfs.parquet",), "lfs.parquet: expected a Parquet file, found none that can be read"),
                (("web.parquet", "--column", "txt"), "web.parquet: column: expected txt, found text, id, dump"),
                (("both.parquet",), "both.parquet: column: expected text or image, found image, text; name one: --column NAME"),
                (("numbers.parquet",), "numbers.parquet: column text: expected strings, or pictures as struct<bytes: binary, path: "),
                (("nothing.parquet",), "nothing.parquet: column text: expected a text, found 2 rows without one"),
                (("web.parquet", "img.parquet"), "expected files of one kind, found texts in web.parquet; pictures in img.parquet"),
                (("img.parquet", "unnamed.parquet"), "unnamed.parquet: classes: expected those of img.parquet, found others"),
                (("img.parquet", "--tokenizer", "byte"), "--tokenizer: expected texts, found pictures in img.parquet"),
                (("test.parquet",), "test.parquet: row 1: label: expected a number of a class, 0 to 2, found -1; the pictures of a test"),
                (("webp.parquet",), "webp.parquet: row 0: expected the bytes of a JPEG or PNG file, found bytes that begin with 52 49"),
                (("path.parquet",), "path.parquet: row 0: expected the bytes of a JPEG or PNG file, found none (its path alone)"),
                (("text_label.parquet",), "text_label.parquet: column label: expected the numbers of classes, found string"),
                (("img.parquet", "--label", "y"), "img.parquet: column y: expected the numbers of classes, found columns image, label"),
                (("web.parquet", "./web.parquet"), "web.parquet: expected another name than web.parquet has, as both become web"),
                (("web.parquet", "--tokenizer", "bite"), "moh data tokenize ended with code 2; its error is above")):
            with self.subTest(arguments=arguments):
                self.assert_says(self.convert(*arguments, "--output", "out", code=1), f"from_parquet: {said}")
                self.assertEqual(self.files("out") if (self.folder / "out").exists() else {}, {})
                (self.folder / "out/.from_parquet.json").unlink(missing_ok=True)
        self.assert_says(self.convert("web.parquet", "--output", "full", code=1),
                         "--output full: expected an empty folder, or one that this script made")
        self.convert("web.parquet", "--output", "out")
        self.assert_says(self.convert("web.parquet", "--output", "out", "--tokenizer", "byte", code=1),
                         "--output out: expected --tokenizer (none), as before, found other options")


if __name__ == "__main__":
    python_packages.main()
