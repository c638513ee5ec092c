"""scripts/reproduce.py heads_at_equal_compute: its rows are what moh trains, each as long as its costs allow, and its scores those of the runs."""

import json
import math
import os
import pathlib
import sys
import types

import support

ROOT = pathlib.Path(os.environ["MOH_SOURCE_DIR"])
sys.path[:0] = [str(ROOT / "scripts"), str(ROOT / "tests/support")]

from forked_scripts import ForkedScripts
from reproduction import equal_compute, head_forms, moh

CONFIG, VISION = ROOT / "configs/heads/language.yaml", ROOT / "configs/heads/vision.yaml"


def row_of(flops, step_ms, form=head_forms.DENSE):
    return equal_compute.Row(form, (), {"flops_per_item": flops, "step_ms": step_ms, "items_per_step": 4096})


class Forms(support.MohTest):
    def check_forms(self, config, base, data):
        dense = moh.plan(support.MOH, config, data)
        for form in head_forms.forms_for(base, None):
            with self.subTest(form=form.name):
                plan = moh.plan(support.MOH, config, [*head_forms.settings_of(form, base), *data])
                share = 0.75 if "75%" in form.name else 0.5 if "50%" in form.name or "for all tokens" in form.name else 1
                self.assertAlmostEqual(plan["activated_heads"], share, delta=1e-9)
                if form is not head_forms.DENSE:
                    self.assertNotEqual(plan["flops_per_item"], dense["flops_per_item"])

    def test_each_is_a_model_with_the_share_of_heads_that_it_names(self):
        data = [f"data.train={self.write('text.txt', 'Two households, both alike in dignity, ' * 200)}"]
        base = head_forms.base_of(support.MOH, CONFIG, data)
        self.assertEqual((base.heads, base.head_dim, base.task), (24, 16, head_forms.LANGUAGE))
        self.assertGreaterEqual(len(head_forms.forms_for(base, None)), 17)
        self.check_forms(CONFIG, base, data)

    def test_those_of_a_vit_are_dense_and_moh_models_static_heads_and_gates(self):
        base = head_forms.base_of(support.MOH, VISION, [])
        self.assertEqual((base.heads, base.head_dim, base.task), (24, 8, head_forms.IMAGES))
        names = [form.name for form in head_forms.forms_for(base, None)]
        self.assertEqual(len(names), 8)
        self.assertFalse([name for name in names if "KV" in name or "routed keys" in name])
        self.check_forms(VISION, base, ["data.train=[]", "data.validation=[]", "data.drawn=1024"])
        with self.assertRaisesRegex(Exception, "--rows: expected of"):
            head_forms.forms_for(base, ["whole KV groups, 50%"])

    def test_models_without_one_number_of_heads_are_refused(self):
        for config, found in (("vit/cifar10_transnext_dense", "transnext"), ("dit/quickstart", "diffusion")):
            with self.assertRaisesRegex(Exception, f"expected a language model or a classifier with model.architecture: vit, found {found}"):
                head_forms.base_of(support.MOH, ROOT / f"configs/{config}.yaml", [])

    def test_other_numbers_of_heads_and_unknown_rows_are_refused(self):
        base = head_forms.Base(10, 16)
        with self.assertRaisesRegex(Exception, "expected a multiple of 24.*found 10"):
            head_forms.forms_for(base, None)
        with self.assertRaisesRegex(Exception, "--rows: expected of"):
            head_forms.forms_for(head_forms.Base(24, 16), ["MoH, 49%"])

    def test_the_dense_row_is_always_there_as_differences_are_to_it(self):
        chosen = head_forms.forms_for(head_forms.Base(24, 16), ["MoH, 50%"])
        self.assertEqual([form.name for form in chosen], ["dense, all heads", "MoH, 50%"])


class Lengths(support.MohTest):
    def test_a_row_of_fewer_operations_trains_on_more_tokens(self):
        dense, sparse = row_of(100, 10), row_of(80, 12)
        lengths = sparse.lengths(200, dense.cost)
        self.assertEqual(lengths["items"], 200)
        self.assertAlmostEqual(lengths["operations"] * 80, 200 * 100)
        self.assertAlmostEqual(lengths["time"] * 12, 200 * 10)
        self.assertEqual(equal_compute.length_of(sparse, 200, dense.cost), 260)  # 250, to the next of the evaluations, each 20 steps
        self.assertEqual(equal_compute.length_of(dense, 200, dense.cost), 200)

    def test_steps_of_the_dense_model_cost_a_row_what_they_cost_that_model(self):
        dense, static = row_of(100, 10), row_of(80, 8, head_forms.Form("half", lambda base: (), begins=0.5))
        operations = static.lengths(200, dense.cost)["operations"]
        self.assertAlmostEqual(100 * 100 + (operations - 100) * 80, 200 * 100)
        self.assertEqual(static.lengths(200, dense.cost)["items"], 200)

    def test_scores_between_two_evaluations_lie_on_a_line(self):
        curve = {20: 4.0, 40: 3.0, 60: 2.5}
        self.assertAlmostEqual(equal_compute.at(curve, 40), 3.0)
        self.assertAlmostEqual(equal_compute.at(curve, 45), 2.875)
        with self.assertRaisesRegex(Exception, "ended after 60 steps; expected 61"):
            equal_compute.at(curve, 61)

    def test_what_goes_on_from_the_dense_model_has_its_curve_before(self):
        form = head_forms.Form("half", lambda base: (), begins=0.5)
        row, arguments = row_of(100, 10, form), types.SimpleNamespace(out=self.folder)
        for name, records in (("dense_all_heads_1", {10: 5.0, 20: 4.0, 30: 3.5}), ("half_1", {10: 3.8, 20: 3.2})):
            (self.folder / name).mkdir()
            (self.folder / name / "metrics.jsonl").write_text("".join(
                json.dumps({"kind": "eval", "step": step, "loss": loss}) + "\n" for step, loss in records.items()), encoding="utf-8")
        self.assertEqual(row.begun(40), 20)
        self.assertEqual(equal_compute.curve_of(arguments, row, 1, 40), {10: 5.0, 20: 4.0, 30: 3.8, 40: 3.2})


