"""What tunes a model besides the loss: parameter groups (optim.groups), an annealed K (model.moh.top_k_anneal_until) and
distillation (init.distill)."""

import json
import shutil

import support
from support import DENSE

ROUTERS_ALONE = '[{match: "*", freeze: true}, {match: "*.wg*.weight", learning_rate_scale: 0.5}]'
ANNEALED = {"model.moh.top_k_anneal_until": 0.5, "train.steps": 16, "checkpoint.every": 2, "checkpoint.keep_last": 9,
            "log.every": 1, "eval.every": 4}


class Tuning(support.MohTest):
    def rows(self, run, kind="train"):
        lines = (self.folder / run / "metrics.jsonl").read_text().splitlines()
        return [record for record in map(json.loads, lines) if record["kind"] == kind]

    def cut(self, run, name, step):
        """A copy of a run that ended after `step`."""
        shutil.copytree(self.folder / run, self.folder / name)
        for checkpoint in self.checkpoints(name):
            if checkpoint.name > f"step_{step:08}":
                shutil.rmtree(checkpoint)

    def refused(self, *arguments, says):
        output = self.command(*arguments)
        self.assertNotEqual(output.returncode, support.DONE, output.output)
        self.assert_says(output.output, *says)


class Groups(Tuning):
    def tensors(self, run, file):
        tensors = {}
        for path in self.newest(run).glob(f"{file}*.safetensors"):
            tensors.update(support.read_tensors(path))
        return tensors

    def test_routers_alone_move_and_have_state(self):
        start = self.train({"train.steps": 1, "optim.learning_rate": 1e-30, "schedule.warmup_steps": 0,
                            "schedule.warmup_start": 0}, "output.dir=start")
        output = self.train({}, "output.dir=groups", f"optim.groups={ROUTERS_ALONE}")
        self.assertNotIn("optim.groups", start)
        self.assert_says(output, "optim.groups[0]: frozen", "optim.groups[1]: learning rate x 0.5")
        before, after = self.tensors("start", "model"), self.tensors("groups", "model")
        moved = {name for name in after if list(before[name]) != list(after[name])}
        self.assertEqual(moved, {name for name in after if ".wg" in name})
        state = self.tensors("groups", "optimizer")
        self.assertEqual({name.split(".", 1)[1] for name in state}, moved)
        self.assert_says((self.folder / "groups" / "config.yaml").read_text(),
                         'groups: [{match: "*", freeze: true}, {match: "*.wg*.weight", learning_rate_scale: 0.5}]')
        plan = self.moh("plan", "tiny.yaml", f"optim.groups={ROUTERS_ALONE}")
        self.assert_says(plan, "trained", "the others are frozen")

    def test_what_decides_nothing_is_refused(self):
        for groups, says in (('[{match: "*.wgg.weight", freeze: true}]', "which matches none"),
                             ('[{match: "*.wg.weight"}, {match: "*", freeze: false}]', "put the more general group first"),
                             ('[{match: "*", freeze: true}]', "a parameter that is trained"),
                             ("[{freeze: true}]", "patterns of names"),
                             ('[{match: "*", lerning_rate_scale: 2}]', "did you mean optim.groups[0].learning_rate_scale?"),
                             ('[{match: "*", learning_rate_scale: 0}]', "optim.groups[0].learning_rate_scale: expected a number above 0"),
                             ("5", "optim.groups: expected a list of maps"),
                             ("[5]", "optim.groups[0]: expected a map")):
            with self.subTest(groups=groups):
                self.refused("train", self.config(), f"optim.groups={groups}", says=[says])

    def test_resuming_with_other_groups(self):
        settings = {"train.steps": 8, "checkpoint.every": 4}
        self.train(settings, "output.dir=whole")
        self.cut("whole", "run", 4)
        more = ("output.dir=run", "--resume", f"optim.groups={ROUTERS_ALONE}")
        self.refused("train", self.config(settings), *more, says=["optim.groups: [] ->", "--allow-changes"])
        self.train(settings, *more, "--allow-changes")
        # The frozen part of the state is gone with that.
        self.refused("train", self.config({**settings, "train.steps": 12, "schedule.decay_steps": 8}), "output.dir=run",
                     "--resume", "--allow-changes", says=["the optimiser's state of every parameter that is trained now",
                                                         "begin a new run with init.from"])

    def test_a_resumed_run_has_the_same_bits(self):
        for precision in ("float32", "bfloat16"):
            with self.subTest(precision=precision):
                settings = {"train.steps": 8, "checkpoint.every": 4, "precision": precision, "ema.decay": 0.5}
                groups = f"optim.groups={ROUTERS_ALONE}"
                self.train(settings, "output.dir=whole", groups, "--overwrite")
                shutil.rmtree(self.folder / "run", ignore_errors=True)
                self.cut("whole", "run", 4)
                self.train(settings, "output.dir=run", groups, "--resume")
                self.assert_same_state("whole", "run")
                self.moh("eval", "--checkpoint", "run")


