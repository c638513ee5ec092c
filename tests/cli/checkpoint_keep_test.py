"""checkpoint.keep: milestones are saved, stay beside the newest and the best, and outlive a resumed run."""

import json

import support

MILESTONES = {**support.SMALLEST, "train.steps": 12, "checkpoint.every": 4, "checkpoint.keep_last": 1,
              "checkpoint.keep": [3, 8], "eval.every": 0}


class Keep(support.MohTest):
    def steps(self, run="run"):
        return [int(path.name.removeprefix("step_")) for path in sorted((self.folder / run / "checkpoints").iterdir())]

    def test_milestones_are_saved_and_stay(self):
        self.train(MILESTONES)
        self.assertEqual(self.steps(), [3, 8, 12])
        self.moh("eval", "--checkpoint", "run/checkpoints/step_00000003")

    def test_a_run_without_other_checkpoints(self):
        self.train({**MILESTONES, "checkpoint.every": 0})
        self.assertEqual(self.steps(), [3, 8, 12])

    def test_beside_the_best(self):
        self.train({**MILESTONES, "checkpoint.keep_best": True, "checkpoint.every": 2})
        records = [record for record in support.metrics(self.folder / "run") if record["kind"] == "eval"]
        best = min(records, key=lambda record: record["loss"])["step"]
        self.assertEqual(self.steps(), sorted({3, 8, 12, best}))

    def test_a_resumed_run_keeps_them_and_takes_new_ones(self):
        self.train({**MILESTONES, "train.steps": 4, "schedule.decay_steps": 12})
        self.assertEqual(self.steps(), [3, 4])
        output = self.train({**MILESTONES, "schedule.decay_steps": 12, "checkpoint.keep": [3, 6, 99]}, "--resume")
        self.assert_says(output, "checkpoint.keep: the run ends before step 99, at step 12")
        self.assertEqual(self.steps(), [3, 6, 12])
        self.train({**MILESTONES, "schedule.decay_steps": 12}, "output.dir=whole")
        self.assert_same_state("whole", "run")

    def test_what_is_no_step_is_refused(self):
        for value in ("[0]", "[-1]", "[1.5]", "many", "[[1]]"):
            with self.subTest(value=value):
                self.assert_says(self.moh("config", self.config(), f"checkpoint.keep={value}", code=support.CONFIG_ERROR),
                                 "checkpoint.keep")

    def test_the_plan_counts_them(self):
        def disk(*settings):
            return json.loads(self.moh("plan", self.config({**MILESTONES, "train.steps": 100}), *settings, "--json"))

        plan, more = disk(), disk("checkpoint.keep=[3,8,9,1000]", "checkpoint.keep_last=2")
        self.assertEqual((plan["checkpoints"], more["checkpoints"]), (4, 6))
        self.assertEqual(plan["disk_bytes"], 4 * plan["checkpoint_bytes"])
        self.assertEqual(plan["checkpoint_bytes"], 12 * plan["parameters"])


if __name__ == "__main__":
    support.main()
