"""A dense model that was trained becomes a MoH model: init.from and init.moh, from a run and from files of tensors."""

import itertools
import json
import re
import shutil

import support
from support import DENSE

DIVERGENCE = re.compile(r"init: (\S+ \S+)( \(selected\))?: KL divergence from the dense model ([0-9.]+) nats per token")

# What a run needs besides the checkpoint: no key of `model`.
JOB = {key: value for key, value in support.TINY.items() if key != "model"}


def resolved(run):
    return (run / "config.yaml").read_text()


class ContinueTuning(support.MohTest):
    def setUp(self):
        super().setUp()
        self.moh("train", self.config({**DENSE, "train.steps": 40, "output.dir": "dense", "eval.every": 40,
                                       "checkpoint.every": 40}, "dense.yaml"))

    def job(self, name="moh.yaml", source="dense", **moh):
        start = {key: moh.pop(key) for key in list(moh) if key in ("router_start", "calibration")}
        moh = {"router": "learned", "num_shared": 2, "top_k": 1, **moh}
        self.write(name, support.to_yaml({**JOB, "init": {"from": source, "moh": start} if start else {"from": source},
                                          "model": {"moh": moh}}) + "\n")
        return name

    def divergences(self, output):
        return {what: float(nats) for what, _, nats in DIVERGENCE.findall(output)}

    def tensors_of(self, run):
        return support.read_tensors(self.newest(run) / "model.safetensors")

    def test_two_lines_make_a_moh_model_of_a_run(self):
        output = self.moh("train", self.job())
        self.assert_says(output, "75% of them active", "init: weights of dense/checkpoints/step_00000040")
        nats = self.divergences(output)
        self.assertEqual(set(nats), {"router_start zero", "router_start random", "router_start calibrated"})
        self.assertLess(nats["router_start calibrated"], nats["router_start zero"])
        self.assert_says(output, "router_start calibrated (selected)")
        # The first step sees the trained model, not a random one.
        dense, first = support.losses(self.folder / "dense"), support.losses(self.folder / "run")[0]
        self.assertLess(abs(first - dense[-1]), 0.3 * (dense[0] - dense[-1]))
        self.assert_says(self.moh("config", "run/config.yaml"), "heads: 4", "layers: 2", "router: learned")
        self.moh("generate", "--checkpoint", "run", "--prompt", "the ", "--tokens", "4")

    def test_one_step_without_learning_leaves_the_dense_weights(self):
        self.moh("train", self.job(), "train.steps=1", "optim.learning_rate=1e-30", "schedule.warmup_steps=0",
                 "schedule.warmup_start=0")
        dense, routed = self.tensors_of("dense"), self.tensors_of("run")
        for name, values in dense.items():
            self.assertEqual(values, routed[name], name)
        self.assertEqual({name.rsplit(".", 2)[1] for name in routed.keys() - dense.keys()}, {"wg", "wg_0", "wg_1"})

    def test_query_norm_and_its_estimators(self):
        losses, queries = {}, {}
        for estimator in ("none", "selected", "all"):
            output = self.moh("train", self.job(router="query_norm", straight_through=estimator), "--overwrite")
            self.assertEqual(set(self.divergences(output)), {"router query_norm"})
            self.assertIn(f"straight_through: {estimator}", resolved(self.folder / "run"))
            losses[estimator] = support.losses(self.folder / "run")
            queries[estimator] = self.tensors_of("run")["model.layers.0.self_attn.q_proj.weight"]
        self.assertEqual({values[0] for values in losses.values()}, {losses["all"][0]})
        # The estimators differ in the gradients of the queries. A loss could still be the same number.
        for one, other in itertools.combinations(queries.values(), 2):
            moved = [abs(a - b) for a, b in zip(one, other)]
            self.assertGreater(max(moved), 1e-5)

    def test_each_way_to_choose_heads(self):
        for way in ("first", "[1, 3]", "[[0, 1], [2, 3]]", "output_norm", "loss_increase"):
            with self.subTest(way=way):
                job = self.job(shared_heads=way, calibration={"batches": 2})
                output = self.moh("train", job, "--overwrite")
                heads = re.search(r"shared_heads: (.*)", resolved(self.folder / "run")).group(1)
                if way in ("output_norm", "loss_increase"):
                    self.assert_says(output, f"init: shared heads of layer 1 by {way}:")
                    lists = json.loads(heads)
                    self.assertEqual([len(set(heads)) for heads in lists], [2, 2])
                else:
                    self.assertEqual(heads, way)
                chosen = resolved(self.newest())
                self.moh("train", job, "--overwrite")
                self.assertEqual(resolved(self.newest()), chosen)  # the same data, the same choice

    def test_a_resumed_run_needs_neither_the_checkpoint_nor_the_measurement(self):
        for router in ("learned", "query_norm"):
            with self.subTest(router=router):
                settings = {"router": router, "shared_heads": "output_norm"}
                self.moh("train", self.job(**settings), "output.dir=whole", "--overwrite")
                self.moh("train", self.job(**settings), "output.dir=run", "--overwrite",
                         "train.steps=4", "schedule.decay_steps=8")
                (self.folder / "dense").rename(self.folder / "elsewhere")
                output = self.moh("train", self.job(**settings), "--resume", "schedule.decay_steps=8")
                self.assertNotIn("init:", output)
                self.assert_same_state("whole", "run")
                (self.folder / "elsewhere").rename(self.folder / "dense")

    def test_inside_kv_groups_a_resumed_run_has_the_same_bits(self):
        self.moh("train", self.config({**DENSE, "model.heads": 8, "model.kv_heads": 2, "output.dir": "grouped"}, "grouped.yaml"))
        for router in ("learned", "query_norm"):
            with self.subTest(router=router):
                job = self.job(source="grouped", router=router, routing="within_groups", num_shared=2, top_k=2,
                               shared_heads="output_norm")
                self.moh("train", job, "output.dir=whole", "--overwrite")
                lists = json.loads(re.search(r"shared_heads: (.*)", resolved(self.folder / "whole")).group(1))
                self.assertEqual([[head // 4 for head in heads] for heads in lists], [[0, 1]] * 2)
                self.moh("train", job, "output.dir=run", "--overwrite", "train.steps=4", "schedule.decay_steps=8")
                self.moh("train", job, "--resume", "schedule.decay_steps=8")
                self.assert_same_state("whole", "run")

    def test_with_gates_a_run_begins_as_the_dense_model_and_resumes_with_the_same_bits(self):
        self.config({**DENSE, "init.from": "dense", "optim.weight_decay": 0.1, "log.every": 1}, "continued.yaml")
        self.moh("train", "continued.yaml", "output.dir=plain")
        plain = support.losses(self.folder / "plain")
        for gate in ("head", "element"):
            with self.subTest(gate=gate):
                run = ("train", "continued.yaml", f"model.attention_gate={gate}")
                self.assert_says(self.moh(*run, "output.dir=whole", "--overwrite"), "init: 2 attention layers get gates of 1/2")
                gated = support.losses(self.folder / "whole")
                self.assertEqual(gated[0], plain[0])
                self.assertNotEqual(gated[-1], plain[-1])
                self.moh(*run, "--overwrite", "train.steps=4", "schedule.decay_steps=8")
                self.moh(*run, "--resume", "schedule.decay_steps=8")
                self.assert_same_state("whole", "run")
        output = self.moh("train", "continued.yaml", "init.from=whole", "model.attention_gate=none",
                          "output.dir=refused", code=support.CONFIG_ERROR)
        self.assert_says(output, "model.attention_gate: expected element as in the checkpoint of init.from, found none")

    def test_a_run_that_never_saved_begins_again(self):
        self.moh("train", self.job(), "output.dir=whole")
        output = self.moh("train", self.job(), "--resume")
        self.assert_says(output, "starting at step 0", "init: weights of dense")
        self.assert_same_state("whole", "run")

    def files(self, with_config):
        """The dense model as others keep it: tensors, with or without a config.json."""
        folder = self.folder / "files"
        folder.mkdir()
        shutil.copy(self.newest("dense") / "model.safetensors", folder)
        if with_config:
            (folder / "config.json").write_text(json.dumps({
                "architectures": ["LlamaForCausalLM"], "model_type": "llama", "vocab_size": 256,
                "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4,
                "num_key_value_heads": 4, "head_dim": 8, "max_position_embeddings": 32, "rms_norm_eps": 1e-5,
                "rope_theta": 10000.0, "tie_word_embeddings": False, "hidden_act": "silu", "attention_bias": False,
                "mlp_bias": False, "torch_dtype": "float32"}))
        return folder

    def test_files_of_tensors_give_what_the_run_gives(self):
        for with_config in (False, True):
            with self.subTest(with_config=with_config):
                shutil.rmtree(self.folder / "files", ignore_errors=True)
                folder = self.files(with_config)
                source = folder.name if with_config else f"{folder.name}/model.safetensors"
                sizes = re.search(r"^model:\n((?:  .*\n)*?)  moh:", resolved(self.folder / "dense"), re.M).group(0).removesuffix("  moh:")
                for router in ("learned", "query_norm"):
                    self.moh("train", self.job(router=router), "output.dir=from_run", "--overwrite")
                    job = self.job(source=source, router=router)
                    # A file of tensors alone does not say what its model is.
                    self.write(job, (self.folder / job).read_text().replace("model:\n", sizes, 1))
                    self.moh("train", job, "output.dir=from_file", "--overwrite")
                    self.assert_same_state("from_run", "from_file")

    def test_rows_that_only_the_configuration_has_are_not_made_up(self):
        path = self.files(with_config=True) / "config.json"
        config = json.loads(path.read_text())
        for vocab_size, wanted in ((300, 300), (300, 400), (200, 256)):
            with self.subTest(vocab_size=vocab_size, wanted=wanted):
                path.write_text(json.dumps({**config, "vocab_size": vocab_size}))
                output = self.moh("train", self.job(source="files"), f"model.vocab_size={wanted}", "init.new_tokenizer=true",
                                  code=support.INPUT_ERROR)
                self.assert_says(output, "the tensors do not match the model that files/config.json describes",
                                 f"model.embed_tokens.weight: expected [{vocab_size}, 32], found [256, 32]")

    def test_tensors_alone_do_not_say_what_the_model_is(self):
        self.files(with_config=False)
        self.assert_says(self.moh("config", self.job(source="files"), code=support.CONFIG_ERROR),
                         "init.from", "expected a configuration next to the weights")

    def test_a_model_of_other_tokens_does_not_meet_bytes_unasked(self):
        sizes = {"vocab_size": 300, "layers": 2, "hidden": 32, "intermediate": 48, "heads": 4, "max_positions": 32}
        self.write("other.yaml", support.to_yaml({**JOB, "model": sizes, "output": {"dir": "other"}}) + "\n")
        self.moh("train", "other.yaml")
        self.moh("convert", "--from", "other", "--to", "hf", "--format", "hf")
        (self.folder / "hf/tokenizer.json").unlink()  # as it comes from elsewhere
        self.moh("convert", "--from", "hf", "--to", "converted", "--format", "moh")
        self.moh("convert", "--from", "hf", "--to", "other.safetensors")
        refusal = ("data.tokenizer: expected the path of the model's tokenizer, which its folder lacks", "found byte",
                   "init.new_tokenizer: true trains the model on other tokens all the same")
        for source, config in (("hf", self.job()), ("converted", self.job()), ("hf", "other.yaml"),
                               ("other.safetensors", "sizes.yaml")):
            with self.subTest(source=source, config=config):
                self.write("sizes.yaml", (self.folder / "other" / "config.yaml").read_text())
                job = ("train", config, f"init.from={source}", "output.dir=new", "init.moh.router_start=zero",
                       "--overwrite")
                self.assert_says(self.moh(*job, code=support.CONFIG_ERROR), *refusal)
                self.moh(*job, "init.new_tokenizer=true")
                self.moh("generate", "--checkpoint", "new", "--prompt", "the ", "--tokens", "2")  # bytes from now on
        for command in (("eval", "data=text.txt"), ("analyze", "data=text.txt"), ("generate", "--prompt", "the ")):
            output = self.moh(*command, "--checkpoint", "converted", code=support.CONFIG_ERROR)
            self.assert_says(output, "data.tokenizer: expected the model's tokenizer, which did not come with it, found other: the model's 300 tokens")
            self.moh(*command, "--checkpoint", "converted", "data.tokenizer=byte", "data.sequence_length=32")
        output = self.moh("train", self.job(), "data.tokenizer=other", "output.dir=no", code=support.CONFIG_ERROR)
        self.assert_says(output, "data.tokenizer: expected byte or the path of a tokenizer, as text is turned into tokens for training, found other")

    def test_a_larger_vocabulary(self):
        for rows in ("mean", "normal", "zeros"):
            output = self.moh("train", self.job(router="query_norm"), "--overwrite", "model.vocab_size=300",
                              f"init.new_rows={rows}")
            self.assert_says(output, "model.embed_tokens.weight: 256 rows extended to 300")
        self.assertEqual(len(self.tensors_of("run")["lm_head.weight"]), 300 * 32)
        self.assert_says(self.moh("train", self.job(), "--overwrite", "model.vocab_size=256", "model.hidden=64",
                                  code=support.CONFIG_ERROR), "model.hidden: expected 32 as in the checkpoint")

    def test_what_does_not_fit_is_refused_and_changes_nothing(self):
        self.moh("train", self.job())
        before = support.state_of(self.newest())
        for override, code, says in (
                ("model.layers=3", support.CONFIG_ERROR, "model.layers: expected 2 as in the checkpoint of init.from"),
                ("init.from=nothing", support.INPUT_ERROR,
                 "init.from: nothing: expected a model, found no such file or folder"),
                ("model.moh.num_shared=5", support.CONFIG_ERROR, "model.moh.num_shared: expected at most model.heads (4)"),
                ("model.moh.shared_heads=[1]", support.CONFIG_ERROR, "expected as many heads as model.moh.num_shared says"),
                ("init.part=ema", support.CONFIG_ERROR, "this checkpoint has no moving average"),
        ):
            with self.subTest(override=override):
                output = self.moh("train", "moh.yaml", "--overwrite", override, code=code)
                self.assert_says(output, says)
                self.assertEqual(support.state_of(self.newest()), before)

    def test_a_moh_model_goes_on_as_it_is(self):
        self.moh("train", self.job(shared_heads="[1, 3]"))
        self.write("on.yaml", support.to_yaml({**JOB, "init": {"from": "run"}}) + "\n")
        self.moh("train", "on.yaml", "output.dir=on")
        self.assertIn("shared_heads: [1, 3]", resolved(self.folder / "on"))
        self.assertLess(support.losses(self.folder / "on")[0], support.losses(self.folder / "dense")[0] - 0.5)


if __name__ == "__main__":
    support.main()
