"""scripts/bench_pytorch.py: arithmetic, tables and messages, with stand-ins for moh and PyTorch."""

import contextlib
import io
import json
import math
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import textwrap
import unittest
import unittest.mock

SOURCE = pathlib.Path(os.environ.get("MOH_SOURCE_DIR", pathlib.Path(__file__).resolve().parents[2]))
SCRIPT = SOURCE / "scripts" / "bench_pytorch.py"
MOH = os.environ.get("MOH_BINARY", "moh")

sys.path[:0] = [str(SOURCE / "scripts"), str(SOURCE / "scripts" / "pytorch_bench")]
import bench_pytorch  # noqa: E402
import resolved_config  # noqa: E402
from model_settings import routed  # noqa: E402
from pytorch_bench import cases, isa, measure, report, routing  # noqa: E402
from pytorch_bench.measure import BenchError  # noqa: E402

ALL_TERMS = [cases.Terms(1, 1, device, precision) for device in cases.DEVICES for precision in cases.DTYPES]

# A `moh` that answers as the commands of the cases do, one step time after the other.
FAKE_MOH = """
    import json, os, pathlib, sys
    arguments = sys.argv[1:]
    if arguments == ["--version"]:
        print(f"moh 0.0.0 (commit 0123456789, GNU 12.2.0, no CUDA, {os.environ.get('MOH_CPU_ISA', 'avx512')})")
    elif arguments[0] == "config":
        print("model:\\n  hidden: 384\\n  moh:\\n    router: none\\ntrain:\\n  batch_size: 8")
    else:
        log = pathlib.Path(__file__).with_name("moh.log")
        log.open("a").write(json.dumps(arguments) + "\\n")
        ms = [100.0, 200.0, 400.0][(len(log.read_text().splitlines()) - 1) % 3]
        print(json.dumps({"step_ms": ms, "forward_ms": ms / 4, "backward_ms": ms / 2, "optimizer_ms": ms / 4,
                          "parameters": 7, "peak_rss_bytes": 30 << 20, "peak_bytes": {"total": 20 << 20}}))
"""

# A Python with a PyTorch whose compile mode has no compiler, and which is fastest tuned.
FAKE_TORCH = """
    import json, os, sys
    if sys.argv[1:3] == ["-c", "import torch"]:
        sys.exit(0)
    job = json.loads(sys.argv[-1])
    if job["work"] == "versions":
        capability = os.environ.get("ATEN_CPU_CAPABILITY", "avx512").upper()
        print(json.dumps({"python": "3", "torch": "9.9", "libraries": ["MKL 1"], "capability": capability,
                          "isa": {"PyTorch": capability, "MKL": "Intel(R) AVX2"}}))
    elif job["compile"]:
        print(json.dumps({"error": "RuntimeError: no C++ compiler"}))
        sys.exit(1)
    else:
        assert job["config"]["model"] == {"hidden": 384, "moh": {"router": "none"}}, job
        tuned = "MALLOC_MMAP_MAX_" in os.environ
        ms = 300.0 if tuned else 800.0
        print("a line that is no JSON")
        print(json.dumps({"step_ms": ms, "forward_ms": ms / 4, "backward_ms": ms / 2, "optimizer_ms": ms / 4,
                          "parameters": 7, "peak_rss_bytes": (80 if tuned else 60) << 20,
                          "import_rss_bytes": 20 << 20}))
"""


