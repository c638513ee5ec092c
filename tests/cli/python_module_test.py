"""The Python module (docs/python.md) beside the program: the same numbers, texts and errors, without copies or leaks."""

import contextlib
import io
import json
import os
import pathlib
import re
import signal
import sys
import threading
import time

import support

PACKAGE = os.environ.get("MOH_PYTHON_PACKAGE", "")
sys.path.insert(0, PACKAGE)
try:
    import numpy
    from numpy import ndarray  # noqa: F401: a folder of Debian's without the package can be imported, too
    import moh
except ImportError as missing:
    print(f"moh test skipped: {missing}", file=sys.stderr)
    sys.exit(support.SKIPPED)

SOURCE = pathlib.Path(os.environ["MOH_SOURCE_DIR"])
EXAMPLES = re.compile(r"```python\n(.*?)```", re.DOTALL)

CLASSIFIER = """\
task: image_classification
seed: 3
threads: 1
output: {dir: classifier}
model:
  architecture: vit
  classes: 8
  image_size: 16
  vit: {patch_size: 4, hidden: 24, layers: 2, heads: 4}
  moh: {router: learned, num_shared: 1, top_k: 2}
data: {drawn: 32, drawn_validation: 16}
augment: {rand_augment: none, mixing: 0}
train: {steps: 2, batch_size: 8}
checkpoint: {keep_best: false}
"""

DIFFUSION = """\
task: diffusion
threads: 1
output: {dir: diffusion}
model: {image_size: 8, patch_size: 4, channels: 3, classes: 8, layers: 1, hidden: 16, heads: 2}
data: {drawn: 16}
train: {steps: 1, batch_size: 8}
"""

TRANSLATION = """\
task: translation
threads: 1
output: {dir: translation}
data: {train: pairs.tsv, validation_fraction: 0, batch_tokens: 96, max_length: 48}
model: {vocab_size: 256, encoder_layers: 1, decoder_layers: 1, hidden: 32, intermediate: 48, heads: 4, max_positions: 64}
train: {steps: 5, batch_size: 1}
checkpoint: {keep_best: false}
"""

# The folder of all tests, in which the program has trained a model of each family.
MADE = support.MohTest()


def setUpModule():
    MADE.setUp()
    MADE.train({"train.steps": 30, "optim.learning_rate": 0.01, "eval.every": 0, "checkpoint.every": 0})
    MADE.write("pairs.tsv", "one\teins\ntwo\tzwei\n" * 8)
    for name, text in (("classifier", CLASSIFIER), ("diffusion", DIFFUSION), ("translation", TRANSLATION)):
        MADE.write(f"{name}.yaml", text)
        MADE.moh("train", f"{name}.yaml")
    for i in range(5):
        row = b"\0" + b"".join(bytes((30 * i + x, 255 - 9 * x, 40 * i)) for x in range(20))
        MADE.write(f"pictures/{i}.png", support.png(20, 20, row * 20))
    moh.set_num_threads(1)


def tearDownModule():
    MADE.doCleanups()


class ModuleTest(support.MohTest):
    def setUp(self):
        self.folder = MADE.folder
        self.addCleanup(os.chdir, os.getcwd())
        os.chdir(self.folder)