class Table(support.MohTest):
    @classmethod
    def setUpClass(cls):
        matplotlib = "try:\n    import matplotlib\n    matplotlib.use('Agg')\n    import matplotlib.pyplot\nexcept ImportError:\n    pass"
        cls.forked = cls.enterClassContext(ForkedScripts(matplotlib))

    def reproduce(self, *further, code=0, config=CONFIG):
        calls = self.folder / "calls.txt"
        text = self.write("text.txt", "Two households, both alike in dignity, " * 200)
        stand_in = support.program_of(pathlib.Path(__file__).with_name("moh_stand_in.py"), self.folder)
        data = ["--data", text] if config == CONFIG else []
        command = [ROOT / "scripts/reproduce.py", "heads_at_equal_compute", "--config", config, *data, "--seeds", "1,2", "--rows", "MoH, 50%", "--moh", stand_in, "--out", self.folder / "out", *further]
        result = self.forked.run(*command, cwd=ROOT, env={**os.environ, "STAND_IN_CALLS": str(calls)})
        if "has no matplotlib" in result.stderr:
            self.skipTest(result.stderr)
        self.assertEqual(result.returncode, code, result.stdout + result.stderr)
        lines = calls.read_text(encoding="utf-8").splitlines() if calls.exists() else []
        calls.unlink(missing_ok=True)
        return result, list(map(json.loads, lines))

    def test_it_measures_trains_and_writes_once(self):
        _, calls = self.reproduce()
        trained = [words for words in calls if words[0] == "train"]
        self.assertEqual(len(trained), 4)
        for words in trained:
            self.assertIn("schedule.kind=constant", words)
        out = self.folder / "out/heads_at_equal_compute"
        result = json.loads((out / "heads_at_equal_compute.json").read_text(encoding="utf-8"))
        self.assertEqual([row["row"] for row in result["rows"]], ["dense, all heads", "MoH, 50%"])
        for row in result["rows"]:
            self.assertTrue(all(math.isfinite(score) for scores in row["scores"].values() for score in scores))
            self.assertEqual({len(scores) for scores in row["scores"].values()}, {2})
        table = (out / "heads_at_equal_compute.md").read_text(encoding="utf-8")
        self.assertRegex(table, r"(?m)^\| MoH, 50% \| 2M \| 6G \|")
        self.assertEqual((out / "heads_at_equal_compute.png").read_bytes()[:4], b"\x89PNG")
        _, again = self.reproduce()
        self.assertEqual([words for words in again if words[0] in ("train", "bench")], [])

    def test_classifiers_have_top_1_beside_the_loss_and_no_cache(self):
        _, calls = self.reproduce(config=VISION)
        self.assertEqual([words for words in calls if words[:2] == ["bench", "decode"]], [])
        trained = [words for words in calls if words[0] == "train"]
        self.assertEqual(len(trained), 4)
        for words in trained:
            self.assertIn("train.epochs=0", words)
        out = self.folder / "out/heads_at_equal_compute"
        result = json.loads((out / "heads_at_equal_compute.json").read_text(encoding="utf-8"))
        self.assertEqual([list(map(round, row["top1"])) for row in result["rows"]], [[41, 42], [41, 42]])
        table = (out / "heads_at_equal_compute.md").read_text(encoding="utf-8")
        self.assertIn("| operations a picture | step, ms | to dense | loss at equal pictures |", table)
        self.assertRegex(table, r"(?m)^\| MoH, 50% \| 2M \| 6G \|.* \| 41\.50 ± 6\.35 \|$")

    def test_a_row_that_comes_later_has_times_beside_the_first_ones_of_the_dense_model(self):
        self.reproduce()
        costs = self.folder / "out/heads_at_equal_compute/costs.json"
        known = json.loads(costs.read_text(encoding="utf-8"))
        known["dense, all heads"]["step_ms"] *= 2  # as if the machine had been half as fast
        costs.write_text(json.dumps(known), encoding="utf-8")
        self.reproduce("--rows", "MoH, 75%")
        later = json.loads(costs.read_text(encoding="utf-8"))
        self.assertEqual(later["MoH, 75%"]["step_ms"], 500)
        self.assertEqual(later["MoH, 75%"]["decode_ms"], 3)
        self.assertEqual(later["MoH, 50%"], known["MoH, 50%"])

    def test_options_that_do_not_go_together_are_refused(self):
        result, _ = self.reproduce("--full", code=2)
        self.assertIn("takes no --full", result.stderr)

    def test_other_settings_in_the_same_folder_are_refused(self):
        self.reproduce()
        result, _ = self.reproduce("--", "optim.learning_rate=1e-3", code=1)
        self.assertIn("has runs with other settings", result.stderr)


if __name__ == "__main__":
    support.main()