def write_program(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!{sys.executable}\n" + textwrap.dedent(text), encoding="utf-8")
    path.chmod(0o755)
    return path


class Folder(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def bench(self, *arguments):
        return subprocess.run([sys.executable, "-B", SCRIPT, *map(str, arguments)], capture_output=True, text=True,
                              check=False)

    def bench_with_fakes(self, *arguments):
        moh = write_program(self.folder / "moh", FAKE_MOH)
        write_program(self.folder / "venv/bin/python", FAKE_TORCH)
        return self.bench("--moh", moh, "--venv", self.folder / "venv", "--cases", "llama_step", "--threads", "2",
                          *arguments)


    def moh_that_refuses(self, reason):
        return write_program(self.folder / "moh", f"import sys; print('error: {reason}', file=sys.stderr); sys.exit(2)")


class ArithmeticTest(unittest.TestCase):
    def test_ratio_is_the_median_of_the_rounds(self):
        summary = measure.ratio_summary([100.0, 200.0, 400.0], [300.0, 300.0, 300.0])
        self.assertEqual(summary, {"ratio": 1.5, "ratio_low": 0.75, "ratio_high": 3.0})
        with self.assertRaises(ValueError):
            measure.ratio_summary([1.0], [1.0, 2.0])

    def test_readings_pick_their_line(self):
        lines = [{"active": 0.75, "ms": 3.0}, {"active": 0.5, "ms": 2.0}]
        results = {"moh": measure.SideResult("moh", [lines, lines])}
        self.assertEqual(measure.series(results, cases.Reading("moh", "ms", {"active": 0.5})), [2.0, 2.0])
        with self.assertRaisesRegex(BenchError, "no line with {'active': 0.9}"):
            measure.series(results, cases.Reading("moh", "ms", {"active": 0.9}))
        for broken in ({}, {"ms": 0.0}, {"ms": math.nan}, {"ms": "2"}, {"ms": True}):
            with self.assertRaisesRegex(BenchError, "expected a number above 0 in field ms"):
                measure.value_of(broken, "ms")

    def test_attention_in_any_order_is_a_row_of_its_own(self):
        comparison = next(cases.attention(1, cases.Terms(1, 1, "cuda"), ["causal"]))
        lines = [{"op": op, "forward_ms": ms, "forward_backward_ms": 3 * ms}
                 for op, ms in (("attention", 2.0), ("attention_in_any_order", 1.0))]
        results = {"moh": measure.SideResult("moh", [lines])}
        self.assertEqual([measure.series(results, figure.ours) for figure in comparison.figures], [[2.0], [6.0]])

    def test_readings_add_up_passes_and_ceilings_do_not_count(self):
        lines = [{"op": "fma", "pass": "", "ms": 0}, {"model": "a", "pass": "forward", "ms": 1.0},
                 {"model": "a", "pass": "backward", "ms": 2.0}, {"model": "b", "pass": "forward", "ms": 4.0}]
        self.assertEqual(measure.score(cases.MohSide((), "ms"), lines), 7.0)
        results = {"moh": measure.SideResult("moh", [lines])}
        self.assertEqual(measure.series(results, cases.Reading("moh", "ms", {"model": "a"})), [3.0])

    def test_memory_takes_the_smallest_of_pytorch_and_the_largest_of_moh(self):
        def moh(process):
            return [{"peak_rss_bytes": process, "peak_bytes": {"total": 10}}]

        comparison = cases.Comparison("c", "n", 1, {}, [], [("step", "moh", "PyTorch")])
        trials = [{"peak_rss_bytes": 80, "import_rss_bytes": 20}, {"peak_rss_bytes": 60, "import_rss_bytes": 20}]
        results = {"moh": measure.SideResult("moh", [moh(25), moh(30), moh(20)]),
                   "PyTorch": measure.SideResult("PyTorch, eager", [], "eager", trials)}
        record, = measure.memory_records(comparison, results)
        self.assertEqual((record["ratio"], record["ratio_without_import"]), (30 / 60, 30 / 40))

    def test_refuses_to_compare_different_models(self):
        comparison = cases.Comparison("c", "n", 1, {}, [], [("step", "moh", "PyTorch")])
        results = {side: measure.SideResult(side, [[{"parameters": count}]]) for side, count in
                   (("moh", 100), ("PyTorch", 101))}
        with self.assertRaisesRegex(BenchError, "found 100 parameters in moh, 101 in PyTorch"):
            measure.check_same_models(comparison, results)

    def test_every_case_reads_sides_that_it_has(self):
        for case, make, terms in ((*item, terms) for item in cases.CASES.items() for terms in ALL_TERMS):
            for comparison in make(2, terms, cases.MASKS):
                with self.subTest(case=case, name=comparison.name, terms=terms):
                    read = {r.side for figure in comparison.figures for r in (figure.ours, figure.other)}
                    self.assertEqual(read, set(comparison.sides))
                    for _, moh, other in comparison.memory:
                        self.assertIsInstance(comparison.sides[moh], cases.MohSide)
                        self.assertIsInstance(comparison.sides[other], cases.TorchSide)

    def test_tables_are_markdown(self):
        record = {"kind": "speed", "case": "c", "name": "model", "threads": 2, "what": "step", "ours": "moh",
                  "ours_ms": 100.0, "other": "PyTorch, eager", "other_ms": 150.0, "ratio": 1.5, "ratio_low": 1.25,
                  "ratio_high": 1.75, "rounds": 3}
        lines = report.markdown([record]).splitlines()
        self.assertEqual(lines[1], "| " + " | ".join(["---"] * 8) + " |")
        self.assertEqual(lines[2], "| model | 2 | step | moh | 100.00 | PyTorch, eager | 150.00 | "
                                   "**1.50** (1.25 to 1.75) |")
        self.assertEqual({line.count("|") for line in lines}, {9})
        self.assertEqual(report.markdown([]), "")


MKL_SAYS = "Intel(R) Advanced Vector Extensions 2 (Intel(R) AVX2)"
MKL_SAYS_512 = "Intel(R) Advanced Vector Extensions 512 (Intel(R) AVX-512)"
ONEDNN_SAYS_BF16 = "Intel AVX-512 with Intel DL Boost and bfloat16 support"
ONEDNN_SAYS_AMX = "Intel AVX10.1 and Intel AMX with bfloat16 and 8-bit integer support"


class IsaTest(Folder):
    def test_knows_the_names_of_every_part(self):
        for isa_name, texts in {
                "baseline": ("baseline", "DEFAULT", "INVALID_VEC_ISA", "SSE", "Intel SSE4.1",
                             "Intel(R) Streaming SIMD Extensions 4.2 (Intel(R) SSE4.2)",
                             "Intel(R) Architecture, CNR:COMPATIBLE"),
                "avx2": ("avx2", "AVX2", MKL_SAYS, "Intel AVX2 with Intel DL Boost", "Intel(R) Architecture",
                         "Intel AVX2 with Intel DL Boost, float16 and bfloat16 support"),
                "avx512": ("avx512", "AVX512", "avx512 avx512_vnni amx_tile", "Intel AVX-512 with Intel DL Boost",
                           "Intel AVX-512 with AVX512BW, AVX512VL, and AVX512DQ extensions", MKL_SAYS_512,
                           f"{MKL_SAYS_512} with support of Intel(R) Deep Learning Boost (Intel(R) DL Boost)"),
                "avx512_bf16": ("avx512_bf16", ONEDNN_SAYS_BF16, f"{ONEDNN_SAYS_BF16} on Ymm/Zmm", "Intel AVX 10.1",
                                "Intel AVX10.2", f"{MKL_SAYS_512} with support for INT8, BF16, and FP16 (limited) instructions",
                                f"{MKL_SAYS_512} with support of Intel(R) Deep Learning Boost (Intel(R) DL Boost) and bfloat16"),
                "amx": ("amx", ONEDNN_SAYS_AMX, "Intel AVX-512 with float16, Intel DL Boost and bfloat16 support and Intel AMX "
                        "with bfloat16 and 8-bit integer support", f"{MKL_SAYS_512} with support for INT8, BF16, FP16 (limited) "
                        "instructions, and Intel(R) Advanced Matrix Extensions (Intel(R) AMX) with INT8 and BF16"),
                None: ("SVE256", "ARM Neon")}.items():
            for text in texts:
                with self.subTest(text):
                    self.assertEqual(isa.in_words(text), isa_name)

    def test_moh_says_it_with_its_version(self):
        found = isa.of_moh(self.version_of_moh())
        self.assertIn(found, isa.ISAS)
        self.assertEqual(isa.of_moh(self.version_of_moh(MOH_CPU_ISA=found)), found)
        with self.assertRaisesRegex(BenchError, "expected an instruction set at the end, found '0.0.0'"):
            isa.of_moh("0.0.0")

    def version_of_moh(self, **variables):
        return measure.Runner(MOH, sys.executable, timeout=60, environment=variables).text([MOH, "--version"]).strip()

    def test_all_have_to_use_the_same_and_libraries_no_more(self):
        avx2 = {"moh": "avx2", "PyTorch": "AVX2", "MKL": MKL_SAYS, "oneDNN": "Intel AVX2", "torch.compile": "avx2",
                "its compiler": "AVX2"}
        for asked in ("avx2", None):
            isa.check(asked, avx2)
            isa.check(asked, {**avx2, "oneDNN": "Intel SSE4.1"})
        isa.check(None, {"moh": "baseline", "PyTorch": "SVE256"})  # another processor
        for part, text in (("moh", "avx512"), ("moh", "baseline"), ("PyTorch", "AVX512"), ("PyTorch", "DEFAULT"),
                           ("PyTorch", "SVE256"), ("MKL", "Intel(R) AVX-512"), ("oneDNN", "Intel AVX-512"),
                           ("torch.compile", "INVALID_VEC_ISA"), ("its compiler", "AVX512")):
            with self.subTest(part, text=text):
                with self.assertRaisesRegex(BenchError, f"--isa: expected avx2 on both sides, found {part}: {re.escape(text)}$"):
                    isa.check("avx2", {**avx2, part: text})
        for moh in ("avx512", "avx512_bf16", "amx"):
            with self.assertRaisesRegex(BenchError, f"expected {moh} .*found PyTorch: AVX2; --isa avx2 holds both sides to one"):
                isa.check(None, {**avx2, "moh": moh})

    def test_libraries_alone_multiply_bfloat16_by_instructions_of_their_own(self):
        avx512 = {"PyTorch": "AVX512", "MKL": "Intel(R) Architecture", "torch.compile": "avx512 avx512_vnni",
                  "its compiler": "AVX512"}
        texts = {"avx512": "Intel AVX-512 with Intel DL Boost", "avx512_bf16": ONEDNN_SAYS_BF16, "amx": ONEDNN_SAYS_AMX}
        for moh in ("avx512", "avx512_bf16", "amx"):
            for onednn, text in texts.items():
                said = {"moh": moh, **avx512, "oneDNN": text}
                with self.subTest(moh, onednn=onednn):
                    isa.check(None, said)  # each side as it is fastest
                    if isa.rank(onednn) <= isa.rank(moh):
                        isa.check(moh, said)
                    else:
                        with self.assertRaisesRegex(BenchError, f"--isa: expected {moh} on both sides, found oneDNN: {text}$"):
                            isa.check(moh, said)
        for asked, moh in (("avx512", "avx512_bf16"), ("avx512_bf16", "avx512"), ("avx512_bf16", "amx")):
            with self.assertRaisesRegex(BenchError, f"--isa: expected {asked} on both sides, found moh: {moh}$"):
                isa.check(asked, {"moh": moh, **avx512, "oneDNN": texts["avx512"]})
        with self.assertRaisesRegex(BenchError, "expected avx2 on both sides, found oneDNN: "):
            isa.check(None, {"moh": "avx2", "PyTorch": "AVX2", "oneDNN": ONEDNN_SAYS_BF16})

    def test_variables(self):
        self.assertEqual(isa.variables(None, "cache"), {})
        self.assertEqual(isa.variables("avx2", "cache"),
                         {"MOH_CPU_ISA": "avx2", "ATEN_CPU_CAPABILITY": "avx2", "MKL_ENABLE_INSTRUCTIONS": "AVX2",
                          "ONEDNN_MAX_CPU_ISA": "AVX2", "TORCHINDUCTOR_CPP_MARCH": "x86-64-v3",
                          "TORCHINDUCTOR_CACHE_DIR": os.path.abspath("cache")})
        for intel, found in ((True, None), (False, "COMPATIBLE")):
            with unittest.mock.patch.object(isa, "is_intel", return_value=intel):
                self.assertEqual(isa.variables("baseline", "cache").get("MKL_CBWR"), found)

    def test_a_run_holds_both_sides_to_it(self):
        result = self.bench_with_fakes("--rounds", "1", "--isa", "avx2")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("Instruction sets: moh avx2; PyTorch AVX2; MKL Intel(R) AVX2.", result.stdout)
        self.assertIn("| llama_384, T 256, batch 8 | 2 | step |", result.stdout)

    def test_a_side_that_uses_another_ends_the_run(self):
        for variable, message in (("MOH_CPU_ISA", "--isa: expected avx2 on both sides, found PyTorch: AVX512; --isa avx2 holds"),
                                  ("ATEN_CPU_CAPABILITY", "--isa: expected avx512 on both sides, found PyTorch: AVX2; --isa avx2")):
            with unittest.mock.patch.dict(os.environ, {variable: "avx2"}):
                result = self.bench_with_fakes("--rounds", "1")
            self.assertEqual(result.returncode, 1)
            self.assertIn(message, result.stderr)
            self.assertFalse((self.folder / "moh.log").exists())  # nothing was measured

    def test_a_processor_without_it(self):
        moh = self.moh_that_refuses("MOH_CPU_ISA: expected an instruction set of this processor (the best is avx2)")
        write_program(self.folder / "venv/bin/python", FAKE_TORCH)
        result = self.bench("--moh", moh, "--venv", self.folder / "venv", "--isa", "avx512")
        self.assertEqual(result.returncode, 1)
        self.assertIn("MOH_CPU_ISA: expected an instruction set of this processor (the best is avx2)", result.stderr)


class ConvolutionTest(Folder):
    def test_sizes_are_those_of_moh(self):
        runner = measure.Runner(MOH, sys.executable, timeout=100)
        comparison, _ = cases.conv(1, cases.Terms(0, 1), cases.MASKS)
        records = runner.measure(comparison.sides["moh"])
        convolutions = comparison.sides["PyTorch"].job["convolutions"]
        self.assertEqual([(r["model"], r["shape"], r["pass"]) for r in records if r["op"] == "convolution"],
                         [(c["model"], c["shape"], each) for c in convolutions for each in ("forward", "backward")])
        results = {"moh": measure.SideResult("moh", [records])}
        for figure in comparison.figures:
            measure.series(results, figure.ours)


class ConfigTest(Folder):
    def test_reads_what_moh_config_prints(self):
        config, *settings = (SOURCE / cases.LLAMA, *cases.LONG, *cases.WIDE, *routed(3, 3))
        command = [MOH, "config", config, *settings, "train.batch_size=3"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        config = resolved_config.read(done.stdout)
        self.assertEqual(config["train"]["batch_size"], 3)
        self.assertEqual(config["model"]["norm_eps"], 1e-5)
        self.assertEqual(config["model"]["moh"]["router"], "learned")
        self.assertEqual((config["model"]["moh"]["num_shared"], config["model"]["moh"]["top_k"]), (3, 3))
        self.assertEqual(config["optim"]["betas"], [0.9, 0.95])
        self.assertEqual(config["data"]["sequence_length"], 2048)
        self.assertIs(config["model"]["tied_embeddings"], False)
        self.assertEqual(config["guard"]["max_skipped"], 10)

    def resolved_model(self, *overrides):
        runner = measure.Runner(MOH, sys.executable, timeout=60)
        return runner.resolved(("configs/bench/llama_384.yaml", "model.layers=4", *overrides))["model"]

    def test_reads_heads_of_all_layers_or_of_each(self):
        learned = "model.moh.router=learned"
        self.assertEqual(routing.layer_routings(self.resolved_model()), [None] * 4)
        alike = self.resolved_model(learned, "model.moh.num_shared=2", "model.moh.top_k=3")
        self.assertEqual(routing.layer_routings(alike), [routing.Routing(2, 3)] * 4)
        # All heads shared, none shared, and counts of both kinds, one of which is the same everywhere.
        each = self.resolved_model(learned, "model.moh.num_shared=[6, 0, 1, 2]", "model.moh.top_k=[0, 3, 3, 4]",
                                   "model.moh.two_stage=false")
        self.assertEqual(routing.layer_routings(each),
                         [routing.Routing(*pair, False) for pair in ((6, 0), (0, 3), (1, 3), (2, 4))])
        mixed = self.resolved_model(learned, "model.moh.num_shared=1", "model.moh.top_k=[5, 4, 3, 2]")
        self.assertEqual(routing.layer_routings(mixed), [routing.Routing(1, kept) for kept in (5, 4, 3, 2)])
        for model in (alike, each, mixed):
            routing.check_supported(model)
        with self.assertRaisesRegex(ValueError, "model.moh.top_k: expected one number, or one for each of the 3 layers, "
                                                r"found \[5, 4, 3, 2\]"):
            routing.layer_routings({**mixed, "layers": 3})

    def test_models_that_pytorch_has_not_are_refused_by_name(self):
        heads = ("model.moh.router=learned", "model.moh.num_shared=2", "model.moh.top_k=1")
        for overrides, message in (
                (("model.kv_heads=2",), "model.kv_heads: expected one per query head, .*found 2"),
                (("model.rope_scaling.kind=linear", "model.rope_scaling.factor=2"),
                 "model.rope_scaling.kind: expected none, .*found linear"),
                (("model.dropout=0.1",), "model.dropout: expected 0, .*found 0.1"),
                (("model.recompute=layer",), "model.recompute: expected none, .*found layer"),
                (("model.moh.router=query_norm", *heads[1:]), "model.moh.router: expected none or learned, .*found query_n"),
                (("model.moh.gate_scaling=paper", *heads), "model.moh.gate_scaling: expected code, .*found paper"),
                (("model.moh.shared_heads=[0, 2]", *heads), r"model.moh.shared_heads: expected first, .*found \[0, 2\]"),
                (("model.moh.shared_heads=[[0, 2], [1, 3], [0, 1], [2, 3]]", *heads), r"found \[\[0, 2\], \[1, 3\]")):
            with self.subTest(overrides), self.assertRaisesRegex(ValueError, message):
                routing.check_supported(self.resolved_model(*overrides))

    def test_the_configurations_of_all_cases_are_there(self):
        runner = measure.Runner(MOH, sys.executable, timeout=60)
        for make, terms in ((make, terms) for make in cases.CASES.values() for terms in ALL_TERMS):
            for comparison in make(1, terms, cases.MASKS):
                for side in comparison.sides.values():
                    if isinstance(side, cases.TorchSide) and side.config:
                        config = runner.resolved(side.config)
                        self.check_model(config)
                        self.assertEqual(config["precision"], terms.precision)
                        self.assertFalse(config["tf32"] and terms.precision == "float32")
                        self.assertEqual(config["device"], "cpu" if terms.device == "cpu" else "cuda:0")
                        self.assertEqual(config["train"]["accumulate"], 1)

    def check_model(self, config):
        model = config["model"]
        if config["task"] == "language_model":
            routing.check_supported(model)
            self.assertEqual(len(routing.layer_routings(model)), model["layers"])
        elif config["task"] == "diffusion":
            routing.check_supported_diffusion(model)
            self.assertEqual(len(routing.layer_routings(model)), len(routing.per_layer_heads(model)))
        else:
            routing.check_supported_images(model)
            depths = {"vit": [model["vit"]["layers"]], "transnext": model["transnext"]["depths"]}
            self.assertEqual(len(routing.block_routings(model)), sum(depths[model["architecture"]]))

    def test_cases_and_modes_follow_the_device(self):
        cpu, cuda = (bench_pytorch.parse_arguments(["--device", device]) for device in cases.DEVICES)
        self.assertNotIn("llm_step", cpu.cases)
        self.assertIn("llm_step", cuda.cases)
        self.assertEqual((cpu.threads, cuda.threads), ([1, 2], [4]))
        self.assertEqual(cuda.modes, ["eager", "compile"])
        attention, *_ = cases.attention(4, cases.Terms(1, 1, "cuda"), ["causal"])
        self.assertEqual(attention.sides["moh"].arguments[-5:], ("--device", "cuda", "--dtype", "bf16", "--json"))
        self.assertEqual([attention.sides["PyTorch"].job[key] for key in ("device", "dtype")], ["cuda", "bf16"])

    def test_precision_is_that_of_the_device_or_the_one_named(self):
        for arguments, precision in (([], "float32"), (["--device", "cuda"], "bfloat16"),
                                     (["--precision", "bfloat16"], "bfloat16"),
                                     (["--device", "cuda", "--precision", "float32"], "float32")):
            with self.subTest(arguments):
                self.assertEqual(bench_pytorch.parse_arguments(arguments).precision, precision)

    def test_both_sides_of_every_case_have_the_precision(self):
        for case, make, terms in ((*item, terms) for item in cases.CASES.items() for terms in ALL_TERMS):
            for comparison in make(1, terms, cases.MASKS):
                for side in comparison.sides.values():
                    with self.subTest(case=case, name=comparison.name, terms=terms):
                        words = side.arguments if isinstance(side, cases.MohSide) else (*side.config, side.job["dtype"])
                        found = {precision for precision, dtype in cases.DTYPES.items()
                                 if f"precision={precision}" in words or dtype in words}
                        self.assertEqual(found, {terms.precision})


# The same two on a machine with a GPU.
FAKE_CUDA_TORCH = """
    import json, sys
    if sys.argv[1:3] == ["-c", "import torch"]:
        sys.exit(0)
    job = json.loads(sys.argv[-1])
    assert job["device"] == "cuda", job
    if job["work"] == "versions":
        print(json.dumps({"python": "3", "torch": "9.9", "libraries": ["CUDA 13", "cuDNN 9"], "capability": "sm_90",
                          "gpu": "NVIDIA H200", "driver": "580.1"}))
    else:
        ms = 150.0 if job["compile"] else 300.0
        print(json.dumps({"step_ms": ms, "forward_ms": ms / 4, "backward_ms": ms / 2, "optimizer_ms": ms / 4,
                          "parameters": 7, "peak_device_bytes": (40 if job["compile"] else 50) << 20}))
"""


class GpuTest(Folder):
    """What can be tried without one: stand-ins, and the refusals."""

    def test_measures_in_turns_on_the_device(self):
        moh = write_program(self.folder / "moh", FAKE_MOH)
        write_program(self.folder / "venv/bin/python", FAKE_CUDA_TORCH)
        arguments = ("--moh", moh, "--venv", self.folder / "venv", "--device", "cuda", "--cases", "llama_step")
        result = self.bench(*arguments)
        self.assertEqual(result.returncode, 0, result.stderr)
        commands = [json.loads(line) for line in (self.folder / "moh.log").read_text().splitlines()]
        self.assertEqual(commands[0][:4], ["bench", "attention", "--device", "cuda"])  # is there a GPU?
        self.assertEqual(commands[1][:6], ["bench", "step", "configs/bench/llama_384.yaml", "device=cuda",
                                           "precision=bfloat16", "threads=4"])
        self.assertIn("NVIDIA H200, driver 580.1; ", result.stdout)
        self.assertIn("PyTorch 9.9 (CUDA 13; cuDNN 9; sm_90)", result.stdout)
        self.assertIn("PyTorch, compile | 150.00 |", result.stdout)
        self.assertNotIn("tuned", result.stdout + result.stderr)
        self.assertIn("| llama_384, T 256, batch 8 | moh | 20 | PyTorch | 40 | 0.50 |", result.stdout)

    def test_without_a_gpu(self):
        moh = self.moh_that_refuses("device: cuda:0: expected a CUDA GPU, found none")
        write_program(self.folder / "venv/bin/python", FAKE_CUDA_TORCH)
        result = self.bench("--moh", moh, "--venv", self.folder / "venv", "--device", "cuda")
        self.assertEqual(result.returncode, 1)
        self.assertIn("--device cuda: moh bench attention --device: ended with code 2: error: device: cuda:0: expected a "
                      "CUDA GPU, found none", result.stderr)
        self.assertEqual(result.stdout, "")

    def test_with_a_pytorch_that_has_no_gpu(self):
        moh = write_program(self.folder / "moh", FAKE_MOH)
        write_program(self.folder / "venv/bin/python", """
            import json, sys
            if sys.argv[1] == "-c":
                sys.exit(0)
            print(json.dumps({"error": "RuntimeError: PyTorch 9.9+cpu is built for the CPU only"}))
            sys.exit(1)
        """)
        result = self.bench("--moh", moh, "--venv", self.folder / "venv", "--device", "cuda")
        self.assertEqual(result.returncode, 1)
        self.assertIn("--device cuda: RuntimeError: PyTorch 9.9+cpu is built for the CPU only", result.stderr)


class RunTest(Folder):
    def test_measures_in_turns_and_counts_the_fastest_mode(self):
        result = self.bench_with_fakes("--json", "--repeats", "4", "--warmups", "2")
        self.assertEqual(result.returncode, 0, result.stderr)
        records = [json.loads(line) for line in result.stdout.splitlines()]
        self.assertEqual(records[0]["kind"], "environment")
        self.assertEqual(records[0]["torch"], "9.9")
        step = next(record for record in records if record.get("what") == "step" and record["kind"] == "speed")
        self.assertEqual((step["ours_ms"], step["other"], step["other_ms"]), (200.0, "PyTorch, eager tuned", 300.0))
        self.assertEqual((step["ratio"], step["ratio_low"], step["ratio_high"]), (1.5, 0.75, 3.0))
        memory = next(record for record in records if record["kind"] == "memory")
        self.assertEqual((memory["ratio"], memory["ratio_without_import"]), (0.5, 0.75))  # eager, untuned, was smallest
        remarks = [record["text"] for record in records if record["kind"] == "remark"]
        self.assertEqual(len(remarks), 2)  # both compile modes
        self.assertIn("PyTorch, compile: RuntimeError: no C++ compiler", remarks[0])
        commands = [json.loads(line) for line in (self.folder / "moh.log").read_text().splitlines()]
        self.assertEqual(len(commands), 3)
        self.assertEqual(commands[0], ["bench", "step", "configs/bench/llama_384.yaml", "precision=float32", "threads=2",
                                       "--random-data", "--json", "--warmup", "2", "--steps", "4"])
        turns = [line for line in result.stderr.splitlines() if "round" in line]
        self.assertEqual([("PyTorch" in line) for line in turns], [False, True] * 3)

    def test_both_sides_compute_in_the_precision_asked_for(self):
        result = self.bench_with_fakes("--rounds", "1", "--precision", "bfloat16", "--json")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(json.loads(result.stdout.splitlines()[0])["precision"], "bfloat16")
        command, = (json.loads(line) for line in (self.folder / "moh.log").read_text().splitlines())
        self.assertIn("precision=bfloat16", command)
        self.assertEqual(self.bench("--precision", "float16").returncode, 2)

    def test_prints_tables(self):
        result = self.bench_with_fakes("--rounds", "1")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("; moh 0.0.0 (commit 0123456789, GNU 12.2.0, no CUDA, avx512), sources at ", result.stdout)
        self.assertIn("PyTorch 9.9 (MKL 1; AVX512), Python 3. Both in float32, 1 rounds of 10 repeats", result.stdout)
        self.assertIn("Instruction sets: moh avx512; PyTorch AVX512; MKL Intel(R) AVX2.", result.stdout)
        self.assertIn("### llama_step", result.stdout)
        self.assertIn("| llama_384, T 256, batch 8 | 2 | step | moh | 100.00 | PyTorch, eager tuned | 300.00 | "
                      "**3.00** (3.00 to 3.00) |", result.stdout)
        self.assertIn("| 2 | moh | 20 | 30 | PyTorch | 60 | 40 | 0.50 | 0.75 |", result.stdout)

    def test_what_cannot_be_measured_is_told_and_does_not_stop_the_rest(self):
        result = self.bench_with_fakes("--cases", "attention", "llama_step", "--only", "T 256", "--rounds", "1",
                                       "--json")
        self.assertEqual(result.returncode, 1)
        records = [json.loads(line) for line in result.stdout.splitlines()]
        failures = [record for record in records if record["kind"] == "failure"]
        self.assertEqual([failure["case"] for failure in failures], ["attention", "attention"])
        self.assertTrue(any(record["kind"] == "speed" for record in records))

    def test_a_failure_in_the_middle_keeps_what_came_before_and_after(self):
        # The second of three comparisons prints what nobody expects: not even the script's own kind of error.
        broken = FAKE_MOH.replace('"peak_bytes": {', '"peak_bytes": 7 if "data.sequence_length=64" in arguments else {')
        moh = write_program(self.folder / "moh", broken)
        write_program(self.folder / "venv/bin/python", FAKE_TORCH)
        result = self.bench("--moh", moh, "--venv", self.folder / "venv", "--threads", "1", "--rounds", "1", "--json",
                            "--cases", "llama_step", "gpt2_step")
        self.assertEqual(result.returncode, 1)
        records = [json.loads(line) for line in result.stdout.splitlines()]
        self.assertEqual([record["name"] for record in records if record.get("what") == "step" and record["kind"] == "speed"],
                         ["llama_384, T 256, batch 8", "gpt2_124m, T 512, batch 1"])
        failure, = (record for record in records if record["kind"] == "failure")
        self.assertEqual(failure["name"], "gpt2_124m, T 64, batch 4")
        self.assertIn("AttributeError: ", failure["reason"])
        self.assertIn("bench_pytorch.py: 1 not measured:\ngpt2_step: gpt2_124m, T 64, batch 4, threads 1: AttributeError",
                      result.stderr[-300:])

    def test_an_interrupted_run_has_printed_what_it_measured(self):
        # The second comparison never ends.
        hanging = FAKE_MOH.replace("    else:\n", """    elif "data.sequence_length=512" in arguments:
        import time
        pathlib.Path(__file__).with_name("hangs").touch()
        time.sleep(600)
    else:
""", 1)
        moh = write_program(self.folder / "moh", hanging)
        write_program(self.folder / "venv/bin/python", FAKE_TORCH)
        command = [sys.executable, "-B", SCRIPT, "--moh", moh, "--venv", self.folder / "venv", "--threads", "1", "--rounds",
                   "1", "--cases", "gpt2_step"]
        # A shell that starts the tests in the background lets them ignore the signal.
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                              preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL)) as running:
            output = ""
            while "| gpt2_124m, T 64, batch 4 | 1 | moh |" not in output:  # of the last table
                line = running.stdout.readline()
                self.assertNotEqual(line, "", output)
                output += line
            while not (self.folder / "hangs").exists():
                self.assertIsNone(running.poll())
            running.send_signal(signal.SIGINT)
            rest, _ = running.communicate(timeout=60)
        self.assertEqual(running.returncode, 130)
        self.assertIn("| gpt2_124m, T 64, batch 4 | 1 | step | moh | 100.00 |", output)
        self.assertNotIn("T 512", output + rest)

    def test_only_compile_modes_without_a_compiler(self):
        result = self.bench_with_fakes("--modes", "compile", "--rounds", "1")
        self.assertEqual(result.returncode, 1)
        self.assertIn("not measured: PyTorch, compile: RuntimeError: no C++ compiler", result.stdout)

    def test_a_command_that_hangs_or_fails(self):
        runner = measure.Runner("moh", sys.executable, timeout=0.5)
        with self.assertRaisesRegex(BenchError, "no end after 0.5 s; --timeout allows more"):
            runner.run([sys.executable, "-c", "import time; time.sleep(60)"])
        runner.timeout = 60
        with self.assertRaisesRegex(BenchError, "ended with code 3: why it failed"):
            runner.run([sys.executable, "-c", "import sys; print('why it failed', file=sys.stderr); sys.exit(3)"])
        with self.assertRaisesRegex(BenchError, "absent: No such file"):
            runner.run([str(self.folder / "absent")])


class RefusalTest(Folder):
    def test_without_moh(self):
        result = self.bench("--moh", self.folder / "absent")
        self.assertEqual(result.returncode, 1)
        self.assertIn("--moh: expected the moh program, found nothing to run at", result.stderr)

    def test_without_pytorch(self):
        moh = write_program(self.folder / "moh", FAKE_MOH)
        venv = self.folder / "venv"
        result = self.bench("--moh", moh, "--venv", venv)
        self.assertEqual(result.returncode, 1)
        self.assertIn(f"found none; make it with: scripts/bench_pytorch.py --setup {venv}", result.stderr)
        write_program(venv / "bin/python", "raise ImportError('torn installation')")
        result = self.bench("--moh", moh, "--venv", venv)
        self.assertEqual(result.returncode, 1)
        self.assertIn("found: ImportError: torn installation; make it with", result.stderr)

    def test_setup_that_fails(self):
        (self.folder / "file").write_text("in the way")
        result = self.bench("--setup", self.folder / "file" / "venv")
        self.assertEqual(result.returncode, 1)
        self.assertIn("`-m venv", result.stderr)
        self.assertIn("It needs a Python with venv and pip (Debian: the package python3-venv)", result.stderr)

    def test_bad_arguments(self):
        for arguments, message in ((["--cases", "speed"], "invalid choice: 'speed'"),
                                   (["--threads", "0"], "expected 1 or more, found 0"),
                                   (["--rounds", "0"], "expected 1 or more, found 0"),
                                   (["--modes", "magic"], "invalid choice: 'magic'"),
                                   (["--isa", "avx"], "invalid choice: 'avx'"),
                                   (["--isa", "avx2", "--device", "cuda"], "--isa is for --device cpu")):
            result = self.bench(*arguments)
            self.assertEqual(result.returncode, 2)
            self.assertIn(message, result.stderr)

    def test_lists_the_comparisons(self):
        output = io.StringIO()
        with contextlib.redirect_stdout(output):
            bench_pytorch.main(["--list", "--threads", "2", "--cases", "moh_module", "--masks", "causal"])
        lines = output.getvalue().splitlines()
        self.assertEqual(len(lines), 4)
        self.assertEqual(lines[-1], "moh_module: width 2048, T 512, causal, threads 2")


if __name__ == "__main__":
    unittest.main()
