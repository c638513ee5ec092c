"""moh plan and moh bench decode: what they print, what they refuse. Nothing here depends on how fast anything is."""

import json
import re
import resource

import support
from support import DENSE

PURPOSES = {"parameter", "gradient", "optimizer", "activation", "workspace", "data", "total"}
NO_TEXT = {"data.train": "missing.txt"}


class Plan(support.MohTest):
    def plan(self, settings, *arguments):
        return json.loads(self.moh("plan", self.config({**NO_TEXT, **settings}), "--json", *arguments))

    def test_memory_is_what_a_step_takes(self):
        size = {"model.hidden": 128, "model.intermediate": 352, "model.vocab_size": 2048, "model.max_positions": 128,
                "data.sequence_length": 128}
        for settings in (DENSE, {}, {"model.recompute": "layer", "model.kv_heads": 2, "precision": "bfloat16"},
                         {"model.recompute": "norms"}, {"model.recompute": "mlp"},
                         {"model.recompute": ["mlp", "attention"]},
                         {"model.recompute": "attention", **DENSE, "precision": "bfloat16"}):
            with self.subTest(settings=settings):
                plan = self.plan({**size, **settings})
                step = json.loads(self.moh("bench", "step", "tiny.yaml", "--random-data", "--steps", 1, "--warmup", 1,
                                           "--no-peaks", "--json"))
                (configured,) = [choice for choice in plan["recompute"].values() if choice["configured"]]
                self.assertEqual(set(configured["peak_bytes"]), PURPOSES)
                for purpose, measured in step["peak_bytes"].items():
                    self.assertAlmostEqual(configured["peak_bytes"][purpose], measured, delta=0.05 * measured, msg=purpose)
                self.assertEqual(plan["parameters"], step["parameters"])
                tokens = step["batch_size"] * step["sequence_length"]
                self.assertAlmostEqual(plan["flops_per_token"], step["flops_per_step"] / tokens, places=3)

    def test_the_memory_is_left_out_if_told(self):
        for options in ((), ("--peak-tflops", 1)):
            whole, without = self.plan({}, *options), self.plan({}, "--no-memory", *options)
            self.assertEqual({key: value for key, value in whole.items() if key not in ("recompute", "least_bytes")}, without)
        self.assertNotIn("at its peak", self.moh("plan", "tiny.yaml", "--no-memory"))
        self.assert_says(self.moh("plan", "tiny.yaml", "--no-memory", "--memory", "1GB", code=support.CONFIG_ERROR), "excludes")

    def test_a_run_recomputes_what_makes_it_fit(self):
        size = {"data.train": "text.txt", "model.hidden": 128, "model.layers": 6, "train.steps": 3, **DENSE}
        levels = self.plan(size)["recompute"]
        needs = {level: max(choice["peak_bytes"]["total"], choice["evaluation_bytes"]) for level, choice in levels.items()}
        smallest = min(levels, key=lambda level: (needs[level], levels[level]["recomputed_share"]))
        self.assertGreater(needs["none"], needs["norms"])
        self.assertGreater(needs["norms"], needs[smallest])
        for level in ("none", "norms", smallest):
            output = self.train(size, "--overwrite", "--memory", needs[level])
            self.assert_says(output, f"model.recompute: {level}, by plan ")
        message = self.train(size, "--overwrite", "--memory", needs[smallest] - 1, code=support.CONFIG_ERROR)
        self.assert_says(message, "moh train: --memory: expected ", f"or more, with model.recompute: {smallest}")

    def test_a_model_that_no_machine_here_could_hold(self):
        plan = self.plan({"device": "cuda", "precision": "bfloat16", **DENSE, "model.hidden": 8192, "model.layers": 80,
                          "model.heads": 64, "model.intermediate": 28672, "model.vocab_size": 128256,
                          "model.max_positions": 8192, "data.sequence_length": 8192, "train.batch_size": 8},
                         "--gpus", 8, "--gpu-memory", "80GB", "--peak-tflops", "H100")
        self.assertGreater(plan["parameters"], 60e9)
        for choice in plan["recompute"].values():
            self.assertFalse(choice["fits"])
            self.assertEqual(choice["largest_batch_size"], 0)
            at_peak = choice["at_peak_bytes"]
            self.assertEqual(sum(at_peak[purpose] for purpose in PURPOSES - {"total"}), at_peak["total"])
        self.assertAlmostEqual(plan["tokens_per_s"], 8 * 0.4 * 989e12 / plan["flops_per_token"], delta=1)
        self.assertEqual((plan["batch_size"], plan["tokens_per_step"]), (1, 8 * 8192))
        self.assertAlmostEqual(plan["days"], 8 * plan["tokens_per_step"] / plan["tokens_per_s"] / 86400, places=9)

    def test_evaluations_are_counted(self):
        settings = {**DENSE, "train.steps": 100, "eval.every": 20, "checkpoint.every": 30, "checkpoint.keep_best": True,
                    "eval.max_tokens": 4096}
        plan = self.plan(settings, "--peak-tflops", 1)
        self.assertEqual((plan["evaluations"], plan["items_per_evaluation"]), (7, 4096))  # 20, 30, 40, 60, 80, 90, 100
        share = 7 * 4096 / (3 * 100 * plan["tokens_per_step"])
        self.assertAlmostEqual(plan["evaluation_share"], share, delta=0.02 * share)
        self.assertAlmostEqual(plan["evaluation_days"], plan["days"] * plan["evaluation_share"], places=9)
        self.assertEqual(self.plan({**settings, "eval.every": 0})["evaluations"], 1)
        self.assertEqual(self.plan({**settings, "data.validation_fraction": 0.0})["evaluations"], 0)
        # Bounded by default; of all held-out data nobody knows how many they are.
        del settings["eval.max_tokens"]
        self.assertEqual(self.plan(settings)["items_per_evaluation"], 131072)
        whole = self.plan({**settings, "eval.max_tokens": 0})
        self.assertEqual(whole["evaluations"], 7)
        self.assertNotIn("evaluation_share", whole)
        said = self.moh("plan", self.config({**settings, "eval.max_tokens": 0}))
        self.assert_says(said, "evaluations         7, each of all held-out tokens")

    def test_evaluations_of_pictures_are_counted_with_those_that_are_drawn(self):
        self.write("dit.yaml", "task: diffusion\n" + support.TINY_DIT + "data: {drawn: 64, drawn_validation: 16}\n"
                   "train: {steps: 6, batch_size: 4}\neval: {every: 3}\nsample: {pictures: 2, steps: '5'}\n")
        plan = json.loads(self.moh("plan", "dit.yaml", "--json"))
        self.assertEqual((plan["evaluations"], plan["items_per_evaluation"]), (2, 16 + 2 * 5 * 2))
        plan = json.loads(self.moh("plan", "dit.yaml", "--json", "eval.max_pictures=4", "sample.guidance=1"))
        self.assertEqual(plan["items_per_evaluation"], 4 + 2 * 5)

    def test_a_large_model_is_planned_in_little_time_and_memory(self):
        def used():
            usage = resource.getrusage(resource.RUSAGE_CHILDREN)
            return usage.ru_utime + usage.ru_stime

        size = {"device": "cuda", "precision": "bfloat16", **DENSE, "model.hidden": 4096, "model.layers": 32,
                "model.heads": 32, "model.kv_heads": 8, "model.intermediate": 14336, "model.vocab_size": 128256,
                "model.max_positions": 8192, "data.sequence_length": 8192, "train.accumulate": 16}
        before = used()
        plan = self.plan(size, "--gpu-memory", "400GB")
        self.assertEqual(plan["parameters"], 8_030_261_248)
        self.assertGreater(plan["recompute"]["layer"]["largest_batch_size"], 1)
        self.assertLess(used() - before, 2)
        self.assertLess(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss, 300 << 10)

    def test_sizes_without_bounds_end_in_an_error(self):
        most = {"model.max_positions": 1 << 24, "data.sequence_length": 1 << 20, "train.batch_size": 1 << 20,
                "model.hidden": 1 << 20, "model.heads": 1 << 12, **DENSE}
        message = self.moh("plan", self.config({**NO_TEXT, **most}), code=support.CONFIG_ERROR)
        self.assert_says(message, "dry run: memory of cpu: expected at most 2^56 bytes", "use a smaller batch or model")
        for key in ("model.layers", "model.heads"):  # which would be planned for hours
            message = self.moh("plan", "tiny.yaml", f"{key}={1 << 20}", code=support.CONFIG_ERROR)
            self.assert_says(message, f"{key}: expected an integer of at least 1, found 1048576; the limit is ")

    def test_the_most_heads_and_many_layers_are_planned_in_a_bounded_time(self):
        before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
        most = {"model.layers": 64, "model.heads": 4096, "model.head_dim": 2, "train.accumulate": 8, "model.moh.top_k": 1000}
        plan = self.plan(most, "--gpu-memory", "1000GB")
        self.assertGreater(plan["recompute"]["layer"]["largest_batch_size"], 1)
        self.assertLess(resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - before, 20)

    def test_options_about_gpus_plan_gpus(self):
        for options in (("--gpus", 2), ("--gpu-memory", "80GB"), ("--peak-tflops", "H100"),
                        ("--gpus", 4, "--gpu-memory", "80GB", "--peak-tflops", "A100")):
            with self.subTest(options=options):
                plan = self.plan({}, *options)
                self.assertEqual(plan["device"], "cuda:0")
                self.assertEqual(plan["recompute"], self.plan({"device": "cuda"}, *options)["recompute"])
                self.assertEqual(self.plan({"device": "cuda:1"}, *options)["device"], "cuda:1")
                message = self.moh("plan", self.config({"device": "cpu"}), *options, code=support.CONFIG_ERROR)
                self.assert_says(message, f"moh plan: {options[0]}", "expected device: cuda, or no device, in the configuration, "
                                 "found device: cpu; --devices, --memory and --peak-tflops NUMBER plan for CPUs as well")
                self.assertEqual(self.plan({"device": "cpu"}, *options[:0], "device=cuda", *options)["device"], "cuda:0")

    def test_processes_on_cpus(self):
        plan = self.plan({"device": "cpu"}, "--devices", 2, "--memory", "16GB", "--peak-tflops", "0.5")
        self.assertEqual((plan["device"], plan["gpus"], plan["batch_size"]), ("cpu", 2, 2))
        self.assertTrue(plan["recompute"]["none"]["fits"])
        self.assertEqual(self.plan({}, "--devices", 2)["device"], "cpu")
        self.assert_says(self.moh("plan", "tiny.yaml", "--devices", 2, "--gpus", 2, code=support.CONFIG_ERROR), "--gpus")

    def test_published_rates_are_those_of_the_arithmetic(self):
        for settings, tflops, hint in (({}, 67, "tf32: true has 495, precision: bfloat16 989"),
                                       ({"device": "cuda", "tf32": True}, 495, "precision: bfloat16 has 989"),
                                       ({"precision": "bfloat16"}, 989, "")):
            with self.subTest(settings=settings):
                config = self.config({**NO_TEXT, **settings})
                self.assertEqual(json.loads(self.moh("plan", config, "--peak-tflops", "H100", "--json"))["peak_tflops"], tflops)
                output = self.moh("plan", config, "--peak-tflops", "H100")
                self.assert_says(output, f"at 40% of {tflops} TFLOP/s (NVIDIA H100 80GB HBM3, ")
                self.assertEqual("on this GPU" in output, bool(hint))
                self.assert_says(output, hint)

    def test_shared_heads_that_are_measured(self):
        measured = {"init": {"from": "dense"}, "model.moh.num_shared": 1, "model.moh.top_k": 1}
        first = self.plan({"model.moh.num_shared": 1, "model.moh.top_k": 1})
        for rule in ("output_norm", "loss_increase"):
            with self.subTest(rule=rule):
                size = {key: first[key] for key in ("parameters", "flops_per_token", "recompute", "activated_heads")}
                config = self.config({**NO_TEXT, **measured, "model.moh.shared_heads": rule})
                result = self.command("plan", config, "--json")
                self.assertEqual(result.returncode, support.DONE, result.output)
                self.assert_says(result.output, "init.from: dense is not there; planned is the model that the configuration describes")
                plan = json.loads(result.output.splitlines()[-1])
                self.assertEqual({key: plan[key] for key in size}, size)
        # Without sizes there is nothing to plan.
        self.write("open.yaml", "data: {train: x}\ninit: {from: dense}\nmodel: {moh: {router: learned, num_shared: 1, top_k: 1}}\n")
        self.assert_says(self.moh("plan", "open.yaml", code=support.INPUT_ERROR), "init.from")

    def test_nothing_is_written(self):
        before = sorted(self.folder.rglob("*"))
        config = self.config(NO_TEXT)
        output = self.moh("plan", config)
        self.assert_says(output, "parameters", "FLOP per token", "all heads active", "model.recompute", "optimizer",
                         "no time estimate without --peak-tflops")
        self.assertEqual(sorted(self.folder.rglob("*")), sorted([*before, self.folder / config]))

    def test_refusals(self):
        config = self.config(NO_TEXT)
        for arguments, message in (
                ((config, "train.stesp=3"), "did you mean"),
                ((config, "--gpu-memory", "80 apples"), "moh plan: --gpu-memory: expected a size in bytes"),
                ((config, "--peak-tflops", "Z80"), "moh plan: --peak-tflops: expected TFLOP/s"),
                ((config, "--mfu", "1.5"), "moh plan: --mfu: expected a share"),
                ((config, "--gpus", "0"), "moh plan: --gpus: expected 1 to"),
                ((), "config is required")):
            with self.subTest(arguments=arguments):
                self.assert_says(self.moh("plan", *arguments, code=support.CONFIG_ERROR), message)
        wrong = self.config({"model.heads": 7})
        said = [self.moh(command, wrong, code=support.CONFIG_ERROR) for command in ("plan", "config")]
        planned, read = (re.sub(r"^\d\d:\d\d:\d\d ", "", output) for output in said)  # the clock may have gone on
        self.assertEqual(planned, read)
        self.assert_says(planned, "model.heads: expected a divisor of model.hidden")


