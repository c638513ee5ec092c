"""What one command writes and another reads. Runs that differ in what their checkpoints hold, each format that `moh convert`
writes, each command that opens a model: the numbers are those of the run, or a message of this table says why there are none."""

import json
import os
import pathlib
import re
import shutil
import subprocess
import tempfile
import unittest

import serve_support
import support

TOKENIZER = pathlib.Path(os.environ["MOH_SOURCE_DIR"], "tests/train/tokenizers/data/gpt2.json")
MPIRUN = ["mpirun", "--oversubscribe", "--bind-to", "none", "-np", "2"]
MPI_ENVIRONMENT = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
                   "OMPI_MCA_btl_vader_single_copy_mechanism": "none"}

# ---- The runs ----

TEXT = {"eval.every": 0, "checkpoint.every": 0, "train.steps": 6, "train.batch_size": 2, "optim.learning_rate": 0.01,
        "model.init_std": 0.2}
MASK = {"data.document_mask": "true", "data.reset_positions": "true"}
TEXT_RUNS = {
    "plain": {},
    "dense": support.DENSE,
    "average": {"ema.decay": 0.9},
    "unused average": {"ema.decay": 0.9, "ema.evaluate": "false"},
    "bfloat16": {"precision": "bfloat16", "model.moh.router_precision": "float32"},
    "tokenizer": {"data.tokenizer": "tok/tokenizer.json"},
    "document mask": MASK,
    "groups": {"model.kv_heads": 2, "model.moh.routing": "groups"},
    "within groups": {"model.kv_heads": 2, "model.moh.routing": "within_groups", "model.moh.num_shared": 0, "model.moh.top_k": 2},
    "gqe": {"model.kv_heads": 2, "model.moh.routing": "gqe", "model.moh.num_shared": 0, "model.moh.top_k": 2},
    "routed keys": {"model.moh.routed": "queries_keys_values", "model.moh.positions": "head", "model.moh.shared_window": 3, **MASK},
    "gates": {"model.attention_gate": "head"},
    "gates of elements": {**support.DENSE, "model.attention_gate": "element"},
    "experts": {**support.DENSE, "model.switch_head.experts": 3, "model.switch_head.top_k": 2},
    "shared by list": {"model.moh.shared_heads": "[[3], [1]]"},
    "divided": {"comm.zero": 1, "ema.decay": 0.9},
}

# Pictures of three classes, in an order that is not that of the alphabet.
CLASSES = {"cat": (200, 40, 40), "ant": (40, 200, 40), "bee": (40, 40, 200)}
VIT = """\
task: image_classification
seed: 3
threads: 1
model:
  architecture: vit
  classes: 3
  image_size: 16
  vit: {patch_size: 8, layers: 2, hidden: 24, heads: 3, mlp_ratio: 2}
  MOH
data: {train: pictures, class_names: names.txt}
augment: {rand_augment: none, mixing: 0, erasing: 0}
train: {steps: 4, batch_size: 3}
optim: {learning_rate: 0.01}
schedule: {warmup_steps: 0}
ema: {decay: 0.5}
eval: {every: 0}
checkpoint: {every: 0}
"""
PICTURE_RUNS = {
    "vit": VIT.replace("MOH", "drop_path: 0"),
    "moh vit": VIT.replace("MOH", "moh: {router: learned, num_shared: 1, top_k: 1}"),
    "gated vit": VIT.replace("MOH", "attention_gate: element"),
    "learned heads": VIT.replace("MOH", "moh: {router: learned, num_shared: 1, top_k_ratio: 0.5, learn_shared_until: 0.5}"),
}
NEXT_PICTURES = """\
task: image_classification
data: {train: pictures, class_names: names.txt}
augment: {rand_augment: none, mixing: 0, erasing: 0}
train: {batch_size: 3, steps: 2}
schedule: {warmup_steps: 0}
"""
DIT_RUNS = {"dit": """\
task: diffusion
seed: 3
threads: 1
model:
  image_size: 8
  patch_size: 4
  channels: 3
  classes: 3
  layers: 2
  hidden: 24
  heads: 3
  moh: {router: learned, num_shared: 1, top_k: 1}
data: {train: pictures, class_names: names.txt}
train: {steps: 4, batch_size: 3}
optim: {learning_rate: 0.01}
schedule: {warmup_steps: 0}
ema: {decay: 0.5}
eval: {every: 0}
checkpoint: {every: 0}
"""}