class Annealing(Tuning):
    def test_k_falls_from_all_routed_heads_to_the_target(self):
        self.train(ANNEALED, "output.dir=run")
        rows = self.rows("run")
        # 4 heads, 1 of them shared, K = 1: 3 heads for the first half of the stretch of 8 steps, then 2, then 1.
        self.assertEqual([row["top_k"] for row in rows], [3] * 4 + [2] * 4 + [1] * 8)
        self.assertEqual([row["activated_heads"] for row in rows], [1] * 4 + [0.75] * 4 + [0.5] * 8)
        for row in rows:
            for load in row["head_load"]:
                self.assertAlmostEqual(sum(load), row["top_k"], places=5)

    def test_a_run_that_stopped_in_the_stretch_goes_on_with_the_same_bits(self):
        self.train(ANNEALED, "output.dir=whole")
        for step in (2, 6, 10):
            self.cut("whole", f"cut{step}", step)
            self.train(ANNEALED, f"output.dir=cut{step}", "--resume")
            self.assert_same_state("whole", f"cut{step}")
        # The share of the training that is done depends on its length.
        self.cut("whole", "longer", 6)
        self.refused("train", self.config({**ANNEALED, "train.steps": 32, "schedule.decay_steps": 16}), "output.dir=longer",
                     "--resume", says=["train.steps: 16 -> 32"])

    def test_evaluations_keep_the_target(self):
        self.train({**ANNEALED, "train.steps": 4, "model.moh.top_k_anneal_until": 1}, "output.dir=run")
        recorded = self.rows("run", "eval")[-1]["loss"]
        found = json.loads(self.moh("eval", "--checkpoint", "run", "--json").splitlines()[-1])
        self.assertAlmostEqual(found["loss"], recorded, places=9)


class Biases(Tuning):
    SETTINGS = {"model.moh.balance_bias": 0.05, "model.moh.balance_weight": 0, "train.steps": 9, "checkpoint.every": 3,
                "log.every": 1, "eval.every": 3, "ema.decay": 0.5}

    def biases(self, run):
        tensors = {}
        for path in self.newest(run).glob("model*.safetensors"):
            tensors.update(support.read_tensors(path, ".e_score_correction_bias"))
        return tensors

    def test_a_resumed_run_has_the_same_bits_and_its_biases(self):
        for precision in ("float32", "bfloat16"):
            with self.subTest(precision=precision):
                settings = {**self.SETTINGS, "precision": precision}
                self.train(settings, "output.dir=whole", "--overwrite")
                shutil.rmtree(self.folder / "run", ignore_errors=True)
                self.cut("whole", "run", 3)
                self.train(settings, "output.dir=run", "--resume")
                self.assert_same_state("whole", "run")
                biases = self.biases("whole")
                self.assertEqual(len(biases), 2)
                for name, values in biases.items():
                    # Nine steps of 0.05 up and down, in float32 whatever the precision of the weights is.
                    for value in values:
                        self.assertAlmostEqual(value / 0.05, round(value / 0.05), places=4, msg=name)
                    self.assertTrue(any(values), name)

    def test_evaluations_select_by_the_biases(self):
        self.train(self.SETTINGS, "output.dir=run")
        recorded = self.rows("run", "eval")[-1]["loss"]
        found = json.loads(self.moh("eval", "--checkpoint", "run", "--json").splitlines()[-1])
        self.assertAlmostEqual(found["loss"], recorded, places=9)

    def test_margins_in_logits_are_not_reported(self):
        self.train(self.SETTINGS, "output.dir=run")
        self.assertNotIn("router_margin", self.rows("run")[0])
        self.assertIn("routed_weight", self.rows("run")[0])
        self.assertIn("dead_heads", self.rows("run")[0])

    def test_what_has_no_biases_is_refused(self):
        self.refused("train", self.config({**DENSE, "model.moh.balance_bias": 0.001}), says=["model.moh.router: expected a router for"])
        self.refused("train", self.config({"model.moh.balance_bias": -1}), says=["model.moh.balance_bias: expected", "found -1"])