class Decode(support.MohTest):
    SMALL = ("--layers", 1, "--hidden", 32, "--heads", 8, "--head-dim", 8, "--tokens", 1, "--repeats", 1, "--threads", 1)

    def test_records(self):
        output = self.moh("bench", "decode", "--context", "16,600", "--active", "1.0,0.5", "--json", *self.SMALL)
        records = [json.loads(line) for line in output.splitlines()]
        self.assertEqual([(r["context"], r["router"], r["active"]) for r in records],
                         [(context, router, active) for context in (16, 600)
                          for router, active in (("none", 1), ("learned", 0.5), ("query_norm", 0.5))])
        self.assertEqual({(r["heads"], r["kv_heads"], r["layers"]) for r in records}, {(8, 8, 1)})

    def test_a_configuration_gives_the_sizes(self):
        output = self.moh("bench", "decode", self.config(NO_TEXT), "--context", 8, "--active", "0.5", "--tokens", 1,
                          "--repeats", 1, "--json")
        for line in output.splitlines():
            record = json.loads(line)
            self.assertEqual((record["hidden"], record["layers"], record["heads"]), (32, 2, 4))
            self.assertNotEqual(record["router"], "none")

    def test_table_and_refusals(self):
        self.assert_says(self.moh("bench", "decode", "--context", 8, *self.SMALL), "tokens/s", "attention ms", "query_norm")
        self.assert_says(self.moh("bench", "decode", "--context", 0, *self.SMALL, code=support.CONFIG_ERROR),
                         "bench decode: context: expected 1 or more, found 0")


if __name__ == "__main__":
    support.main()
