"""moh bench on the simulated GPU: what it prints is complete and consistent. Nothing depends on how fast anything is."""

import json
import os
import pathlib
import subprocess
import tempfile
import unittest

CONFIG = """
data: {train: [text.txt], sequence_length: 16}
model: {vocab_size: 257, layers: 2, hidden: 32, intermediate: 64, heads: 4, kv_heads: 2, max_positions: 16,
        moh: {router: learned, num_shared: 1, top_k: 1}}
train: {batch_size: 2, accumulate: 2}
device: cuda
precision: bfloat16
threads: 1
"""


def moh(*arguments):
    with tempfile.TemporaryDirectory() as folder:
        pathlib.Path(folder, "config.yaml").write_text(CONFIG)
        run = subprocess.run([os.environ["MOH_SIM_BINARY"], "bench", *map(str, arguments)], cwd=folder, capture_output=True,
                             text=True, errors="replace")
        assert os.listdir(folder) == ["config.yaml"], "something was written"
    return run


class Bench(unittest.TestCase):
    def output(self, *arguments):
        run = moh(*arguments)
        self.assertEqual(run.returncode, 0, run.stdout + run.stderr)
        return run.stdout

    def records(self, *arguments):
        return [json.loads(line) for line in self.output(*arguments, "--json").splitlines()]

    def test_attention(self):
        records = self.records("attention", "--device", "cuda", "--dtype", "bf16", "--tokens", "8,20", "--heads", 4,
                               "--kv-heads", 2, "--head-dim", 16, "--active", "1.0,0.5", "--causal", "--full", "--listed",
                               "--repeats", 2)
        forms = [("attention", 1.0), ("attention_in_any_order", 1.0), ("head_sparse_attention", 1.0), ("head_sparse_attention", 0.5)]
        self.assertEqual([(r["tokens"], r["causal"], r["op"], r["active"]) for r in records],
                         [(t, c, *form) for t in (8, 20) for c in (False, True) for form in forms])
        for record in records:
            self.assertEqual((record["device"], record["dtype"]), ("cuda:0", "bfloat16"))
            self.assertEqual(record["pairs_share"], record["active"])
            self.assertGreater(record["forward_backward_ms"], record["forward_ms"])
            pairs = 4 * record["active"] * record["tokens"] * ((record["tokens"] + 1) / 2 if record["causal"] else record["tokens"])
            self.assertAlmostEqual(record["forward_gflops"] * record["forward_ms"] * 1e6 / (4 * 16 * pairs), 1, places=6)

    def test_module(self):
        records = self.records("module", "--device", "cuda:0", "--tokens", 8, "--width", 32, "--heads", 4, "--head-dim", 16,
                               "--active", "1.0,0.5", "--causal", "--full", "--repeats", 1)
        self.assertEqual([(r["op"], r["device"], r["dtype"]) for r in records],
                         [(op, "cuda:0", "float32") for op in ("attention_module", "moh_attention_module")] * 2)
        self.assertTrue(all(record["forward_backward_ms"] > record["forward_ms"] > 0 for record in records))

    def test_step_with_the_times_of_ops(self):
        record, = self.records("step", "config.yaml", "--random-data", "--steps", 2, "--warmup", 2, "--profile")  # two are under way
        self.assertEqual((record["device"], record["dtype"]), ("cuda:0", "bfloat16"))
        self.assertIn("simulated GPU", record["gpu"])
        parts = record["forward_ms"] + record["backward_ms"] + record["optimizer_ms"]
        self.assertTrue(0 < min(record["forward_ms"], record["backward_ms"], record["optimizer_ms"]))
        self.assertLess(parts, 1.5 * record["step_ms"])  # medians of two steps
        self.assertEqual(record["system_allocations"], 0)
        states = 3 * 4 * record["parameters"]  # two moments and the float32 weights
        self.assertEqual(record["peak_bytes"]["optimizer"], states)
        self.assertEqual(record["peak_bytes"]["parameter"], 2 * record["parameters"])
        self.assertAlmostEqual(record["share_of_matmul_peak"], record["gflops"] / record["matmul_peak_gflops"], places=9)
        self.assertFalse({"fma_peak_gflops", "published_peak_gflops"} & set(record))
        profile = record["profile"]
        ops = {op["op"]: op for op in profile["ops"]}
        self.assertLessEqual({"adamw", "grad_norm", "add_rms_norm", "cross_entropy", "head_sparse_attention_packed", "embedding"}, set(ops))
        self.assertGreater(ops["adamw"]["optimizer_ms"], 0)
        self.assertEqual((ops["adamw"]["forward_ms"], ops["adamw"]["calls"]), (0, 1))
        self.assertGreater(ops["head_sparse_attention_packed"]["backward_ms"], 0)
        times = [op["forward_ms"] + op["backward_ms"] + op["optimizer_ms"] for op in profile["ops"]]
        self.assertAlmostEqual(sum(times) + profile["other_ms"], profile["step_ms"], places=6)
        self.assertAlmostEqual(sum(op["share"] for op in profile["ops"]), sum(times) / profile["step_ms"], places=6)

    def test_step_with_the_times_of_kernels(self):
        step = ("step", "config.yaml", "--random-data", "--steps", 2, "--kernels")
        record, = self.records(*step, "--warmup", 2)
        kernels = record["kernels"]
        rows = {(row["phase"], row["op"], row["kernel"]): row for row in kernels["rows"]}
        self.assertEqual(len(rows), len(kernels["rows"]))
        self.assertLessEqual({("forward", "add_rms_norm", "rms_norm"), ("optimizer", "adamw", "adamw"),
                              ("forward", "head_sparse_attention_packed", "attention"),
                              ("forward", "build_head_lists", "head_lists")}, set(rows))
        norm = rows["forward", "add_rms_norm", "rms_norm"]
        norms = [row["calls"] for row in kernels["rows"] if row["kernel"] == "rms_norm"]
        self.assertEqual(sum(norms), 2 * 5)  # micro-batches; two of each layer, and the last
        self.assertGreater(norm["gbytes_per_s"], 0)
        self.assertAlmostEqual(norm["share_of_copy"], norm["gbytes_per_s"] / kernels["copy_gbytes_per_s"], places=9)
        self.assertNotIn("op_gflops", norm)
        self.assertNotIn("gbytes_per_s", rows["optimizer", "adamw", "adamw"])  # a table has its addresses
        product, = [row for row in kernels["rows"] if row["kernel"] == "cublasLtMatmul" and row["phase"] == "forward" and
                    "NT 32x257x32" in row["op"]]
        self.assertEqual(product["calls"], 2)
        self.assertAlmostEqual(product["op_share_of_matmul_peak"], product["op_gflops"] / record["matmul_peak_gflops"], places=9)
        self.assertAlmostEqual(product["op_gflops"] * product["ms"] * 1e6, 2 * 2 * 32 * 257 * 32, delta=1)
        self.assertTrue(all(row["median_us"] > 0 and row["ms"] <= kernels["step_ms"] for row in kernels["rows"]))
        self.assertIn("rms_norm, forward", moh(*step, "--warmup", 2).stdout)
        for options, message in ((("cuda_graph=true", "--warmup", 3), "kernels: expected cuda_graph: false"),
                                 (("device=cpu",), "kernels: expected a GPU, whose kernels are timed, found device: cpu")):
            run = moh(*step, *options)
            self.assertEqual((run.returncode, run.stdout), (2, ""))
            self.assertIn(message, run.stderr)

    def test_step_with_searched_products(self):
        record, = self.records("step", "config.yaml", "--random-data", "--steps", 1, "gemm_algorithms=none.txt")
        self.assertTrue(all(search["best_us"] <= search["first_us"] and search["candidates"] >= 1
                            for search in record["gemm_searches"]))
        self.assertTrue(any("32x257x32" in search["gemm"] for search in record["gemm_searches"]))

    def test_step_that_is_replayed(self):
        step = ("step", "config.yaml", "--random-data", "--steps", 2, "cuda_graph=true")
        record, = self.records(*step, "--warmup", 3)
        self.assertTrue(record["cuda_graph"])
        self.assertGreater(record["step_ms"], 0)
        self.assertGreater(record["graph_nodes"], 100)
        self.assertGreater(record["graph_instantiation_ms"], 0)
        self.assertGreater(record["held_bytes"]["arenas"], 0)
        self.assertFalse({"forward_ms", "backward_ms", "optimizer_ms", "profile"} & set(record))
        for options, message in ((("--warmup", 2), "warmup: expected 3 or more with cuda_graph, found 2"),
                                 (("--profile",), "profile: expected cuda_graph: false")):
            run = moh(*step, *options)
            self.assertEqual((run.returncode, run.stdout), (2, ""))
            self.assertIn(message, run.stderr)

    def test_ops(self):
        # All but those with a vocabulary, whose tables are too large here.
        names = ("rms_norm", "add_rms_norm", "layer_norm", "add_layer_norm", "silu", "swiglu", "gelu", "add", "scale", "dropout",
                 "softmax", "layer_norm_modulate", "add_layer_norm_modulate", "group_norm", "gate_residual", "drop_path", "patchify",
                 "unpatchify", "query_norm_logits", "route_heads", "build_head_lists", "scale_heads", "sigmoid_gate", "sigmoid_gate_of_elements", "sigmoid_top_k",
                 "mix_experts", "spread_to_experts", "gather_heads", "scatter_heads", "append_slot_sum", "gather_pairs",
                 "scatter_pairs", "append_to_cache", "attention_decode", "grad_norm", "adamw", "ema", "embedding_of_text")
        records = self.records("ops", "--device", "cuda", "--dtype", "bf16", "--megabytes", 1, "--only", ",".join(names),
                               "--repeats", 1, "--seconds", "1e-9")
        copy, product, *ops = records
        self.assertEqual((copy["op"], copy["share"], product["op"], product["share"]), ("copy", 1, "matmul peak", 1))
        self.assertEqual(product["shape"], "square, bfloat16")
        self.assertEqual({record["op"] for record in ops}, set(names))
        for record in ops:
            self.assertEqual((record["device"], record["dtype"], record["ceiling"]), ("cuda:0", "bfloat16", copy["rate"]))
            self.assertGreater(record["ms"], 0)

    def test_tables_name_the_gpu(self):
        for arguments in (("attention", "--device", "cuda", "--tokens", 4, "--heads", 1, "--kv-heads", 1, "--repeats", 1),
                          ("step", "config.yaml", "--random-data", "--steps", 1, "--warmup", 0)):
            self.assertIn("simulated GPU", self.output(*arguments).splitlines()[0])

    def test_a_device_that_is_not_there(self):
        for command in ("attention", "module", "ops"):
            run = moh(command, "--device", "cuda:7")
            self.assertEqual((run.returncode, run.stdout), (2, ""))
            self.assertIn("cuda:7", run.stderr)


if __name__ == "__main__":
    unittest.main()