class Distillation(Tuning):
    def setUp(self):
        super().setUp()
        self.moh("train", self.config({**DENSE, "train.steps": 20, "output.dir": "dense", "eval.every": 20,
                                       "checkpoint.every": 20}, "dense.yaml"))
        self.settings = {"init.from": "dense", "init.moh.router_start": "zero", "init.moh.calibration.batches": 0,
                         "train.steps": 8, "checkpoint.every": 4, "log.every": 1}

    def test_the_twin_teaches_and_the_divergence_is_logged(self):
        self.train(self.settings, "output.dir=plain")
        self.train(self.settings, "output.dir=taught", "init.distill.weight=2", "init.distill.temperature=2", "init.distill.teacher=twin")
        self.assertNotIn("distill_loss", self.rows("plain")[0])
        losses = [row["distill_loss"] for row in self.rows("taught")]
        self.assertTrue(all(loss > 0 for loss in losses), losses)
        # The first step has the same loss, but another gradient.
        self.assertEqual(self.rows("plain")[0]["loss"], self.rows("taught")[0]["loss"])
        self.assertNotEqual(self.rows("plain")[0]["grad_norm"], self.rows("taught")[0]["grad_norm"])

    def test_accumulation_changes_rounding_alone(self):
        self.train(self.settings, "output.dir=one", "init.distill.weight=1", "init.distill.teacher=twin", "model.moh.balance_weight=0",
                   "train.batch_size=4", "train.accumulate=1")
        self.train(self.settings, "output.dir=two", "init.distill.weight=1", "init.distill.teacher=twin", "model.moh.balance_weight=0",
                   "train.batch_size=2", "train.accumulate=2")
        for one, two in zip(self.rows("one"), self.rows("two"), strict=True):
            self.assertAlmostEqual(one["distill_loss"], two["distill_loss"], delta=1e-4 * max(1, one["distill_loss"]))

    def test_the_source_teaches_and_is_needed_to_resume(self):
        teach = ("init.distill.weight=1",)
        self.train(self.settings, "output.dir=whole", *teach)
        self.cut("whole", "run", 4)
        self.train(self.settings, "output.dir=run", "--resume", *teach)
        self.assert_same_state("whole", "run")
        # Another teacher is refused, and so is another weight.
        self.cut("whole", "weight", 4)
        self.refused("train", self.config(self.settings), "output.dir=weight", "--resume", *teach, "init.distill.weight=3",
                     says=["init.distill.weight: 1 -> 3"])
        self.moh("train", "dense.yaml", "output.dir=other", "seed=9")
        self.refused("train", self.config(self.settings), "output.dir=weight", "--resume", *teach, "init.from=other",
                     says=["init.from: a teacher with hash"])

    def test_what_makes_no_sense_is_refused(self):
        for settings, says in ((("init.distill.temperature=2",), "a weight above 0 for the other keys"),
                               (("init.distill.weight=1", "init.from=\'\'"),
                                "the checkpoint of the teacher"),
                               (("init.distill.weight=-1",), "init.distill.weight: expected a number of at least 0")):
            with self.subTest(settings=settings):
                self.refused("train", self.config(), *settings, says=[says])
        self.refused("train", self.config(DENSE), "init.distill.weight=1", "init.distill.teacher=twin", says=["source for a dense model"])
        gqe = {"model.kv_heads": 2, "model.moh.routing": "gqe", "model.moh.num_shared": 0, "model.moh.top_k": 2}
        self.refused("train", self.config(gqe), "init.distill.weight=1", "init.distill.teacher=twin",
                     says=["source with model.moh.routing: gqe, whose parameters are those of no dense model"])
        self.train({**DENSE, "model.kv_heads": 2}, "output.dir=grouped", "train.steps=1")
        self.refused("train", self.config(gqe), "init.from=grouped",
                     says=["o_proj.weight", "with model.moh.routing: gqe the output projection is of slots"])

    def test_the_plan_counts_the_teacher(self):
        totals = {}
        for teacher in ("none", "twin", "source"):
            settings = () if teacher == "none" else ("init.distill.weight=1", f"init.distill.teacher={teacher}")
            plan = json.loads(self.moh("plan", self.config(self.settings), *settings, "--json"))
            totals[teacher] = plan["recompute"]["none"]["peak_bytes"]
        self.assertGreater(totals["twin"]["activation"], totals["none"]["activation"])
        self.assertGreater(totals["source"]["parameter"], 1.9 * totals["twin"]["parameter"])


if __name__ == "__main__":
    support.main()
