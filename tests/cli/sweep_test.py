"""scripts/sweep.py: a grid of configurations, values and seeds becomes runs, a table and a file of its numbers."""

import json
import pathlib
import subprocess
import sys

import support

SCRIPTS = pathlib.Path(__file__).resolve().parents[2] / "scripts"
sys.path.insert(0, str(SCRIPTS))

import seeded_runs
import sweep

SETTINGS = ("model.layers=1", "model.hidden=16", "model.heads=4", "model.intermediate=16", "data.sequence_length=16", "train.steps=3",
            "train.batch_size=2", "sample.tokens=0", "model.dropout=0")


class Sweep(support.MohTest):
    def setUp(self):
        super().setUp()
        self.write("dense.yaml", "task: language_model\n")
        self.write("half.yaml", "task: language_model\nmodel: {moh: {router: learned, num_shared: 1, top_k: 1}}\n")

    def sweep(self, *words, code=0, settings=SETTINGS):
        command = [sys.executable, "-B", str(SCRIPTS / "sweep.py"), "--moh", support.MOH, *words, "--", *settings]
        result = subprocess.run(command, cwd=self.folder, capture_output=True, text=True, timeout=support.TIMEOUT_SECONDS)
        self.assertEqual(result.returncode, code, result.stdout + result.stderr)
        return result

    def table(self, *words):
        lines = self.sweep(*words).stdout.splitlines()
        return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]

    def test_a_grid_of_configurations_and_values(self):
        grid = ("dense.yaml", "half.yaml", "optim.learning_rate=[1e-3, 0.1]", "optim.betas=[[0.9,0.95],[0.8,0.9]]")
        options = ("--data", "text.txt", "--seeds", "1,2", "--out", "out")
        head, _, *rows = self.table(*grid[:2], *options, *grid[2:])
        self.assertEqual(head, ["configuration", "optim.learning_rate", "optim.betas", "heads", "seed 1", "seed 2", "loss, mean",
                                "to the first"])
        self.assertEqual([row[:4] for row in rows],
                         [[name, rate, betas, heads] for name, heads in (("dense", "100%"), ("half", "50%")) for rate in ("1e-3", "0.1")
                          for betas in ("[0.9,0.95]", "[0.8,0.9]")])
        found = json.loads((self.folder / "out/sweep.json").read_text(encoding="utf-8"))
        self.assertEqual((found["measure"], found["seeds"]), ("loss", [1, 2]))
        of_first, of_last = found["rows"][0], found["rows"][-1]
        self.assertEqual(of_last["settings"], {"optim.learning_rate": "0.1", "optim.betas": "[0.8,0.9]"})
        for row, line in zip(found["rows"], rows):
            losses = [seeded_runs.last_evaluation(self.folder / "out" / folder)["loss"] for folder in row["folders"]]
            self.assertEqual(row["scores"], losses)
            self.assertEqual(line[4:6], [f"{score:.4f}" for score in row["scores"]])
        # The settings have reached the runs, and the differences are those of equal seeds.
        self.assertIn("betas: [0.8, 0.9]", (self.folder / "out" / of_last["folders"][0] / "config.yaml").read_text())
        pairs = [ours - of_base for ours, of_base in zip(of_last["scores"], of_first["scores"])]
        self.assertEqual(of_last["to_first"]["differences"], pairs)
        relative = 50 * sum(pair / of_base for pair, of_base in zip(pairs, of_first["scores"]))
        self.assertTrue(rows[-1][-1].startswith(f"{relative:+.2f} ± "), rows[-1])
        self.assertEqual((self.folder / "out/sweep.md").read_text().splitlines()[0].count("|"), 9)
        # A further value trains its own runs alone.
        before = {path: path.stat().st_mtime_ns for path in (self.folder / "out").glob("*/metrics.jsonl")}
        self.assertEqual(len(before), 16)
        more = self.table(*grid[:2], "optim.learning_rate=[1e-3,0.1,1e-2]", grid[3], *options)
        self.assertEqual(len(more), 2 + 12)
        self.assertEqual(more[2], rows[0])
        self.assertEqual({path: path.stat().st_mtime_ns for path in before}, before)

    def test_refusals(self):
        for words, said in (
                (("dense.yaml", "optim.learning_rate=[]"), "optim.learning_rate: expected a list of values"),
                (("dense.yaml", "optim.learning_rate=1"), "found 1; settings of all runs stand behind --"),
                (("dense.yaml", "optim.learning_rate=[1e-3,0.001]"), "expected different values, found one twice in [1e-3,0.001]"),
                (("dense.yaml", "a=[1,2]", "a=[3,4]"), "a: expected once, found twice"),
                (("dense.yaml", "dense.yaml"), "dense.yaml: expected once, found twice"),
                (("dense.yaml", "other/dense.yaml"), "expected configurations of different names, found dense.yaml, other/dense.yaml"),
                (("optim.learning_rate=[1,2]",), "expected a configuration, found keys alone"),
                (("dense.yaml", "optim.learning_rate=[1]"), "expected several rows to compare, found one"),
                (("dense.yaml", "seed=[1,2]"), "seed: expected a key that nothing else sets; --seeds does"),
                (("dense.yaml", "train.steps=[1,2]"), "train.steps: expected a key that nothing else sets; a setting behind -- does"),
                # By moh, before anything is trained.
                (("dense.yaml", "optim.learning_rate=[0.1,fast]"), "optim.learning_rate: expected a number above 0, found fast")):
            with self.subTest(words=words):
                self.write("other/dense.yaml", "task: language_model\n")
                self.assertIn(said, self.sweep(*words, "--data", "text.txt", "--out", "out", code=1).stderr)
                self.assertFalse((self.folder / "out").exists())

    def test_values_are_split_as_yaml_does(self):
        for text, values in (("[[0.9,0.95],[0.9, 0.99]]", ["[0.9,0.95]", "[0.9, 0.99]"]),
                             ("[a, 'b, c', \"d]\", it's, '''']", ["a", "'b, c'", '"d]"', "it's", "''''"]),
                             ("[{a: 'x, y'}, {a: [1, 2]}, x:y]", ["{a: 'x, y'}", "{a: [1, 2]}", "x:y"])):
            self.assertEqual(sweep.values_of("key", text), values)
        for text in ("", "]", "{a: 1}", "[1", "[1]]", "[1][2]", "[1}", "[1,,2]", "['a]"):
            with self.subTest(text=text), self.assertRaises(seeded_runs.Refused):
                sweep.values_of("key", text)


if __name__ == "__main__":
    support.main()
