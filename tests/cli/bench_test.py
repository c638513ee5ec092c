"""moh bench: what it prints, what it refuses. Nothing here depends on how fast anything is."""

import json

import support
from support import DENSE

STEP_FIELDS = {
    "cuda_graph", "config", "overrides", "data", "device", "dtype", "isa", "threads", "parameters", "batch_size", "accumulate",
    "sequence_length", "warmup", "steps", "step_ms", "step_ms_spread", "forward_ms", "backward_ms", "optimizer_ms",
    "tokens_per_s", "peak_bytes", "peak_rss_bytes", "system_allocations", "page_faults", "flops_per_step",
    "flops_per_step_dense", "gflops", "fma_peak_gflops", "matmul_peak_gflops", "share_of_fma_peak",
    "share_of_matmul_peak"}
PURPOSES = {"parameter", "gradient", "optimizer", "activation", "workspace", "data", "total"}


class Step(support.MohTest):
    def bench(self, settings, *arguments):
        return self.moh("bench", "step", self.config(settings), "--steps", 3, *arguments)

    def measure(self, settings, *arguments):
        output = self.bench(settings, "--json", *arguments)
        self.assertEqual(output.count("\n"), 1, output)
        return json.loads(output)

    def test_json_has_all_fields(self):
        record = self.measure({"train.accumulate": 2}, "optim.weight_decay=0.2")
        self.assertEqual(set(record), STEP_FIELDS)
        self.assertEqual(set(record["peak_bytes"]), PURPOSES)
        self.assertEqual(record["config"], "tiny.yaml")
        self.assertEqual(record["overrides"], ["optim.weight_decay=0.2"])
        self.assertEqual((record["data"], record["threads"], record["steps"]), ("files", 1, 3))
        self.assertEqual((record["batch_size"], record["accumulate"], record["sequence_length"]), (4, 2, 32))
        self.assertAlmostEqual(record["tokens_per_s"], 4 * 2 * 32 / record["step_ms"] * 1e3, delta=1)
        self.assertAlmostEqual(record["share_of_fma_peak"], record["gflops"] / record["fma_peak_gflops"], places=9)

    def test_a_warm_step_allocates_nothing(self):
        for settings in ({}, DENSE, {"precision": "bfloat16"}, {"model.recompute": "layer"}, {"model.dropout": 0.1}):
            with self.subTest(settings=settings):
                self.assertEqual(self.measure(settings, "--no-peaks")["system_allocations"], 0)

    def test_routed_operations_are_fewer(self):
        dense = self.measure(DENSE, "--no-peaks")
        routed = self.measure({}, "--no-peaks")
        self.assertEqual(dense["flops_per_step"], dense["flops_per_step_dense"])
        self.assertEqual(routed["flops_per_step_dense"], dense["flops_per_step"])
        # Half of the pairs of 4 sequences in 2 layers of 4 heads of 8, and a router of 3 + 2 rows.
        pairs, rows = 4 * 32 * 33 // 2, 4 * 32
        saved = 3 * 2 * (pairs * 2 * 4 * 8 - 2 * rows * 32 * 5)
        self.assertEqual(routed["flops_per_step_dense"] - routed["flops_per_step"], saved)

    def test_random_data_needs_no_text(self):
        record = self.measure({"data.train": "missing.txt", "model.vocab_size": 1000}, "--random-data", "--no-peaks")
        self.assertEqual(record["data"], "random")
        self.moh("bench", "step", self.config({"data.train": "missing.txt"}), code=support.INPUT_ERROR)

    def test_nothing_is_written(self):
        self.bench({})
        self.assertFalse((self.folder / "run").exists())

    def test_table(self):
        self.assert_says(self.bench({}), "forward", "backward", "optimizer", "tokens/s", "FMA peak", "peak memory",
                         "page faults")

    def test_profile(self):
        profile = self.measure({}, "--profile", "--no-peaks")["profile"]
        ops = {entry["op"]: entry for entry in profile["ops"]}
        self.assertLessEqual({"adamw", "grad_norm", "add_rms_norm", "cross_entropy", "head_sparse_attention_packed"}, set(ops))
        self.assertGreater(ops["adamw"]["optimizer_ms"], 0)
        self.assertEqual(ops["adamw"]["calls"], 1)
        # Two norms in each of two layers, and a last one; forward and backward.
        self.assertEqual(ops["add_rms_norm"]["calls"], 10)
        self.assertGreater(ops["add_rms_norm"]["forward_ms"], 0)
        self.assertGreater(ops["add_rms_norm"]["backward_ms"], 0)
        self.assertTrue(any(name.startswith("matmul NT ") for name in ops))
        times = [entry["forward_ms"] + entry["backward_ms"] + entry["optimizer_ms"] for entry in profile["ops"]]
        self.assertEqual(times, sorted(times, reverse=True))
        self.assertAlmostEqual(sum(times) + profile["other_ms"], profile["step_ms"], places=6)
        self.assertGreaterEqual(profile["other_ms"], 0)
        self.assert_says(self.bench({}, "--profile", "--no-peaks"), "op, ms per step", "outside ops")

    def test_peak_rates_are_left_out_if_told(self):
        record = self.measure({}, "--no-peaks")
        self.assertEqual(set(record), {field for field in STEP_FIELDS if "peak_gflops" not in field and not field.startswith("share_of_")})

    def test_refusals(self):
        config = self.config()
        for arguments, message in (
                ((config, "--steps", "0"), "bench step: steps: expected 1 or more, found 0"),
                ((config, "--warmup", "-1"), "bench step: warmup: expected 0 or more, found -1"),
                ((config, "train.stesp=3"), "did you mean"),
                ((), "config is required")):
            with self.subTest(arguments=arguments):
                self.assert_says(self.moh("bench", "step", *arguments, code=support.CONFIG_ERROR), message)
        self.moh("bench", "step", self.config({"model.init_std": 1e30}), code=support.NUMERIC_ABORT)


