"""--resume-from: a run of its own that goes on from a checkpoint of another run."""

import support

STABLE = {"schedule.kind": "constant", "train.steps": 40, "checkpoint.every": 10, "checkpoint.keep_last": 10}
DECAY = ("schedule.kind=linear", "schedule.cooldown_steps=10")


class Branch(support.MohTest):
    def setUp(self):
        super().setUp()
        self.stable = self.config({**STABLE, "output.dir": "stable"})
        self.moh("train", self.stable)

    def records(self, run, kind):
        return [record for record in support.metrics(self.folder / run) if record["kind"] == kind]

    def steps(self, run):
        """Steps of the checkpoints of a run."""
        return [int(folder.name.removeprefix("step_")) for folder in self.checkpoints(run)]

    def branch(self, *arguments, config=None, **options):
        return self.moh("train", config or self.stable, "--resume-from", *arguments, **options)

    def test_a_decay_is_that_of_one_run_with_the_whole_schedule(self):
        whole = self.config({**STABLE, "train.steps": 30, "output.dir": "whole"}, name="whole.yaml")
        self.moh("train", whole, *DECAY)
        output = self.branch("stable@20", "output.dir=decay", "train.steps=30", *DECAY)
        self.assert_says(output, "branch: schedule.kind: constant -> linear", "branch: from step 20 of stable")
        self.assert_same_state("whole", "decay")
        self.assertEqual([record["step"] for record in self.records("decay", "train")][0], 21)
        rates = {record["step"]: record["learning_rate"] for record in self.records("decay", "train")}
        self.assertLess(rates[30], rates[21])
        self.assertEqual(self.steps("stable"), [10, 20, 30, 40])  # which stays as it was

    def test_several_branches_and_their_resumes(self):
        for step in (10, 30):
            self.branch(f"stable@{step}", f"output.dir=decay_{step}", f"train.steps={step + 10}", *DECAY)
            self.assertEqual(self.steps(f"decay_{step}"), [step + 10])
        self.assertNotEqual(self.records("decay_10", "train")[-1]["loss"], self.records("decay_30", "train")[-1]["loss"])
        # The line that began a branch goes on with it, from its own checkpoints.
        again = self.branch("stable@10", "--resume", "output.dir=decay_10", "train.steps=20", *DECAY)
        self.assert_says(again, "resume: from step 20")

    def test_the_newest_and_a_folder(self):
        self.assert_says(self.branch("stable", "output.dir=newest", "train.steps=41"), "branch: from step 40")
        self.assert_says(self.branch("stable/checkpoints/step_00000010", "output.dir=folder", "train.steps=11"), "branch: from step 10")

    def test_what_does_not_fit_is_refused(self):
        output = self.branch("stable@15", "output.dir=none", code=support.INPUT_ERROR)
        self.assert_says(output, "stable@15: expected a checkpoint of step 15, found steps 10, 20, 30, 40")
        output = self.branch("stable", "output.dir=none", code=support.CONFIG_ERROR)
        self.assert_says(output, "train.steps: expected more than the 40 steps of --resume-from, found 40")
        self.assertFalse((self.folder / "none").exists())
        self.assert_says(self.branch("stable@20", code=support.CONFIG_ERROR), "output.dir", "a folder without a run")
        self.assert_says(self.branch("stable@20", "output.dir=other", "model.hidden=48", code=support.INPUT_ERROR), "checkpoint step_00000020")


if __name__ == "__main__":
    support.main()
