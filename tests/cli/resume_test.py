"""A run that is killed and resumed computes what it would have computed anyway, bit for bit."""

import os

import support
from support import DENSE, QUERY_NORM

STEPS, SAVE_EVERY = 120, 60


class KillAndResume(support.MohTest):
    """2N steps in one run against N, SIGKILL, and --resume to 2N."""

    def check(self, settings):
        settings = {"train.steps": STEPS, "checkpoint.every": SAVE_EVERY, "eval.every": 20, "model.dropout": 0.1,
                    **settings}
        config = self.config(settings)
        self.moh("train", config, "output.dir=whole")
        run = support.Running(self, "train", config)
        run.read_until(f"step {SAVE_EVERY + 3}/")
        self.assertTrue(run.kill(), f"the run had ended before it was killed:\n{run.output}")
        output = self.moh("train", config, "--resume")
        self.assert_says(output, f"resume: from step {SAVE_EVERY}")
        self.assert_same_state("whole", "run")
        self.assert_same_history("whole", "run")
        self.assert_each_step_once("run", STEPS, eval_every=20)
        self.assert_no_litter()

    def test_dense(self):
        self.check(DENSE)

    def test_learned_router(self):
        self.check({})

    def test_query_norm_router(self):
        self.check(QUERY_NORM)

    def test_grouped_query_experts(self):
        self.check({"model.kv_heads": 2, "model.moh.routing": "gqe", "model.moh.num_shared": 0, "model.moh.top_k": 2})

    def test_experts(self):
        self.check({**DENSE, "model.switch_head.experts": 4, "model.switch_head.top_k": 2})

    def test_accumulation(self):
        self.check({"train.batch_size": 2, "train.accumulate": 3})

    def test_bfloat16(self):
        self.check({"precision": "bfloat16"})

    def test_bfloat16_with_float32_routers(self):
        self.check({"precision": "bfloat16", "model.moh.router_precision": "float32"})

    def test_bfloat16_dense_recomputed(self):
        self.check({**DENSE, "precision": "bfloat16", "model.recompute": "layer"})

    def test_lion(self):
        self.check({**DENSE, "optim.name": "lion", "optim.learning_rate": 0.0005, "schedule.warmup_start": 0.0001,
                    "precision": "bfloat16"})

    def test_adapters(self):
        self.check({"model.lora.rank": 2, "precision": "bfloat16", "train.accumulate": 2, "ema.decay": 0.9})

    def test_muon(self):
        self.check({"optim.name": "muon"})

    def test_adafactor(self):
        self.check({"optim.name": "adafactor", "precision": "bfloat16"})

    def test_two_threads(self):
        self.check({"threads": 2})

    def test_the_last_step_of_an_epoch(self):
        # 20 windows and one for the random offset, in batches of 4: an epoch is 5 steps, and N steps are 12 of them.
        self.write("text.txt", support.text_of_words(400)[:21 * 32 + 1])
        self.check({"data.validation_fraction": 0.0, "data.validation": "text.txt"})


