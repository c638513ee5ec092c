"""scripts/plot_run.py on made-up runs: what it draws, and what it says when there is nothing to draw."""

import json
import math
import pathlib
import tempfile
import unittest

import plot_script
from plot_script import png_size

plot_run = plot_script.load("plot_run")


def train(step, **fields):
    return {"kind": "train", "step": step, "loss": 4.0 / (1 + step), "learning_rate": 1e-3, **fields}


def plot(*arguments):
    return plot_script.run("plot_run", *arguments)


class PlotRunTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def make_run(self, name, records, tail=""):
        run = self.folder / name
        run.mkdir()
        lines = [json.dumps(record) + "\n" for record in records]
        (run / "metrics.jsonl").write_text("".join(lines) + tail, encoding="utf-8")
        return run

    def make_moh_run(self, name="moh", steps=100):
        load = [[0.5, 0.3, 0.2], [], [0.9, 0.1]]
        records = [train(step, head_load=load) for step in range(1, steps + 1)]
        return self.make_run(name, records + [{"kind": "eval", "step": steps, "loss": 1.25}])

    def test_draws_one_run(self):
        run = self.make_moh_run()
        result = plot(run)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(result.stdout.strip(), str(run / "curves.png"))
        width, height = png_size(run / "curves.png")
        self.assertEqual((width, height), (1650, 975))

    def test_compares_runs_and_gives_heads_a_row_of_their_own(self):
        dense = self.make_run("dense", [train(step) for step in range(1, 60)])
        output = self.folder / "both.png"
        result = plot(dense, self.make_moh_run(), "--labels", "dense", "half the heads", "-o", output)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(png_size(output), (1650, 1050))  # a legend below the curves
        only = self.folder / "dense.png"
        self.assertEqual(plot(dense, "-o", only).returncode, 0)
        self.assertEqual(png_size(only), (1650, 540))  # no heads, no second row

    def test_evaluations_over_different_data_are_named(self):
        def run(name, evaluated, held_out=1000, **losses):
            record = {"kind": "eval", "step": 2, "loss": 4.2, "evaluated": evaluated, "held_out": held_out, **losses}
            return self.make_run(name, [train(1), train(2), record])
        all_of_it, part = run("all", 1000), run("part", 200)
        said = plot(all_of_it, part, "-o", self.folder / "both.png")
        self.assertEqual(said.returncode, 0, said.stderr)
        for text in "over different data", "all: 1000 of 1000", "part: 200 of 1000":
            self.assertIn(text, said.stderr)
        self.assertEqual(plot(all_of_it, run("again", 1000), "-o", self.folder / "same.png").stderr, "")
        for other in run("longer", 1000, 2000), run("sources", 1000, **{"loss/books": 4.2}), self.make_moh_run("old"):
            self.assertIn("over different data", plot(all_of_it, other, "-o", self.folder / "other.png").stderr)

    def test_a_run_with_images_has_their_score(self):
        run = self.make_run("images", [train(1, images=64, images_per_s=100.0), train(2, images=128, images_per_s=200.0),
                                       {"kind": "eval", "step": 2, "top1": 0.5, "loss": 1.25}])
        axes = {each.get_title(loc="left") or each.get_title(): each for each in
                plot_run.draw_figure([plot_run.read_run(run)]).axes}
        self.assertEqual(axes["Loss"].get_ylabel(), "nats per image")
        self.assertEqual(axes["Validation top-1"].lines[0].get_xydata().tolist(), [[2, 0.5]])
        self.assertEqual(axes["Speed"].get_ylabel(), "images per second")

    def test_the_loss_of_a_diffusion_model_is_no_number_of_nats(self):
        run = self.make_run("noise", [train(step, images=64, noise_mse=0.1) for step in (1, 2)])
        loss = plot_run.draw_figure([plot_run.read_run(run)]).axes[0]
        self.assertEqual((loss.get_ylabel(), loss.get_yscale()), ("squared error of the noise + bits", "log"))

    def test_the_drawing_holds_the_records(self):
        figure = plot_run.draw_figure([plot_run.read_run(self.make_moh_run(steps=20))])
        loss, rate, over_time, last = figure.axes[:4]
        lines = {line.get_label(): line.get_xydata().tolist() for line in loss.lines}
        self.assertEqual(lines["training"], [[step, 4.0 / (1 + step)] for step in range(1, 21)])
        self.assertEqual(lines["validation (best 1.250)"], [[20, 1.25]])
        self.assertEqual(rate.lines[0].get_ydata().tolist(), [1e-3] * 20)
        # Relative to the even share: 0.5 of (1/3) is 1.5. The layer without routed heads has no rows on the left and
        # an empty one on the right.
        shown = last.collections[0].get_array().reshape(3, 3)
        self.assertAlmostEqual(shown[0, 0], 1.5)
        self.assertAlmostEqual(shown[2, 0], 1.8)
        self.assertTrue(shown.mask[1].all() and shown.mask[2, 2])
        self.assertEqual(over_time.collections[0].get_array().reshape(5, 20)[3].tolist(), [1.8] * 20)

    def test_what_was_before_a_step_is_left_out(self):
        run = self.make_moh_run(steps=20)
        loss = plot_run.draw_figure([plot_run.read_run(run, first_step=15)]).axes[0]
        self.assertEqual([line.get_xdata()[0] for line in loss.lines if line.get_label() == "training"], [15])
        self.assertEqual(plot(run, "--from-step", 15).returncode, 0)
        self.assertEqual(plot(run, "--from-step", 21).returncode, 1)

    def test_curves_that_runs_have_get_a_panel_each(self):
        records = [train(step, grad_norm=2.0, tokens_per_s=100.0 * step, balance_loss=None) for step in (1, 2)]
        run = plot_run.read_run(self.make_run("curves", records))
        figure = plot_run.draw_figure([run])
        titles = [axes.get_title(loc="left") for axes in figure.axes]
        self.assertEqual(titles, ["Loss", "Learning rate", "Gradient norm", "Load-balance loss", "Speed"])
        self.assertEqual(figure.axes[2].lines[0].get_xydata().tolist(), [[1, 2.0], [2, 2.0]])
        self.assertEqual(figure.axes[4].lines[0].get_ydata().tolist(), [100.0, 200.0])
        self.assertTrue(math.isnan(run.curves["balance_loss"][1]))

    def test_many_heads_have_a_row_per_layer(self):
        layers = plot_run.MOST_ROWS // 4 + 1
        load = [[0.5, 0.25, 0.125, 0.125]] * layers + [[]]
        run = self.make_run("large", [train(step, head_load=load) for step in (1, 2)])
        over_time = plot_run.draw_figure([plot_run.read_run(run)]).axes[2]
        self.assertEqual(over_time.get_ylabel(), "layer (its most used head)")
        self.assertEqual(over_time.collections[0].get_array().reshape(layers, 2).tolist(), [[2.0, 2.0]] * layers)

    def test_one_record_is_enough(self):
        run = self.make_run("one", [train(1, head_load=[[0.5, 0.5]])])
        self.assertEqual(plot(run).returncode, 0)
        figure = plot_run.draw_figure([plot_run.read_run(run)])
        self.assertEqual(figure.axes[0].lines[0].get_marker(), "o")  # a line of one point is invisible

    def test_an_evaluation_alone_is_enough(self):
        self.assertEqual(plot(self.make_run("eval", [{"kind": "eval", "step": 5, "loss": 2.0}])).returncode, 0)

    def test_torn_and_foreign_lines_are_passed_over(self):
        records = [train(1), ["no", "object"], {"kind": "train"}, {"kind": "event", "step": 1, "event": "resume"},
                   train(2, head_load="none"), train(3, head_load=[1, 2])]
        run = plot_run.read_run(self.make_run("torn", records, tail='not json\n{"kind":"train","st'))
        self.assertEqual(sorted(run.train_loss), [1, 2, 3])
        self.assertEqual(run.head_load, {})

    def test_numbers_that_were_not_finite_are_gaps(self):
        records = [train(1), train(2, loss=None), train(3, head_load=[[0.5, None]])]
        run_folder = self.make_run("gaps", records)
        run = plot_run.read_run(run_folder)
        self.assertTrue(math.isnan(run.train_loss[2]))
        self.assertEqual(plot(run_folder).returncode, 0)

    def test_smoothing_keeps_a_line_straight_and_skips_gaps(self):
        line = [float(i) for i in range(1000)]
        for mean, value in zip(plot_run.smoothed(line), line):
            self.assertAlmostEqual(mean, value)
        self.assertEqual(plot_run.smoothed([1.0, math.nan, 3.0])[1], 2.0)

    def test_a_changed_number_of_heads_does_not_mix_into_the_time_line(self):
        run = self.make_run("changed", [train(1, head_load=[[1.0]]), train(2, head_load=[[0.5, 0.5]])])
        self.assertEqual(plot(run).returncode, 0)

    def test_says_when_there_is_nothing_to_draw(self):
        result = plot(self.make_run("empty", []))
        self.assertEqual(result.returncode, 1)
        self.assertIn("empty: no records yet", result.stderr)
        self.assertIn("nothing to draw", result.stderr)
        missing = plot(self.folder / "absent")
        self.assertEqual(missing.returncode, 1)
        self.assertIn("absent: No such file or directory; give the output.dir of a run", missing.stderr)

    def test_an_empty_run_does_not_hide_the_others(self):
        result = plot(self.make_run("empty", []), self.make_moh_run(), "-o", self.folder / "x.png")
        self.assertEqual(result.returncode, 0)
        self.assertIn("empty: no records yet", result.stderr)

    def test_labels_must_match_the_runs(self):
        result = plot(self.make_moh_run(), "--labels", "a", "b")
        self.assertEqual(result.returncode, 2)
        self.assertIn("expected 1 labels, one per run, found 2", result.stderr)

    def test_says_what_to_install_without_matplotlib(self):
        result = plot_script.run_without_matplotlib("plot_run", self.folder)
        self.assertEqual(result.returncode, 1)
        self.assertIn("install the package python3-matplotlib", result.stderr)


if __name__ == "__main__":
    unittest.main()
