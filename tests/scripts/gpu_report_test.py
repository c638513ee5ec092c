"""scripts/gpu_check/report.py: who computed attention in the rows of steps, kernels of two models, records that are not as expected."""

import json
import os
import pathlib
import sys
import tempfile
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


def kernels(config, **times):
    """A record with kernels of (calls, ms); of the same name twice, as by two ops."""
    rows = [{"kernel": name.rstrip("_"), "op": "o", "phase": "forward", "calls": calls, "median_us": 1.0, "ms": ms, "share": 0.1}
            for name, (calls, ms) in times.items()]
    return {"config": f"configs/{config}.yaml", "overrides": [], "matmul_peak_gflops": 1e5,
            "kernels": {"step_ms": 10.0, "copy_gbytes_per_s": 1000.0, "rows": rows}}


class Kernels(unittest.TestCase):
    def test_what_a_moh_step_has_more_is_a_sum_by_kernel(self):
        text = report.kernel_differences(kernels("llm_b", fill=(2, 1.0), adamw=(1, 0.5), fill_=(1, 0.25)),
                                         kernels("moh_llm_b_50", fill=(5, 2.0), adamw=(1, 0.5), lists=(4, 3.0)))
        self.assertEqual([line for line in text.splitlines() if line.startswith("| ")][2:],
                         ["| lists | 0 | 0.000 | 4 | 3.000 | +3.000 |", "| fill | 3 | 1.250 | 5 | 2.000 | +0.750 |",
                          "| all | 4 | 1.750 | 10 | 5.500 | +3.750 |"])

    def test_pairs_are_found_by_their_names(self):
        records = [kernels(name, fill=(1, 1.0)) for name in ("llm_b", "moh_llm_b_50", "deit_small", "moh_vit_small_75", "llm")]
        text = report.kernels_section({"kernels": records})
        self.assertEqual([line.split(", by kernel")[0] for line in text.splitlines() if " beside " in line],
                         ["moh_llm_b_50 beside llm_b", "moh_vit_small_75 beside deit_small"])

    def test_a_preset_names_the_model(self):
        self.assertEqual(report.model_of({"config": "a/paper.yaml", "overrides": ["x=1", "model.preset=dit_xl_2"]}), "dit_xl_2")


class Document(unittest.TestCase):
    def test_records_that_are_not_as_expected_cost_no_other_table(self):
        with tempfile.TemporaryDirectory() as folder:
            results = pathlib.Path(folder)
            (results / "ops_f32.jsonl").write_text('{"of": "another version"}\n')
            (results / "first.jsonl").write_text(json.dumps({"check": "a", "result": "hung", "seconds": 20, "says": ""}) + "\n")
            report.main([folder, "--out", str(results / "gpu.md")])
            text = (results / "gpu.md").read_text()
        self.assertIn("| a | hung | 20 |  |", text)
        self.assertIn("## Ops in float32\n\nNo tables, as the records are not as expected: KeyError: 'op'", text)


if __name__ == "__main__":
    unittest.main()