# ---- The formats ----

FORMATS = {
    "moh": ("--format", "moh"),
    "hf": ("--format", "hf"),
    "safetensors": ("--format", "safetensors"),
    "shards": ("--format", "safetensors", "--shard-size", "20KB"),
}

# ---- Where a cell of the table is a message ----

NOT_WRITTEN = {("routed keys", "hf"): "model.moh.routed: expected queries, as the exported code has keys and values of all tokens",
               ("gqe", "hf"): "model.moh.routing: expected one of heads, groups, within_groups for transformers, found gqe",
               ("experts", "hf"): "model.switch_head.experts: expected 0, as the exported code has one projection of each head, found 3"}
BARE = "expected a configuration next to the weights, found none; name a folder with config.json"
MODEL_UNKNOWN = "expected a configuration next to the weights, or in the run, found neither; give model."
# Of classifiers and diffusion models, sizes are read from the tensors.
NOT_IN_TENSORS = "expected what its tensors do not tell, found nothing that says it; give model."
OPENED = ("eval", "generate", "translate", "serve", "analyze", "predict", "sample")  # commands that open a model
BEGUN = ("train", "plan", "bench", "config")  # commands of a run that starts from it
LANGUAGE_ALONE = {command: "expected a language model, found task: " for command in ("generate", "serve")}
DIFFUSION_ALONE = {"sample": "task: expected diffusion, found "}
CLASSIFIERS_ALONE = {"predict": "predict: "}
TRANSLATION_ALONE = {"translate": "translate: expected a model that translates, found task: "}


def setUpModule():
    """Trains every run once."""
    global FOLDER
    FOLDER = pathlib.Path(tempfile.mkdtemp(prefix="moh-pairs-", dir=support.memory_folder()))
    unittest.addModuleCleanup(shutil.rmtree, FOLDER, ignore_errors=True)
    (FOLDER / "text.jsonl").write_text("".join(json.dumps({"text": support.text_of_words(12, seed=i)}) + "\n" for i in range(80)))
    (FOLDER / "held.jsonl").write_text("".join(json.dumps({"text": support.text_of_words(12, seed=i)}) + "\n" for i in range(90, 96)))
    (FOLDER / "tok").mkdir()
    shutil.copy(TOKENIZER, FOLDER / "tok/tokenizer.json")
    (FOLDER / "line.txt").write_text("a line\n")
    (FOLDER / "names.txt").write_text("\n".join(CLASSES) + "\n")
    for name, color in CLASSES.items():
        for folder, count in (("pictures", 4), ("held", 2)):
            (FOLDER / folder / name).mkdir(parents=True)
            for i in range(count):
                shade = bytes(min(255, c + 9 * i) for c in color)
                (FOLDER / folder / name / f"{i}.png").write_bytes(support.png(16, 16, (b"\0" + shade * 16) * 16))


def run(*arguments, launcher=()):
    """What moh writes, which has to succeed."""
    command = [*launcher, support.MOH, *map(str, arguments)]
    done = subprocess.run(command, cwd=FOLDER, env=support.environment(MPI_ENVIRONMENT), timeout=support.TIMEOUT_SECONDS,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL)
    output = done.stdout.decode(errors="replace")
    if done.returncode != support.DONE:
        raise AssertionError(f"moh {' '.join(map(str, arguments))}: exit code {done.returncode}\n{output}")
    return output


def without_log(output):
    return "".join(line for line in output.splitlines(keepends=True) if not re.match(r"\d\d:\d\d:\d\d ", line))


def json_of(output):
    return json.loads(next(line for line in output.splitlines() if line.startswith("{")))


def without(record, *names):
    return {name: value for name, value in record.items() if name not in names}


