"""scripts/gpu_check/report.py: who computed attention in the rows of steps."""

import os
import sys
import unittest

sys.path.insert(0, os.path.join(os.environ["MOH_SOURCE_DIR"], "scripts", "gpu_check"))
import report  # noqa: E402


def step(config, graph=False, **ops):
    """A record whose profile has these ops, with (forward, backward) in ms; a captured step has no profile."""
    rows = [{"op": op.replace("_by_", " by "), "forward_ms": forward, "backward_ms": backward}
            for op, (forward, backward) in ops.items()]
    return {"config": config, "cuda_graph": graph, **({"profile": {"ops": rows}} if rows else {})}


class AttentionBy(unittest.TestCase):
    def by(self, *records):
        return [report.attention_by(records, records[0]["config"], phase) for phase in ("forward", "backward")]

    def test_each_pass_says_whose_kernels_ran(self):
        self.assertEqual(self.by(step("a", attention=(2, 3), rms_norm=(1, 1))), ["moh", "moh"])
        self.assertEqual(self.by(step("a", attention=(0.1, 3), attention_by_cuDNN=(2, 0))), ["cuDNN", "moh"])
        self.assertEqual(self.by(step("a", attention=(0.1, 0.1), attention_by_cuDNN=(2, 3))), ["cuDNN", "cuDNN"])
        self.assertEqual(self.by(step("a", head_sparse_attention=(2, 3))), ["moh", "moh"])

    def test_layers_may_differ(self):
        self.assertEqual(self.by(step("a", attention=(0.1, 0.1), attention_by_cuDNN=(2, 3), head_sparse_attention=(1, 1))),
                         ["cuDNN + moh", "cuDNN + moh"])

    def test_a_replayed_step_computes_as_the_profiled_one_of_its_model(self):
        self.assertEqual(self.by(step("a", graph=True), step("b", attention=(1, 1)),
                                 step("a", attention=(0.1, 0.1), attention_by_cuDNN=(2, 3))), ["cuDNN", "cuDNN"])

    def test_nothing_is_said_without_a_profile(self):
        self.assertEqual(self.by(step("a", graph=True)), ["", ""])


if __name__ == "__main__":
    unittest.main()
