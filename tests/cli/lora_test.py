"""Low-rank adapters (model.lora): a dense model becomes a MoH model of which adapters and routers alone are trained, and other
programs get it merged, or in PEFT's layout."""

import json
import math

import support
from support import DENSE

# What a run needs besides the checkpoint.
JOB = {key: value for key, value in support.TINY.items() if key != "model"}
LORA = {"rank": 2, "alpha": 6}
ROUTED = {"router": "learned", "num_shared": 2, "top_k": 1}
SCALE = 3


def of_adapter(name):
    return ".lora_" in name


def of_router(name):
    return ".wg" in name


def merged_by_hand(tensors, name):
    """W + alpha / rank B A, in float64, of the tensors of a checkpoint."""
    weight, down, up = (tensors[name.removesuffix("weight") + part] for part in ("weight", "lora_A.weight", "lora_B.weight"))
    rank = LORA["rank"]
    width = len(down) // rank
    return [w + SCALE * sum(up[i // width * rank + k] * down[k * width + i % width] for k in range(rank)) for i, w in enumerate(weight)]


class Adapters(support.MohTest):
    def setUp(self):
        super().setUp()
        self.moh("train", self.config({**DENSE, "train.steps": 12, "output.dir": "dense"}, "dense.yaml"))

    def job(self, source="dense", lora=None, **moh):
        model = {"moh": {**ROUTED, **moh}, "lora": {**LORA, **(lora or {})}}
        self.write("job.yaml", support.to_yaml({**JOB, "init": {"from": source}, "model": model}) + "\n")
        return "job.yaml"

    def tensors(self, run):
        return support.read_tensors(self.newest(run) / "model.safetensors")

    def loss(self, checkpoint, *settings):
        """The evaluation of a model on the validation text of the runs."""
        return json.loads(self.moh("eval", "--checkpoint", checkpoint, "data=text.txt", "--json", *settings))["loss"]

    def refused(self, *arguments, says, code=support.CONFIG_ERROR):
        self.assert_says(self.moh(*arguments, code=code), *says)

    def test_adapters_and_routers_move_and_nothing_else(self):
        self.moh("train", self.job())
        before, after = self.tensors("dense"), self.tensors("run")
        for name, values in before.items():
            self.assertEqual(values, after[name], name)
        added = after.keys() - before.keys()
        self.assertEqual(len([name for name in added if of_adapter(name)]), 2 * 2 * 7)
        self.assertTrue(all(of_adapter(name) or of_router(name) for name in added))
        self.assertTrue(all(any(after[name]) for name in added))  # B began with zeros
        state = support.stored_shapes(next(self.newest("run").glob("optimizer-*")))
        self.assertEqual({name.split(".", 1)[1] for name in state}, added)

    def test_the_first_step_is_that_of_the_model_without_adapters(self):
        self.moh("train", self.job(), "train.steps=1")
        self.moh("train", self.job(lora={"rank": 0}), "train.steps=1", "output.dir=full")
        self.assertEqual(support.losses(self.folder / "run"), support.losses(self.folder / "full"))

    def test_frozen_weights_in_bfloat16_have_no_copies(self):
        self.moh("train", self.job(lora={"full": "[norms]"}), "precision=bfloat16", "ema.decay=0.5")
        state = support.stored_shapes(next(self.newest("run").glob("optimizer-*")))
        masters = {name.removeprefix("master.") for name in state if name.startswith("master.")}
        self.assertTrue(masters)
        self.assertTrue(all(of_adapter(name) or of_router(name) or name.endswith("norm.weight") for name in masters))

    def test_a_run_of_adapters_is_used_and_continued(self):
        self.moh("train", self.job())
        self.assertTrue(math.isfinite(self.loss("run")))
        self.moh("generate", "--checkpoint", "run", "--prompt", "the ", "--tokens", "4")
        self.assert_says(self.moh("checkpoint", "info", "run"), "adapters of rank 2")
        # A run that starts from one has its adapters.
        self.write("next.yaml", support.to_yaml({**JOB, "init": {"from": "run"}}) + "\n")
        self.moh("train", "next.yaml", "train.steps=1", "optim.learning_rate=1e-30", "schedule.warmup_start=0", "output.dir=next")
        first, second = self.tensors("run"), self.tensors("next")
        self.assertEqual(first, second)
        self.refused("train", "next.yaml", "model.lora.alpha=5", "output.dir=other", says=("model.lora.alpha: expected 6 as in the checkpoint of init.from",))

    def test_the_merged_model_is_an_ordinary_one(self):
        self.moh("train", self.job())
        self.moh("convert", "--from", "run", "--to", "merged", "--format", "hf")
        tensors, merged = self.tensors("run"), support.read_tensors(self.folder / "merged/model.safetensors")
        self.assertEqual(merged.keys(), {name for name in tensors if not of_adapter(name)})
        adapted = {name for name in merged if name.removesuffix("weight") + "lora_A.weight" in tensors}
        self.assertEqual(len(adapted), 14)
        for name, values in merged.items():
            if name not in adapted:
                self.assertEqual(values, tensors[name], name)
                continue
            for found, expected in zip(values, merged_by_hand(tensors, name)):
                self.assertAlmostEqual(found, expected, delta=1e-6)
        self.assertAlmostEqual(self.loss("merged"), self.loss("run"), delta=1e-5)
        # The rounding to another type is the only one.
        self.moh("convert", "--from", "run", "--to", "narrow", "--format", "hf", "--dtype", "bfloat16")
        self.moh("convert", "--from", "merged", "--to", "again", "--format", "hf", "--dtype", "bfloat16")
        self.assertEqual(*((self.folder / name / "model.safetensors").read_bytes() for name in ("narrow", "again")))

    def test_the_layout_of_peft(self):
        self.moh("train", self.job(lora={"targets": "[q_proj, down_proj]", "full": "[norms]"}))
        self.moh("convert", "--from", "run", "--to", "peft", "--format", "peft")
        config = json.loads((self.folder / "peft/adapter_config.json").read_text())
        self.assertEqual({key: config[key] for key in ("peft_type", "task_type", "r", "lora_alpha", "target_modules", "bias")},
                         {"peft_type": "LORA", "task_type": "CAUSAL_LM", "r": 2, "lora_alpha": 6.0,
                          "target_modules": ["q_proj", "down_proj"], "bias": "none"})
        self.assertEqual(config["modules_to_save"], ["wg", "wg_0", "wg_1", "norm"])
        self.assertTrue(config["base_model_name_or_path"].endswith("/dense"))
        found, tensors = support.read_tensors(self.folder / "peft/adapter_model.safetensors"), self.tensors("run")
        trained = {name for name in tensors if of_adapter(name) or of_router(name) or name.endswith("norm.weight")}
        self.assertEqual(found, {"base_model.model." + name: tensors[name] for name in trained})
        self.assertTrue((self.folder / "peft/modeling_moh_llama.py").exists())

    def test_what_is_wrong_is_refused(self):
        self.refused("train", self.job(lora={"targets": "[q_proj, qproj]"}),
                     says=('model.lora.targets: expected names of q_proj, k_proj, v_proj, o_proj, gate_proj, up_proj, down_proj, found "qproj"',))
        self.refused("train", self.job(lora={"rank": -1}), says=("model.lora.rank", "at least 0"))
        self.refused("train", "dense.yaml", "task=image_classification", "model.lora.rank=2", says=("model.lora",))
        self.refused("convert", "--from", "dense", "--to", "peft", "--format", "peft",
                     says=("--format peft: model.lora.rank: expected a model with adapters, found 0",))
        self.refused("convert", "--from", "dense", "--to", "peft", "--format", "peft", "--shard-size", "1MB", says=("one file of adapters",))
        self.assert_says(self.moh("train", "dense.yaml", "model.lora.rank=2", "train.steps=1", "output.dir=random"),
                         "stay random: init.from names no checkpoint")
        self.moh("train", self.job(), "train.steps=1")
        self.write("other.yaml", support.to_yaml({**JOB, "init": {"from": "run"}}) + "\n")
        self.refused("train", "run/config.yaml", "model.lora.rank=4", "--resume", says=("model.lora.rank",))


if __name__ == "__main__":
    support.main()