class LanguageModel(ModuleTest):
    def setUp(self):
        super().setUp()
        self.model = moh.load("run")

    def test_it_generates_what_the_program_generates(self):
        for options, ours in (
            (("--seed", 7), {"seed": 7}),
            (("--temperature", 0.8, "--top-k", 9, "--top-p", 0.9, "--seed", 2), {"temperature": 0.8, "top_k": 9, "top_p": 0.9, "seed": 2}),
            (("--temperature", 0, "--stop", "t"), {"temperature": 0, "stop": "t"}),
        ):
            program = self.moh("generate", "--checkpoint", "run", "--prompt", "the head", "--tokens", 20, *options)
            text = self.model.generate("the head", max_tokens=20, **ours)
            self.assertEqual(text, program.rsplit("\n", 2)[0])
            pieces = []
            new = self.model.generate(self.model.tokenize("the head"), max_tokens=20, echo=False, on_text=pieces.append, **ours)
            self.assertEqual("the head" + new, text)
            self.assertEqual("".join(pieces), new)

    def test_logits_are_those_that_the_program_draws_from(self):
        ids = self.model.tokenize("the head")
        for _ in range(6):
            text = self.model.generate(ids, max_tokens=1, temperature=0, echo=False)
            best = int(self.model.logits(ids)[0, -1].argmax())
            self.assertEqual(self.model.detokenize([best]), text)
            ids.append(best)

    def test_the_loss_of_the_logits_is_that_of_the_program(self):
        text = support.text_of_words(9)[:33]
        self.write("one.txt", text)
        said = json.loads(self.moh("eval", "--checkpoint", "run", "data=one.txt", "--json").splitlines()[-1])
        ids = numpy.frombuffer(text.encode(), dtype=numpy.uint8).astype(numpy.int64)
        logits = self.model.logits(ids[:-1])[0].astype(numpy.float64)
        chances = logits - numpy.log(numpy.exp(logits).sum(-1, keepdims=True))
        self.assertAlmostEqual(-chances[numpy.arange(32), ids[1:]].mean(), said["loss"], places=5)

    def test_ids_of_any_kind_make_the_same_logits(self):
        ids = numpy.arange(40, 52, dtype=numpy.int64).reshape(2, 6)
        expected = self.model.logits(ids)
        self.assertEqual((expected.shape, expected.dtype), ((2, 6, 256), numpy.float32))
        read_only = ids.copy()
        read_only.flags.writeable = False
        for same in (ids.tolist(), ids.astype(numpy.int32), numpy.asfortranarray(ids), numpy.repeat(ids, 2, axis=1)[:, ::2],
                     [tuple(row) for row in ids], read_only):
            self.assertTrue((self.model.logits(same) == expected).all(), type(same))
        for one in (ids[0], ids[0].tolist(), ids[:1]):
            self.assertEqual(self.model.logits(one).shape, (1, 6, 256))

    def test_other_arguments_are_refused(self):
        expected = "logits: ids: expected int64 or int32 [T] or [B, T] in main memory, or a list of numbers, found "
        for ids, found in (
            (numpy.zeros(3, numpy.float32), "float32 [3]"), (numpy.zeros((1, 2, 3), numpy.int64), "int64 [1, 2, 3]"),
            (numpy.zeros(3, numpy.uint8), "uint8 [3]"), (numpy.zeros((2, 0), numpy.int64), "int64 [2, 0]"),
            ([], "an empty list"), ([[1], [1, 2]], "lists of different lengths"), ([1, "a"], "a list with str"), (None, "NoneType"),
            ([1, 2**70], "a list with int"), ("text", "a text; model.tokenize(text)"),
        ):
            with self.assertRaises(moh.ConfigError) as caught:
                self.model.logits(ids)
            self.assertIn(expected + found, str(caught.exception))
        for ids, text in (([256], "256"), ([-1], "-1"), ([1] * 33, "33")):
            with self.assertRaises(moh.Error) as caught:
                self.model.logits(ids)
            self.assertIn(text, str(caught.exception))
        for options, text in (({"temperature": -1}, "temperature"), ({"top_p": 0}, "top_p"), ({"max_tokens": -1}, "tokens"),
                              ({"stop": ""}, "stop: expected a text")):
            with self.assertRaisesRegex(moh.ConfigError, text):
                self.model.generate("a", **options)
        with self.assertRaisesRegex(ValueError, "generate: prompt: expected 1 to 32 tokens, found 0"):
            self.model.generate("")

    def test_routing_is_that_of_the_dump(self):
        self.moh("analyze", "--checkpoint", "run", "--dump", "d.safetensors", "--dump-layers", "1", "--dump-sequences", "4", "--overwrite")
        _, tensors = support.read_dump(self.folder / "d.safetensors")
        of = {name: numpy.array(values).reshape(shape) for name, (_, shape, values) in tensors.items()}
        layers = self.model.routing(of["tokens"])
        self.assertEqual(len(layers), 2)
        for i, layer in enumerate(layers):
            self.assertTrue((layer.gates == of[f"layers.{i}.gates"]).all())
            self.assertTrue((layer.selected == of[f"layers.{i}.selected"]).all())
            self.assertEqual((layer.gates.dtype, layer.selected.dtype), (numpy.float32, bool))
        self.assertTrue((self.model.features(of["tokens"], layer=1) == of["layers.1.x"]).all())
        with self.assertRaisesRegex(moh.ConfigError, "layer: expected 0 to 1, found 2"):
            self.model.features(of["tokens"], layer=2)

    def test_results_are_not_copied_and_go_away(self):
        ids = numpy.arange(32, dtype=numpy.int64)
        logits = self.model.logits(ids)
        self.assertFalse(logits.flags.owndata)
        self.assertTrue(logits.flags.writeable and logits.flags.c_contiguous)
        again = numpy.from_dlpack(logits)
        self.assertEqual(again.ctypes.data, logits.ctypes.data)
        held = sys.getrefcount(ids)
        resident = []
        for i in range(200):
            self.model.logits(ids)
            self.model.routing(ids)
            self.model.generate("the", max_tokens=2)
            if i % 50 == 49:
                resident.append(int(pathlib.Path("/proc/self/statm").read_text().split()[1]) * 4096)
        self.assertLess(resident[-1] - resident[0], 1 << 20, resident)
        self.assertEqual(sys.getrefcount(ids), held)

    def test_threads_of_python_share_a_model(self):
        ids = list(range(40, 60))
        expected, wrong = self.model.logits(ids), []

        def work():
            for _ in range(20):
                if not (self.model.logits(ids) == expected).all():
                    wrong.append(ids)
        threads = [threading.Thread(target=work) for _ in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(wrong, [])

    def test_an_exception_of_on_text_ends_the_text(self):
        def fail(piece):
            raise KeyError(piece)
        with self.assertRaises(KeyError):
            self.model.generate("the head", max_tokens=20, on_text=fail)


class Loading(ModuleTest):
    def test_what_a_model_says_of_itself(self):
        model = moh.load(self.folder / "run", settings={"data.sequence_length": 16})
        self.assertEqual((model.task, type(model)), ("language_model", moh.LanguageModel))
        self.assertEqual(model.path, str(self.newest()))
        self.assertIn("sequence_length: 16", model.config)
        self.assertIn(f"{model.num_parameters} parameters", repr(model))

    def test_a_hugging_face_folder(self):
        self.moh("convert", "--from", "run", "--to", "hf", "--format", "hf", "--overwrite")
        ids = list(range(40, 60))
        self.assertTrue((moh.load("hf").logits(ids) == moh.load("run").logits(ids)).all())

    def test_errors_are_those_of_the_program(self):
        for kind, code, path, options in (
            (moh.InputError, support.INPUT_ERROR, "nowhere", {}),
            (moh.ConfigError, support.CONFIG_ERROR, "run", {"precision": "float17"}),
        ):
            with self.assertRaises(kind) as caught:
                moh.load(path, settings=options)
            self.assertEqual(caught.exception.exit_code, code)
            said = self.moh("generate", "--checkpoint", path, "--prompt", "a", *(f"{k}={v}" for k, v in options.items()), code=code)
            for line in str(caught.exception).splitlines():
                self.assertIn(line, said)

    def test_what_a_family_cannot_do_names_a_command(self):
        with self.assertRaisesRegex(moh.ConfigError, "found task: diffusion; `moh sample`"):
            moh.load("diffusion").logits([1])
        with self.assertRaisesRegex(moh.ConfigError, "found task: image_classification; `moh predict`"):
            moh.load("classifier").generate("a")

    def test_a_translation_model(self):
        self.write("lines.txt", "one\ntwo\n")
        said = self.moh("translate", "--checkpoint", "translation", "--input", "lines.txt", "--beam", 2)
        model = moh.load("translation")
        self.assertEqual(model.generate(["one", "two"], beams=2), said.splitlines())
        self.assertEqual(model.generate("one", beams=2), said.splitlines()[0])


class ImageClassifier(ModuleTest):
    def setUp(self):
        super().setUp()
        self.model = moh.load("classifier")
        self.files = sorted((self.folder / "pictures").iterdir())

    def test_logits_are_those_of_predict(self):
        for file in self.files:
            said = json.loads(self.moh("predict", "--checkpoint", "classifier", "--top", 8, "--json", file).splitlines()[-1])
            logits = self.model.logits(file)[0].astype(numpy.float64)
            shares = numpy.exp(logits - logits.max())
            shares /= shares.sum()
            for each in said["classes"]:
                self.assertAlmostEqual(shares[each["label"]], each["probability"], places=12)
                self.assertEqual(self.model.class_names[each["label"]], each["name"])

    def test_arrays_and_their_layouts(self):
        draw = numpy.random.default_rng(1)
        last = draw.standard_normal((2, 16, 16, 3)).astype(numpy.float32)
        first = numpy.ascontiguousarray(last.transpose(0, 3, 1, 2))
        expected = self.model.logits(first)
        self.assertEqual((expected.shape, expected.dtype), ((2, 8), numpy.float32))
        for same in (last.transpose(0, 3, 1, 2), numpy.repeat(first, 2, axis=3)[..., ::2]):
            self.assertTrue((self.model.logits(same) == expected).all())
        for images, found in ((first.astype(numpy.float64), "float64 [2, 3, 16, 16]"), (last, "float32 [2, 16, 16, 3]"),
                              (first[0], "float32 [3, 16, 16]"), (3, "int")):
            with self.assertRaisesRegex(moh.ConfigError, re.escape(f"expected float32 [B, 3, H, W] in main memory, or names of files, found {found}")):
                self.model.logits(images)
        with self.assertRaisesRegex(moh.InputError, "none.png"):
            self.model.logits(["none.png"])

    def test_features_are_those_of_eval_fid(self):
        features, shares = self.model.features(self.files), self.model.logits(self.files).astype(numpy.float64)
        self.assertEqual(features.shape, (5, 24))
        shares = numpy.exp(shares - shares.max(-1, keepdims=True))
        numpy.savez("ours.npz", activations=features.astype(numpy.float64), probabilities=shares / shares.sum(-1, keepdims=True))
        self.moh("sample", "--checkpoint", "diffusion", "--out", "drawn", "-n", 6, "--steps", 2, "--npz", "--overwrite")
        theirs = self.scores("--features-from", "classifier", "pictures", "pictures")
        self.assertEqual({key: theirs[key] for key in ("fid", "inception_score")},
                         {key: self.scores("ours.npz", "ours.npz")[key] for key in ("fid", "inception_score")})

    def scores(self, *arguments):
        said = self.moh("eval", "fid", *arguments, "--json")
        return json.loads(next(line for line in said.splitlines() if line.startswith("{")))

    def test_routing_is_that_of_the_dump(self):
        self.write("classes/a/0.png", self.files[1].read_bytes())
        self.write("classes/b/0.png", self.files[4].read_bytes())
        self.moh("analyze", "--checkpoint", "classifier", "data=classes", "--dump", "p.safetensors", "--dump-layers", "1", "--overwrite")
        _, tensors = support.read_dump(self.folder / "p.safetensors")
        of = {name: numpy.array(values).reshape(shape) for name, (_, shape, values) in tensors.items()}
        files = [self.files[1], self.files[4]]
        for i, layer in enumerate(self.model.routing(files)):
            self.assertTrue((layer.gates == of[f"layers.{i}.gates"]).all())
            self.assertTrue((layer.selected == of[f"layers.{i}.selected"]).all())
        self.assertTrue((self.model.features(files, layer=1) == of["layers.1.x"]).all())


class Training(ModuleTest):
    def config(self, **settings):
        return support.merged({"train.steps": 6, **settings})

    def test_a_run_is_that_of_the_program(self):
        records = []
        summary = moh.train(self.config(), records.append, {"output.dir": "ours"}, quiet=True)
        self.assertEqual((summary.finished, summary.outcome, summary.step, summary.folder), (True, "finished", 6, "ours"))
        self.assertEqual(records, support.metrics("ours"))
        self.assertEqual(summary.record, [record for record in records if record["kind"] == "train"][-1])
        self.assertEqual(summary.score, [record for record in records if record["kind"] == "eval"][-1]["loss"])
        MADE.train({"train.steps": 6, "output.dir": "theirs"})
        self.assert_same_state("ours", "theirs")
        self.assert_same_history("ours", "theirs")

    def test_a_callback_may_end_it_and_it_goes_on(self):
        stopped = moh.train(self.config(), lambda record: record["step"] < 3, ["output.dir=parts"], quiet=True)
        self.assertEqual((stopped.finished, stopped.step, stopped.outcome), (False, 3, "stopped by request"))
        self.assertEqual(self.newest("parts").name[-1], "3")
        ended = moh.train(self.config(), overrides=["output.dir=parts"], resume=True, quiet=True)
        self.assertEqual((ended.finished, ended.step), (True, 6))
        moh.train(self.config(), overrides=["output.dir=whole"], quiet=True)
        self.assert_same_state("parts", "whole")

    def test_an_exception_ends_it_with_a_checkpoint(self):
        def fail(record):
            if record["step"] == 2:
                raise KeyError("mine")
        with self.assertRaisesRegex(KeyError, "mine"):
            moh.train(self.config(), fail, {"output.dir": "failed"}, quiet=True)
        self.assertEqual(self.newest("failed").name[-1], "2")

    def test_signals_reach_python(self):
        def handle(number, frame):
            raise TimeoutError
        before = signal.signal(signal.SIGALRM, handle)
        self.addCleanup(signal.signal, signal.SIGALRM, before)
        self.addCleanup(signal.setitimer, signal.ITIMER_REAL, 0)
        blocked = signal.pthread_sigmask(signal.SIG_BLOCK, [])
        signal.setitimer(signal.ITIMER_REAL, 0.3)
        with self.assertRaises(TimeoutError):
            moh.train(self.config(**{"train.steps": 1000000, "eval.every": 0, "checkpoint.every": 0, "log.every": 1000000}),
                      overrides={"output.dir": "alarm"}, quiet=True)
        self.assertGreater(int(self.newest("alarm").name[-8:]), 0)
        self.assertEqual(signal.pthread_sigmask(signal.SIG_BLOCK, []), blocked)
        with self.assertRaises(KeyboardInterrupt):
            moh.train(self.config(), lambda record: os.kill(os.getpid(), signal.SIGINT), {"output.dir": "interrupted"}, quiet=True)

    def test_other_threads_run_while_it_computes(self):
        turns, done = [], threading.Event()

        def count():
            while not done.wait(0.001):
                turns.append(time.monotonic())
        thread = threading.Thread(target=count)
        thread.start()
        moh.train(self.config(**{"train.steps": 40, "log.every": 40}), overrides={"output.dir": "beside"}, quiet=True)
        done.set()
        thread.join()
        self.assertGreater(len(turns), 10)

    def test_errors_are_those_of_the_program(self):
        with self.assertRaisesRegex(moh.ConfigError, "model.headz: .*did you mean.*model.heads") as caught:
            moh.train(self.config(**{"model.headz": 3}), quiet=True)
        self.assertEqual(caught.exception.exit_code, support.CONFIG_ERROR)
        with self.assertRaisesRegex(moh.InputError, "nothing.txt"):
            moh.train(self.config(**{"data.train": "nothing.txt", "output.dir": "none"}), quiet=True)
        self.assertFalse((self.folder / "none").exists())
        self.config_file = MADE.config()
        moh.train(self.config_file, overrides={"train.steps": 1, "output.dir": "twice"}, quiet=True)
        with self.assertRaisesRegex(moh.ConfigError, "twice"):
            moh.train(self.config_file, overrides={"train.steps": 1, "output.dir": "twice"}, quiet=True)


class Page(ModuleTest):
    def test_the_examples_of_the_page_run(self):
        examples = EXAMPLES.findall((SOURCE / "docs/python.md").read_text())
        self.assertGreater(len(examples), 3)
        for name, run in (("llm", "run"), ("vit", "classifier")):
            (self.folder / "runs" / name).mkdir(parents=True)
            (self.folder / "runs" / name / "quickstart").symlink_to(self.folder / run)
        self.write("picture.png", (self.folder / "pictures/0.png").read_bytes())
        names = {}
        with contextlib.redirect_stdout(io.StringIO()):
            for example in examples:
                exec(compile(example, "docs/python.md", "exec"), names)


if __name__ == "__main__":
    support.main()
