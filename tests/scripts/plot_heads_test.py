"""scripts/plot_heads.py on made-up reports: what it draws, and what it says when there is nothing to draw."""

import copy
import json
import pathlib
import tempfile
import unittest

import plot_script
from plot_script import png_size

plot_heads = plot_script.load("plot_heads")

HEADS = 3
PAIRS = {"mean": {"all": 0.25}, "matrix": [[1, 0.5, None], [0.5, 1, -0.125], [None, -0.125, 1]]}
RANK = {"largest": 4, "rank": 3, "effective": 2.5}


def use(load):
    return {"load": load, "gate_mean": [1.25, 0.75, None], "gate_std": [0.5, 0, None]}


def dense_layer(number):
    return {"layer": number, "shared": 0, "routed": 0, "top_k": 0, "shared_heads": [],
            "rank": {"all": RANK, "heads": [RANK] * 3},
            "similarity": {kind: copy.deepcopy(PAIRS) for kind in ("attention", "outputs", "contributions")}}


def moh_layer(number):
    layer = {**dense_layer(number), "shared": 1, "routed": 2, "top_k": 1, "shared_heads": [0], **use([1, 0.75, 0.25])}
    layer["by_source"] = [{"source": "words", **use([1, 0.5, 0.5])}, {"source": "digits", **use([1, 1, 0])}]
    layer["rank"] = {**layer["rank"], "shared": RANK, "routed": {**RANK, "rank": 2}}
    return layer


def report_of(layers):
    return {"format": "moh heads", "version": 1, "model": {"heads": HEADS}, "rank_tolerance": 0.01, "layers": layers,
            "sources": [{"name": "words", "tokens": 3, "available": 5}, {"name": "digits", "tokens": 1, "available": 1}]}


def plot(*arguments):
    return plot_script.run("plot_heads", *arguments)


def shown(axes):
    """The rows of a heat map, None where there is no value."""
    return axes.collections[0].get_array().reshape(-1, HEADS).tolist()


class PlotHeadsTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def write(self, report):
        path = self.folder / "heads.json"
        path.write_text(report if isinstance(report, str) else json.dumps(report), encoding="utf-8")
        return path

    def test_draws_three_pictures_of_a_moh_model(self):
        path = self.write(report_of([moh_layer(0), moh_layer(1)]))
        result = plot(path)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(result.stdout.split(), [str(self.folder / name) for name in
                                                 ("heads.png", "similarity.png", "rank.png")])
        for line in result.stdout.split():
            width, height = png_size(pathlib.Path(line))
            self.assertGreater(min(width, height), 200)

    def test_a_dense_model_has_no_loads(self):
        result = plot(self.write(report_of([dense_layer(0)])), "--out", self.folder / "new" / "pictures")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(sorted(path.name for path in (self.folder / "new" / "pictures").iterdir()),
                         ["rank.png", "similarity.png"])

    def test_the_pictures_of_loads_hold_the_report(self):
        figure = plot_heads.draw_loads(report_of([moh_layer(0), dense_layer(1)]))
        panels = {axes.get_title(loc="left") or axes.get_title(): axes for axes in figure.axes}
        none = [None] * 3
        self.assertEqual(shown(panels["Load, all text"]), [[None, 0.75, 0.25], none])
        self.assertEqual(shown(panels["Load, words"]), [[None, 0.5, 0.5], none])
        self.assertEqual(shown(panels["Load, digits"]), [[None, 1, 0], none])
        self.assertEqual(shown(panels["Mean gate of the tokens that use it"]), [[1.25, 0.75, None], none])
        self.assertEqual(shown(panels["Spread of these gates (std)"]), [[0.5, 0, None], none])
        # One scale for all loads.
        scales = {panels[title].collections[0].get_clim() for title in panels if title.startswith("Load")}
        self.assertEqual(scales, {(0.0, 1.0)})
        # The shared head of the first layer is marked, in every panel.
        for title in ("Load, all text", "Load, words", "Mean gate of the tokens that use it"):
            (mark,) = panels[title].patches
            self.assertEqual((mark.get_xy(), mark.get_width(), mark.get_height()), ((0, 0), 1, 1))

    def test_shared_heads_are_marked_where_they_are(self):
        layer = {**moh_layer(1), "shared": 2, "routed": 1, "shared_heads": [0, 2], **use([1, 0.5, 1])}
        report = report_of([moh_layer(0), layer])
        panels = {axes.get_title(loc="left") or axes.get_title(): axes for axes in plot_heads.draw_loads(report).axes}
        self.assertEqual(shown(panels["Load, all text"]), [[None, 0.75, 0.25], [None, 0.5, None]])
        self.assertEqual(shown(panels["Load, digits"]), [[None, 1, 0], [None, 1, None]])
        for title in ("Load, all text", "Spread of these gates (std)"):
            marks = [(mark.get_xy(), mark.get_width()) for mark in panels[title].patches]
            self.assertEqual(marks, [((0, 0), 1), ((2, 1), 1)])
            self.assertEqual([mark.get_height() for mark in panels[title].patches], [2, 1])
        self.assertEqual(plot_heads.neighbours([1, 2, 5, 7, 8, 9]), [[1, 3], [5, 6], [7, 10]])
        layers = [{"shared_heads": heads} for heads in ([0, 1], [0, 1, 4], [0, 4], [], [0, 1])]
        self.assertEqual(plot_heads.shared_blocks({"layers": layers}),
                         [(0, 2, 0, 2), (0, 1, 2, 3), (4, 5, 1, 3), (0, 2, 4, 5)])

        first, second, *_ = plot_heads.draw_similarities(report, [0, 1]).axes
        self.assertEqual(shown(first), [[None, 0.5, None], [0.5, None, -0.125], [None, -0.125, None]])
        self.assertEqual(shown(second), [[None, None, 0.5], [None, None, -0.125], [0.5, -0.125, None]])
        for axis in (second.xaxis, second.yaxis):
            self.assertEqual([tick.get_text() for tick in axis.get_ticklabels()], ["0", "2", "1"])
        self.assertEqual([line.get_ydata()[0] for line in second.lines][:1], [2])
        self.assertEqual(plot(self.write(report)).returncode, 0)

    def test_classes_have_a_map_for_each_stage_with_routed_heads(self):
        def wide(number):  # one more head than the first stage
            layer = {**moh_layer(number), "routed": 3, "rank": {"all": RANK, "heads": [RANK] * 4},
                     **use([1, 0.5, 0.25, 0.25])}
            layer["by_source"] = [{"source": "cat", **use([1, 1, 0, 0])}, {"source": "dog", **use([1, 0, 0.5, 0.5])}]
            return layer
        report = report_of([dense_layer(0), moh_layer(1), wide(2), wide(3)])
        report.update(unit="images", model={"heads": 4, "stages": [2, 2]},
                      sources=[{"name": "cat", "tokens": 1, "available": 1}, {"name": "dog", "tokens": 1, "available": 1}])
        first, second, *_ = plot_heads.draw_classes(report).axes
        self.assertEqual(first.collections[0].get_array().reshape(2, 2).tolist(), [[0.5, 0.5], [1, 0]])
        self.assertEqual(second.collections[0].get_array().reshape(2, 3).tolist(), [[1, 0, 0], [0, 0.5, 0.5]])
        self.assertEqual(second.get_title(loc="left") or second.get_title(), "Stage 1, layer 3")
        self.assertEqual([tick.get_text() for tick in first.yaxis.get_ticklabels()], ["cat", "dog"])
        loads = plot_heads.draw_loads(report).axes[0]
        self.assertEqual(loads.get_title(loc="left") or loads.get_title(), "Load, all images")
        self.assertEqual(loads.collections[0].get_array().reshape(-1, 4).tolist()[1], [None, 0.75, 0.25, None])

    def test_one_source_needs_no_panel_of_its_own(self):
        report = report_of([moh_layer(0)])
        del report["sources"][1], report["layers"][0]["by_source"][1]
        titles = [axes.get_title(loc="left") or axes.get_title() for axes in plot_heads.draw_loads(report).axes]
        self.assertEqual([title for title in titles if title.startswith("Load")], ["Load, all text"])

    def test_the_matrices_hold_the_report(self):
        figure = plot_heads.draw_similarities(report_of([moh_layer(0), moh_layer(1)]), [1])
        attention = figure.axes[0]
        self.assertEqual(shown(attention), [[None, 0.5, None], [0.5, None, -0.125], [None, -0.125, None]])
        self.assertEqual(attention.collections[0].get_clim(), (-0.125, 0.5))
        # Shared heads end where the lines are.
        self.assertEqual([line.get_ydata()[0] for line in attention.lines][:1], [1])

    def test_heads_that_were_not_compared_have_no_matrices(self):
        report = report_of([moh_layer(0)])
        for similarity in report["layers"][0]["similarity"].values():
            similarity["mean"]["all"] = None
        self.assertEqual(plot(self.write(report)).returncode, 0)
        self.assertEqual(sorted(path.name for path in self.folder.glob("*.png")), ["heads.png", "rank.png"])

    def test_the_bars_hold_the_report(self):
        left, right = plot_heads.draw_ranks(report_of([moh_layer(0), dense_layer(1)])).axes
        heights = [[bar.get_height() for bar in bars] for bars in left.containers]
        self.assertEqual(heights, [[3, 3], [3], [2]])  # of all, shared, routed
        self.assertEqual([bar.get_height() for bar in right.containers[0]], [2.5, 2.5])
        self.assertEqual([text.get_text() for text in left.get_legend().get_texts()],
                         ["all heads (of 4)", "shared heads (of 4)", "routed heads (of 4)"])

    def test_layers_of_several_kinds_have_their_names(self):
        report = report_of([{**moh_layer(0), "name": "encoder self 0"}, {**moh_layer(1), "name": "decoder cross 0"}])
        names = ["0 encoder self 0", "1 decoder cross 0"]
        self.assertEqual([label.get_text() for label in plot_heads.draw_loads(report).axes[0].get_yticklabels()], names)
        self.assertEqual([label.get_text() for label in plot_heads.draw_ranks(report).axes[0].get_xticklabels()], names)
        matrix = plot_heads.draw_similarities(report, [1]).axes[0]
        self.assertIn("layer 1 decoder cross 0", matrix.get_title(loc="left") or matrix.get_title())

    def test_layers_are_chosen_at_even_distances_or_by_name(self):
        report = report_of([dense_layer(i) for i in range(32)])
        self.assertEqual(plot_heads.chosen_layers(report, None), [0, 6, 12, 19, 25, 31])
        self.assertEqual(plot_heads.chosen_layers(report, [3, 1]), [3, 1])
        self.assertEqual(plot_heads.chosen_layers(report_of([dense_layer(0)]), None), [0])
        result = plot(self.write(report), "--layers", "32")
        self.assertEqual(result.returncode, 1)
        self.assertIn("--layers: expected layers from 0 to 31, found 32", result.stderr)

    def test_values_that_are_all_missing(self):
        layer = moh_layer(0)
        layer["gate_mean"] = layer["gate_std"] = [None] * 3
        for kind in layer["similarity"].values():
            kind.update({"mean": {"all": None}, "matrix": [[None] * 3] * 3})
        self.assertEqual(plot(self.write(report_of([layer]))).returncode, 0)

    def test_says_what_is_wrong_with_a_file(self):
        cases = {
            "not json": "expected JSON",
            "[1, 2]": "expected a file of moh analyze --out, found other JSON",
            json.dumps({**report_of([dense_layer(0)]), "version": 2}): "expected version 1, found 2",
            json.dumps(report_of([])): "expected at least one layer, found none",
            json.dumps(report_of([{**dense_layer(0), "rank": {}}])): "the report is not complete",
            json.dumps(report_of([{**dense_layer(0), "similarity": {}}])): "the report is not complete (KeyError",
        }
        for text, message in cases.items():
            with self.subTest(message=message):
                result = plot(self.write(text))
                self.assertEqual(result.returncode, 1, result.stderr)
                self.assertIn(message, result.stderr)
                self.assertNotIn("Traceback", result.stderr)
        result = plot(self.folder / "absent.json")
        self.assertEqual(result.returncode, 1)
        self.assertIn("absent.json: No such file or directory; give the file of moh analyze --out", result.stderr)

    def test_says_what_to_install_without_matplotlib(self):
        result = plot_script.run_without_matplotlib("plot_heads", self.folder)
        self.assertEqual(result.returncode, 1)
        self.assertIn("install the package python3-matplotlib", result.stderr)


if __name__ == "__main__":
    unittest.main()
