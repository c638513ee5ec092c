"""`profile.steps`: a trace of steps whose spans nest and add up."""

import json

import support

# Microseconds: the host's clock is read once more for a span around than for those in it.
SLACK = 200


class Trace(support.MohTest):
    def read(self, name="trace.json", run="run"):
        events = json.loads((self.folder / run / name).read_text())["traceEvents"]
        for event in events:
            self.assertIn(event["ph"], "MX")
        return [event for event in events if event["ph"] == "X"]

    def assert_nests(self, events):
        """Of one track: two spans are apart, or one is inside the other."""
        open_ends = []
        for event in sorted(events, key=lambda event: (event["ts"], -event["dur"])):
            end = event["ts"] + event["dur"]
            while open_ends and event["ts"] >= open_ends[-1] - SLACK / 10:
                open_ends.pop()
            if open_ends:
                self.assertLessEqual(end, open_ends[-1] + SLACK, event)
            open_ends.append(end)

    def covered(self, events, step):
        """The share of the step in its phases and waits, which are apart from each other."""
        inside = [event for event in events if event["cat"] in ("phase", "wait")
                  and step["ts"] - SLACK <= event["ts"] and event["ts"] + event["dur"] <= step["ts"] + step["dur"] + SLACK]
        of_phases = [event for event in inside if event["cat"] == "phase"]
        # A wait may be in a phase.
        apart = of_phases + [wait for wait in inside if wait["cat"] == "wait" and not any(
            phase["ts"] <= wait["ts"] and wait["ts"] + wait["dur"] <= phase["ts"] + phase["dur"] + SLACK
            for phase in of_phases)]
        total = sum(event["dur"] for event in apart)
        self.assertLessEqual(total, step["dur"] + SLACK)
        return total / step["dur"]

    def test_spans_nest_and_add_up_to_the_step(self):
        output = self.train({"profile.steps": [3, 5], "train.accumulate": 2, "model.recompute": "layer",
                             "train.batch_size": 16, "model.hidden": 64})
        self.assertIn("the trace of steps 3 to 5 is written", output)
        events = self.read()
        steps = [event for event in events if event["cat"] == "step"]
        self.assertEqual([event["args"]["step"] for event in steps], [3, 4, 5])
        self.assert_nests(events)
        # What is in no phase is so in each step; a busy machine may take the processor away between two of them.
        self.assertGreater(max(self.covered(events, step) for step in steps), 0.8)
        names = {event["name"] for event in events}
        self.assertLess({"forward", "backward", "optimizer", "wait for data", "route_heads", "add_rms_norm"}, names)
        phases = [event["name"] for event in events if event["cat"] == "phase"]
        self.assertEqual(phases, ["forward", "backward", "forward", "backward", "optimizer"] * 3)
        for event in events:
            if event["cat"] == "op":
                self.assertTrue(any(step["ts"] <= event["ts"] <= step["ts"] + step["dur"] for step in steps))

    def test_a_traced_run_computes_the_same(self):
        self.train({"profile.steps": [2, 6]})
        self.train({"output.dir": "plain"})
        self.assertEqual(support.losses(self.folder / "run"), support.losses(self.folder / "plain"))
        self.assertFalse((self.folder / "plain" / "trace.json").exists())

    def test_a_run_that_ends_among_the_steps_writes_what_there_is(self):
        self.train({"profile.steps": [7, 20]})
        self.assertEqual([event["args"]["step"] for event in self.read() if event["cat"] == "step"], [7, 8])
        self.train({}, "--overwrite")
        self.assertFalse((self.folder / "run" / "trace.json").exists())

    def test_steps_that_make_no_sense_are_refused(self):
        for steps in ("[3]", "[5, 3]", "[1, 200]", "[1, 2, 3]", "[0, 2]"):
            output = self.train({"profile.steps": steps}, code=support.CONFIG_ERROR)
            self.assert_says(output, "profile.steps")


if __name__ == "__main__":
    support.main()