class Ops(support.MohTest):
    FIELDS = {"op", "model", "pass", "shape", "device", "dtype", "isa", "threads", "ms", "spread", "unit", "rate", "ceiling", "share"}

    def records(self, *arguments):
        output = self.moh("bench", "ops", "--json", "--threads", 1, "--repeats", 1, "--seconds", "1e-9", *arguments)
        return [json.loads(line) for line in output.splitlines()]

    def test_streaming_ops(self):
        names = ("rms_norm", "layer_norm", "swiglu", "silu", "gelu", "rope", "norm_rope", "add", "scale", "dropout",
                 "softmax", "cross_entropy", "embedding", "conv2d", "depthwise_conv2d", "grad_norm", "adamw")
        forward_only = {"add", "grad_norm", "adamw"}
        for dtype in ("f32", "bf16"):
            records = self.records("--megabytes", 1, "--dtype", dtype, "--only", ",".join(names))
            self.assertEqual([record["op"] for record in records[:4]], ["copy", "memcpy", "fma", "matmul peak"])
            for name in names:
                with self.subTest(op=name, dtype=dtype):
                    passes = {record["pass"]: record for record in records if record["op"] == name}
                    self.assertEqual(set(passes), {"forward"} if name in forward_only else {"forward", "backward"})
                    for record in passes.values():
                        self.assertEqual(set(record), self.FIELDS)
                        self.assertEqual(record["unit"], "GB/s")
                        self.assertGreater(record["ceiling"], 0.2 * records[0]["rate"])  # measured again, on a busy host
                        self.assertAlmostEqual(record["share"], record["rate"] / record["ceiling"], places=9)

    def test_products(self):
        records = [record for record in self.records("--megabytes", 1, "--only", "DeiT-S") if record["op"] == "matmul"]
        self.assertEqual([record["pass"] for record in records], ["forward NT", "input NN", "weight TN"] * 4)
        self.assertEqual([record["shape"] for record in records[:3]],
                         ["1576x1152x384", "1576x384x1152", "1152x384x1576"])
        for record in records:
            self.assertEqual(record["unit"], "GFLOP/s")
            size = 2e-9
            for extent in record["shape"].split("x"):
                size *= int(extent)
            self.assertAlmostEqual(record["rate"], size / record["ms"] * 1e3, delta=1e-6 * record["rate"])

    def test_convolutions(self):
        records = [r for r in self.records("--megabytes", 1, "--only", "TransNeXt-T") if r["op"] == "convolution"]
        self.assertEqual([record["pass"] for record in records], ["forward", "backward"] * 8)
        by_layer = {(record["model"], record["pass"]): record for record in records}
        # Outputs, and values that each one reads; a gradient of both factors, but none of images.
        for layer, shape, outputs, values, gradients in (
                ("patches 1", "[8, 224, 224, 3] * [72, 3, 7, 7], stride 4", 8 * 56 * 56 * 72, 3 * 7 * 7, 1),
                ("patches 2", "[8, 56, 56, 72] * [144, 72, 3, 3], stride 2", 8 * 28 * 28 * 144, 72 * 3 * 3, 2),
                ("depthwise 4", "[8, 7, 7, 1536] * [1536, 1, 3, 3]", 8 * 7 * 7 * 1536, 3 * 3, 2)):
            for name, products in (("forward", 1), ("backward", gradients)):
                record = by_layer[f"TransNeXt-T {layer}", name]
                self.assertEqual((record["shape"], record["unit"], set(record)), (shape, "GFLOP/s", self.FIELDS))
                size = 2e-9 * outputs * values * products
                self.assertAlmostEqual(record["rate"], size / record["ms"] * 1e3, delta=1e-6 * record["rate"])

    def test_table(self):
        output = self.moh("bench", "ops", "--only", "add", "--megabytes", 1, "--threads", 1)
        self.assert_says(output, "share", "copy", "fma", "add", "GB/s")

    def test_refusals(self):
        for arguments, message in (
                (("--only", "rmsnorm"), "bench ops: only: expected one of rms_norm, "),
                (("--megabytes", "0"), "bench ops: megabytes: expected 1 to 65536, found 0"),
                (("--repeats", "0"), "bench ops: repeats: expected 1 or more, found 0"),
                (("--dtype", "f16"), "--dtype")):
            with self.subTest(arguments=arguments):
                self.assert_says(self.moh("bench", "ops", *arguments, code=support.CONFIG_ERROR), message)


class Decode(support.MohTest):
    def test_a_configured_model_needs_a_configuration_and_has_its_own_share_of_heads(self):
        for arguments, message in ((("--configured",), "requires config"), (("run.yaml", "--configured", "--active", "0.5"), "excludes")):
            with self.subTest(arguments=arguments):
                self.assert_says(self.moh("bench", "decode", *arguments, code=support.CONFIG_ERROR), message)


if __name__ == "__main__":
    support.main()
