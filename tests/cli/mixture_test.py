"""Mixtures of sources: shares, losses by source, resuming; masks of documents."""

import re

import support


class Mixture(support.MohTest):
    def setUp(self):
        super().setUp()
        for name, seed in (("a", 1), ("b", 2)):
            self.write(f"{name}.txt", support.text_of_words(300, seed=seed))
        self.mixture = "data.train=[{name: a, path: a.txt, weight: 3}, {name: b, path: [b.txt], weight: 1}]"

    def evaluations(self, run="run"):
        return [record for record in support.metrics(self.folder / run) if record["kind"] == "eval"]

    def test_losses_by_source_are_in_metrics_summary_and_eval(self):
        output = self.train({}, self.mixture)
        for name, weight in (("a", 75), ("b", 25)):
            found = re.search(rf"source {name} +([0-9.]+) epochs, ([0-9.]+)% of the rows, held-out loss [0-9.]+", output)
            self.assertIsNotNone(found, output)
            self.assertAlmostEqual(float(found[2]), weight, delta=7)  # of 32 rows
        last = self.evaluations()[-1]
        low, high = sorted((last["loss/a"], last["loss/b"]))
        self.assertTrue(low <= last["loss"] <= high)
        said = self.moh("eval", "--checkpoint", "run")
        for name in ("loss", "loss/a", "loss/b"):
            (value,) = (line.split()[1] for line in said.splitlines() if line.split()[:1] == [name])
            self.assertAlmostEqual(float(value), last[name], delta=1e-5)
        self.assert_says(self.moh("analyze", "--checkpoint", "run"), "a", "b")

    def test_rows_do_not_depend_on_accumulation(self):
        settings = {"model.moh.balance_weight": 0, "eval.every": 0}
        self.train({**settings, "train.batch_size": 4, "train.accumulate": 1}, self.mixture, "output.dir=one")
        self.train({**settings, "train.batch_size": 1, "train.accumulate": 4}, self.mixture, "output.dir=four")
        for one, four in zip(support.losses(self.folder / "one"), support.losses(self.folder / "four"), strict=True):
            self.assertAlmostEqual(one, four, delta=1e-4)

    def test_held_out_sources_of_their_own(self):
        self.write("c.txt", support.text_of_words(100, seed=3))
        self.train({}, self.mixture, "data.validation=[{name: c, path: c.txt}]")
        self.assertIn("loss/c", self.evaluations()[-1])
        self.assertNotIn("loss/a", self.evaluations()[-1])

    def test_a_killed_mixture_with_documents_goes_on_as_it_would_have(self):
        settings = {"train.steps": 120, "checkpoint.every": 60, "eval.every": 20, "data.document_mask": "true"}
        config = self.config(settings)
        self.moh("train", config, self.mixture, "output.dir=whole")
        run = support.Running(self, "train", config, self.mixture)
        run.read_until("step 63/")
        self.assertTrue(run.kill(), f"the run had ended before it was killed:\n{run.output}")
        self.moh("train", config, self.mixture, "--resume")
        self.assert_same_state("whole", "run")
        self.assert_same_history("whole", "run")
        other = self.mixture.replace("weight: 3", "weight: 2")
        output = self.moh("train", config, other, "--resume", "train.steps=130", code=support.CONFIG_ERROR)
        self.assert_says(output, "data.train")


if __name__ == "__main__":
    support.main()