class Commands(unittest.TestCase):
    """Each command: what can be compared of what it does with a model. `settings` are of the run, `part` is of the model."""

    data = ()  # held-out data, and how they are read, which not every format keeps
    next_yaml = ""  # a run that leaves its model to init.from

    folder = property(lambda _: FOLDER)

    def eval(self, model, settings=(), part=""):
        return without(json_of(run("eval", "--checkpoint", model, *self.data, *settings, "--json")), "checkpoint")

    def analyze(self, model, settings=(), part=""):
        run("analyze", "--checkpoint", model, *self.data, *settings, "--out", "report.json", "--overwrite")
        return without(json.loads((FOLDER / "report.json").read_text()), "checkpoint")

    def generate(self, model, settings=(), part=""):
        output = run("generate", "--checkpoint", model, "--prompt", "the head", "--tokens", 10, "--temperature", 0, *settings)
        return output.rsplit("\n", 2)[0].rpartition("the head")[2]

    def serve(self, model, settings=(), part=""):
        server = serve_support.Server(self, *settings, checkpoint=model)
        body = {"prompt": "the head", "max_tokens": 10, "temperature": 0, "logprobs": 2}
        status, _, answer = server.request("POST", "/v1/completions", body)
        server.close()
        self.assertEqual(status, 200, answer)
        return json.loads(answer)["choices"]

    def translate(self, model, settings=(), part=""):
        return run("translate", "--checkpoint", model, "--input", "line.txt", *settings)

    def predict(self, model, settings=(), part=""):
        pictures = sorted((FOLDER / "held").glob("*/0.png"))
        output = run("predict", "--checkpoint", model, "--json", *pictures, *set_options(settings))
        return [json.loads(line) for line in output.splitlines() if line.startswith("{")]

    def sample(self, model, settings=(), part=""):
        shutil.rmtree(FOLDER / "drawn", ignore_errors=True)
        run("sample", "--checkpoint", model, "--out", "drawn", "-n", 2, "--steps", 3, "--cfg", 1, "--classes", "bee,cat",
            *set_options(settings))
        return {path.name: path.read_bytes() for path in sorted((FOLDER / "drawn").glob("*.png"))}

    def info(self, model, settings=(), part=""):
        return json_of(run("checkpoint", "info", model, "--json", "--hash", *part_option(part)))["hash"]

    def convert(self, model, settings=(), part=""):
        run("convert", "--from", model, "--to", "again.safetensors", "--overwrite", *part_option(part))
        return self.info("again.safetensors")

    # Of runs that start from the model.

    def beginning(self, config, model, part):
        return config, f"init.from={model}", *([f"init.part={part}"] if part else [])

    def losses_of(self, *run_and_settings):
        shutil.rmtree(FOLDER / "next", ignore_errors=True)
        run("train", *run_and_settings, "output.dir=next", "train.steps=2", "checkpoint.every=0", "log.every=1")
        return support.losses(FOLDER / "next")

    def train(self, model, settings=(), part=""):
        return self.losses_of(*self.beginning("next.yaml", model, part))

    def train_described(self, model, settings=(), part=""):
        """The configuration says what the model is."""
        return self.losses_of(*self.beginning("whole.yaml", model, part))

    def plan(self, model, settings=(), part=""):
        plan = json_of(run("plan", *self.beginning("next.yaml", model, part), "--json"))
        return without(plan, "config", "overrides")

    def bench(self, model, settings=(), part=""):
        run("bench", "step", *self.beginning("next.yaml", model, part), "--steps", 1, "--warmup", 0, "--random-data", "--no-peaks", "--json")

    def config(self, model, settings=(), part=""):
        """But for what it is called, and for numbers that may be written out or left to others."""
        lines = without_log(run("config", *self.beginning("next.yaml", model, part))).splitlines()
        passed_over = (str(model), "part:", "kv_heads:", "head_dim:")
        return [line for line in lines if not any(text in line for text in passed_over)]


COMMANDS = ("eval", "analyze", "generate", "translate", "serve", "predict", "sample", "info", "convert", "train", "train_described", "plan",
            "bench", "config")


def set_options(settings):
    return [word for setting in settings for word in ("--set", setting)]


def part_option(part):
    return ["--part", part] if part else []