class Determinism(support.MohTest):
    def setUp(self):
        super().setUp()
        # Large enough for the work to be divided among threads.
        self.settings = {"model.hidden": 64, "model.intermediate": 192, "model.max_positions": 64,
                         "model.dropout": 0.1, "data.sequence_length": 64, "train.batch_size": 8}

    def assert_same_runs(self, name, other):
        self.assert_same_state(name, other)
        self.assert_same_history(name, other)

    def test_the_same_seed_gives_the_same_run(self):
        self.train(self.settings, "output.dir=a")
        self.train(self.settings, "output.dir=b")
        self.assert_same_runs("a", "b")
        self.train(self.settings, "output.dir=c", "seed=4")
        self.assertNotEqual(support.state_of(self.newest("a")), support.state_of(self.newest("c")))

    def test_the_work_is_divided_among_threads(self):
        run = support.Running(self, "train", self.config({**self.settings, "train.steps": 1000}), "threads=3")
        run.read_until("step 2/")
        # Three that compute, and the one that fetches batches.
        self.assertGreaterEqual(len(os.listdir(f"/proc/{run.pid}/task")), 4)

    def test_any_number_of_threads_gives_the_same_run(self):
        for router in (DENSE, {}, QUERY_NORM):
            for precision in ("float32", "bfloat16"):
                with self.subTest(router=router, precision=precision):
                    settings = {**self.settings, **router, "precision": precision}
                    for threads in (1, 2, 3):
                        self.train(settings, "--overwrite", f"output.dir=threads_{threads}", f"threads={threads}")
                    self.assert_same_runs("threads_1", "threads_2")
                    self.assert_same_runs("threads_1", "threads_3")

    def test_instruction_sets_differ_by_rounding(self):
        """60 steps. What a router selects is a step function of its scores: where two heads are that near, rounding decides,
        and the runs part. The norms of fresh queries are nearer to one another than the logits of a learned router."""
        sets = self.instruction_sets()
        if len(sets) == 1:
            self.skipTest(f"this processor and this build have kernels of {sets[0]} only")
        settings = {**self.settings, "train.steps": 60, "eval.every": 60, "checkpoint.every": 60}
        for router, bound in ((DENSE, 1e-5), ({}, 1e-3), (QUERY_NORM, 2e-2)):
            for name in sets:
                self.train({**settings, **router}, "--overwrite", f"output.dir={name}", env={"MOH_CPU_ISA": name})
            expected = support.losses(self.folder / sets[0])
            self.assertLess(expected[-1], 0.8 * expected[0])
            for name in sets[1:]:
                found = support.losses(self.folder / name)
                worst = max(abs(a - b) / a for a, b in zip(expected, found, strict=True))
                print(f"{router or 'learned'}: losses with {name} differ from those with {sets[0]} by {worst:.1e}", flush=True)
                self.assertLess(worst, bound)
                self.assertGreater(worst, 0)  # otherwise the variable did nothing

    def test_recomputing_layers_changes_nothing(self):
        for router in (DENSE, {}, QUERY_NORM):
            with self.subTest(router=router):
                for level in ("none", "norms", "mlp", "attention", "[mlp, attention]", "layer"):
                    folder = level.strip("[]").replace(", ", "_")
                    self.train({**self.settings, **router}, "--overwrite", f"output.dir={folder}",
                               f"model.recompute={level}")
                    # The history holds the routers' loads: counted twice they would differ.
                    self.assert_same_runs("none", folder)

    def test_stopping_and_resuming_at_every_step_changes_nothing(self):
        self.train({"checkpoint.every": 1, "model.dropout": 0.1}, "output.dir=whole")
        config = self.config({"model.dropout": 0.1, "schedule.decay_steps": 8})
        for step in range(1, 9):
            self.moh("train", config, "--resume", f"train.steps={step}", "eval.every=4")
        self.assert_same_state("whole", "run")


class Memory(support.MohTest):
    def test_a_resumed_run_holds_weights_and_optimizer_state_once(self):
        # 14 MB of weights and short sequences: what is held for the weights is most of the memory.
        config = self.config({**DENSE, "model.hidden": 256, "model.intermediate": 768, "model.layers": 4,
                              "schedule.kind": "constant", "train.batch_size": 1, "eval.every": 0,
                              "eval.max_tokens": 32, "checkpoint.every": 0})
        self.moh("train", config, "train.steps=1")
        self.moh("train", config, "--resume", "train.steps=2")
        first, resumed = (record["peak_memory_bytes"] for record in support.metrics(self.folder / "run")
                          if record["kind"] == "train")
        self.assertGreater(first, 4 * 12_000_000)
        self.assertLess(resumed, 1.01 * first)


class Metrics(support.MohTest):
    def interrupted(self):
        config = self.config({"train.steps": STEPS, "checkpoint.every": SAVE_EVERY, "eval.every": 20})
        run = support.Running(self, "train", config)
        run.read_until(f"step {SAVE_EVERY + 3}/")
        self.assertTrue(run.kill())
        return config, self.folder / "run" / "metrics.jsonl"

    def check_repair(self, tail):
        config, path = self.interrupted()
        with path.open("ab") as file:
            file.write(tail)
        self.moh("train", config, "--resume")
        self.assert_each_step_once("run", STEPS, eval_every=20)

    def test_a_torn_last_line_is_repaired(self):
        self.check_repair(b'{"kind":"train","step":10')

    def test_a_long_torn_line_is_repaired(self):
        self.check_repair(b'{"kind":"train","step":10,"head_load":[' + b"0.5," * 5000)

    def test_a_run_that_is_resumed_at_its_end_repeats_no_record(self):
        config = self.config()
        self.moh("train", config)
        before = support.history(self.folder / "run")
        self.moh("train", config, "--resume")
        self.moh("train", config, "--resume")
        self.assertEqual(support.history(self.folder / "run"), before)


if __name__ == "__main__":
    support.main()