class Pairs(Commands):
    """The table for models of one kind."""

    of_another_kind = {}
    without_configuration = {command: NOT_IN_TENSORS for command in OPENED + BEGUN}

    def check(self, name, yaml, parts, launcher=()):
        """All formats of a run, all commands. `parts`: the parts of its checkpoint, with the settings by which the run takes them."""
        (FOLDER / "run.yaml").write_text(yaml)
        (FOLDER / "next.yaml").write_text(self.next_yaml)
        (FOLDER / "whole.yaml").write_text(without_log(run("config", "run.yaml")))
        source = "run_of_" + name.replace(" ", "_")
        run("train", "run.yaml", f"output.dir={source}", launcher=launcher)
        for part, settings in parts.items():
            expected = {command: getattr(self, command)(source, settings, part) for command in COMMANDS
                        if command not in self.of_another_kind}
            for kind, options in FORMATS.items():
                if kind == "shards" and name != "plain":
                    continue  # one file or several makes no difference for what is in them
                to = "-".join(filter(None, (source, part, kind)))
                with self.subTest(run=name, format=kind, part=part or "model"):
                    if (name, kind) in NOT_WRITTEN:
                        self.refused(NOT_WRITTEN[name, kind], run, "convert", "--from", source, "--to", to, *options, *part_option(part))
                        continue
                    run("convert", "--from", source, "--to", to, *options, *part_option(part))
                    bare = kind in ("safetensors", "shards")
                    # What is refused without a configuration is so whatever the run was.
                    commands = COMMANDS if not bare or name in ("plain", "vit", "dit") else ("info", "convert", "train_described")
                    self.check_commands(to, bare, commands, expected)

    def check_commands(self, model, bare, commands, expected):
        for command in commands:
            with self.subTest(command=command):
                message = (self.without_configuration.get(command) if bare else None) or self.of_another_kind.get(command)
                if message:
                    self.refused(message, getattr(self, command), model)
                else:
                    self.assertEqual(getattr(self, command)(model), expected[command])

    def refused(self, message, call, *arguments):
        with self.assertRaises(AssertionError) as caught:
            call(*arguments)
        said = " ".join(str(caught.exception).split())
        self.assertIn(message, said)
        self.assertNotIn("exit code -", said)  # of a signal


class TextPairs(Pairs):
    of_another_kind = {**TRANSLATION_ALONE, **DIFFUSION_ALONE, **CLASSIFIERS_ALONE}
    without_configuration = {**dict.fromkeys(OPENED, BARE), **dict.fromkeys(BEGUN, MODEL_UNKNOWN)}
    next_yaml = "data: {train: text.jsonl, sequence_length: 32}\ntrain: {batch_size: 2, steps: 2}\nschedule: {warmup_steps: 0}\n"

    def run_of(self, name, parts=None, launcher=()):
        settings = {**TEXT, "data.train": "text.jsonl", **TEXT_RUNS[name]}
        kept = [f"{key}={value}" for key, value in settings.items() if key in MASK]
        self.data = ["data=held.jsonl", "data.sequence_length=32", "train.batch_size=2", *kept]
        self.check(name, support.to_yaml(support.merged(settings)) + "\n", parts or {"": ()}, launcher)

    def test_plain(self):
        self.run_of("plain")

    def test_dense(self):
        self.run_of("dense")

    def test_a_moving_average(self):
        self.run_of("average", {"": ["ema.evaluate=false"], "ema": []})

    def test_a_moving_average_that_is_not_evaluated(self):
        self.run_of("unused average", {"": [], "ema": ["ema.evaluate=true"]})

    def test_bfloat16(self):
        self.run_of("bfloat16")

    def test_a_tokenizer(self):
        self.run_of("tokenizer")

    def test_a_mask_of_documents(self):
        self.run_of("document mask")

    def test_groups(self):
        self.run_of("groups")

    def test_within_groups(self):
        self.run_of("within groups")

    def test_grouped_query_experts(self):
        self.run_of("gqe")

    def test_routed_keys_and_values(self):
        self.run_of("routed keys")

    def test_experts(self):
        self.run_of("experts")

    def test_gates(self):
        self.run_of("gates")

    def test_gates_of_elements(self):
        self.run_of("gates of elements")

    def test_shared_heads_by_a_list(self):
        self.run_of("shared by list")

    def test_a_state_that_processes_divide(self):
        launcher = MPIRUN if shutil.which("mpirun") else ()
        self.run_of("divided", {"": ["ema.evaluate=false"], "ema": []}, launcher)


class PicturePairs(Pairs):
    of_another_kind = {**LANGUAGE_ALONE, **TRANSLATION_ALONE, **DIFFUSION_ALONE}
    data = ["data=held", "train.batch_size=3"]
    next_yaml = NEXT_PICTURES

    def run_of(self, name):
        self.check(name, PICTURE_RUNS[name], {"": ["ema.evaluate=false"], "ema": []})

    def test_dense(self):
        self.run_of("vit")

    def test_moh(self):
        self.run_of("moh vit")

    def test_gates(self):
        self.run_of("gated vit")

    def test_learned_shared_heads(self):
        self.run_of("learned heads")


class DiffusionPairs(Pairs):
    of_another_kind = {**LANGUAGE_ALONE, **TRANSLATION_ALONE, **CLASSIFIERS_ALONE}
    data = ["data=held", "train.batch_size=3"]
    next_yaml = "task: diffusion\ndata: {train: pictures}\ntrain: {batch_size: 3, steps: 2}\nschedule: {warmup_steps: 0}\n"

    def test_dit(self):
        self.check("dit", DIT_RUNS["dit"], {"": ["ema.evaluate=false"], "ema": []})


class WithoutTrainingData(Commands):
    """What is known from training goes along when its pictures are gone."""

    data = ["data=held"]

    def trained(self, name, yaml):
        """A run on a folder that is there no more; the order of its classes is that of their names."""
        shutil.copytree(FOLDER / "pictures", FOLDER / "gone")
        (FOLDER / "gone.yaml").write_text(yaml.replace("train: pictures, class_names: names.txt", "train: gone"))
        run("train", "gone.yaml", f"output.dir={name}")
        shutil.rmtree(FOLDER / "gone")
        return name

    def test_names_of_classes_of_a_classifier(self):
        self.trained("named", PICTURE_RUNS["vit"])
        expected, score = self.predict("named"), self.eval("named")
        self.assertEqual({each["name"] for each in expected[0]["classes"]}, set(CLASSES))
        run("convert", "--from", "named", "--to", "named-moh", "--format", "moh", "--part", "ema")
        run("convert", "--from", "named", "--to", "named-hf", "--format", "hf", "--part", "ema")
        self.assertEqual(json.loads((FOLDER / "named-hf/config.json").read_text())["label_names"], sorted(CLASSES))
        run("convert", "--from", "named-moh", "--to", "named-moh-hf", "--format", "hf")
        run("convert", "--from", "named-hf", "--to", "named-hf-moh", "--format", "moh")
        run("convert", "--from", "named-moh", "--to", "named-moh-moh", "--format", "moh")
        for model in ("named-moh", "named-hf", "named-moh-hf", "named-hf-moh", "named-moh-moh"):
            self.assertEqual(self.predict(model), expected, model)
            self.assertEqual(self.eval(model)["confusion"] if "confusion" in score else None, score.get("confusion"), model)

    def test_names_of_classes_of_a_diffusion_model(self):
        self.trained("sampled", DIT_RUNS["dit"])
        expected = self.sample("sampled")
        run("convert", "--from", "sampled", "--to", "sampled-moh", "--format", "moh", "--part", "ema")
        self.assertEqual(self.sample("sampled-moh"), expected)


class OneSetOfWeights(Commands):
    """A conversion keeps the weights of a run, or their moving average, and says which."""

    def test_it_is_said_and_an_average_that_is_not_there_is_refused(self):
        (FOLDER / "run.yaml").write_text(support.to_yaml(support.merged({**TEXT, "data.train": "text.jsonl", "ema.decay": 0.9})) + "\n")
        run("train", "run.yaml", "output.dir=averaged")
        said = run("convert", "--from", "averaged", "--to", "weights", "--format", "moh")
        self.assertIn("averaged: its weights are taken; evaluations of this run take their moving average", said)
        self.assertNotIn("moving average", run("convert", "--from", "averaged", "--to", "average", "--format", "moh", "--part", "ema"))
        for model in ("weights", "average"):
            self.assertEqual(self.generate(model), self.generate(model, ["ema.evaluate=false"]))
            with self.assertRaisesRegex(AssertionError, "exit code 2\n.*ema.evaluate: expected false: this checkpoint has no moving average"):
                self.generate(model, ["ema.evaluate=true"])


if __name__ == "__main__":
    named = os.environ.get("MOH_TEST_CASES")  # cases of this file; all without it
    unittest.main(defaultTest=named.split(",") if named else None)
