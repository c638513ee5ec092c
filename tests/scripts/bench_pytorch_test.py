"""scripts/bench_pytorch.py: arithmetic, tables and messages with stand-ins for moh and PyTorch; where PyTorch is to be
had, also its models against the formulas and against moh.

PyTorch is that of this Python or, failing that, of the virtual environment MOH_PYTORCH_VENV (build/pytorch-venv).
"""

import array
import contextlib
import importlib.util
import io
import json
import math
import os
import pathlib
import subprocess
import sys
import tempfile
import textwrap
import unittest

SOURCE = pathlib.Path(os.environ.get("MOH_SOURCE_DIR", pathlib.Path(__file__).resolve().parents[2]))
SCRIPT = SOURCE / "scripts" / "bench_pytorch.py"
WORKER = SOURCE / "scripts" / "pytorch_bench" / "worker.py"
MOH = os.environ.get("MOH_BINARY", "moh")

if importlib.util.find_spec("torch") is None:
    with_torch = os.path.abspath(os.environ.get("MOH_PYTORCH_VENV", SOURCE / "build/pytorch-venv")) + "/bin/python"
    if os.path.exists(with_torch) and sys.executable != with_torch:
        os.execv(with_torch, [with_torch, "-B", *sys.argv])

try:
    import torch
except ImportError:
    torch = None

sys.path[:0] = [str(SOURCE / "scripts"), str(SOURCE / "scripts" / "pytorch_bench")]
import bench_pytorch  # noqa: E402
from pytorch_bench import cases, measure, report  # noqa: E402
from pytorch_bench.measure import BenchError  # noqa: E402

# A `moh` that answers as the commands of the cases do, one step time after the other.
FAKE_MOH = """
    import json, pathlib, sys
    arguments = sys.argv[1:]
    if arguments == ["--version"]:
        print("0.0.0")
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
        print(json.dumps({"python": "3", "torch": "9.9", "libraries": ["MKL 1"], "capability": "AVX2"}))
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
        for case, make, device in ((*item, device) for item in cases.CASES.items() for device in cases.DEVICES):
            for comparison in make(2, cases.Terms(1, 1, device), cases.MASKS):
                with self.subTest(case=case, name=comparison.name, device=device):
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


class ConfigTest(Folder):
    def test_reads_what_moh_config_prints(self):
        config = SOURCE / "configs/bench/llama_768_long_moh_50.yaml"
        command = [MOH, "config", config, "train.batch_size=3"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        config = measure.read_resolved(done.stdout)
        self.assertEqual(config["train"]["batch_size"], 3)
        self.assertEqual(config["model"]["norm_eps"], 1e-5)
        self.assertEqual(config["model"]["moh"]["router"], "learned")
        self.assertEqual((config["model"]["moh"]["shared"], config["model"]["moh"]["routed"]), (3, 3))
        self.assertEqual(config["optim"]["betas"], [0.9, 0.95])
        self.assertEqual(config["data"]["sequence_length"], 2048)
        self.assertIs(config["model"]["tied_embeddings"], False)
        self.assertEqual(config["guard"]["max_skipped"], 10)

    def test_the_configurations_of_all_cases_are_there(self):
        runner = measure.Runner(MOH, sys.executable, timeout=60)
        for make, device in ((make, device) for make in cases.CASES.values() for device in cases.DEVICES):
            for comparison in make(1, cases.Terms(1, 1, device), cases.MASKS):
                for side in comparison.sides.values():
                    if isinstance(side, cases.TorchSide) and side.config:
                        config = runner.resolved(side.config)
                        self.assertEqual(config["precision"], "float32" if device == "cpu" else "bfloat16")
                        self.assertEqual(config["device"], "cpu" if device == "cpu" else "cuda:0")
                        self.assertEqual(config["train"]["accumulate"], 1)

    def test_cases_and_modes_follow_the_device(self):
        cpu, cuda = (bench_pytorch.parse_arguments(["--device", device]) for device in cases.DEVICES)
        self.assertNotIn("llm_step", cpu.cases)
        self.assertIn("llm_step", cuda.cases)
        self.assertEqual((cpu.threads, cuda.threads), ([1, 2], [4]))
        self.assertEqual(cuda.modes, ["eager", "compile"])
        attention, *_ = cases.attention(4, cases.Terms(1, 1, "cuda"), ["causal"])
        self.assertEqual(attention.sides["moh"].arguments[-5:], ("--device", "cuda", "--dtype", "bf16", "--json"))
        self.assertEqual([attention.sides["PyTorch"].job[key] for key in ("device", "dtype")], ["cuda", "bf16"])


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
        moh = write_program(self.folder / "moh", """
            import sys
            print("error: device: cuda:0: expected a CUDA GPU, found none", file=sys.stderr)
            sys.exit(2)
        """)
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

    def test_prints_tables(self):
        result = self.bench_with_fakes("--rounds", "1")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("PyTorch 9.9 (MKL 1; AVX2), Python 3.", result.stdout)
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
                                   (["--modes", "magic"], "invalid choice: 'magic'")):
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


def resolved(*overrides):
    runner = measure.Runner(MOH, sys.executable, timeout=60)
    tiny = ("model.layers=2", "model.hidden=32", "model.intermediate=48", "model.heads=4", "data.sequence_length=16")
    return runner.resolved(("configs/bench/llama_384.yaml", *tiny, *overrides))


MOH_OVERRIDES = ("model.moh.router=learned", "model.moh.shared=2", "model.moh.routed=1")


@unittest.skipIf(torch is None, "no PyTorch")
class ModelTest(Folder):
    def router(self, shared, routed, heads=6):
        from models import HeadRouter, Routing

        torch.manual_seed(2)
        return HeadRouter(8, heads, Routing(shared, routed)), torch.randn(2, 5, 8)

    def test_gates_are_those_of_the_released_code(self):
        for shared, routed in ((1, 2), (3, 2), (2, 4)):
            router, x = self.router(shared, routed)
            gates, balance = router(x)
            chosen, probabilities = [], []
            for token, gate in zip(x.reshape(-1, 8), gates.reshape(-1, 6)):
                p = torch.softmax(router.wg.weight @ token, 0)
                top = sorted(range(6 - shared), key=lambda i: -p[i])[:routed]
                kinds = 2 * torch.softmax(router.wg_0.weight @ token, 0)
                s = shared * torch.softmax(router.wg_1.weight @ token, 0) if shared > 1 else torch.ones(1)
                expected = torch.cat([kinds[0] * s, torch.zeros(6 - shared)])
                for i in top:
                    expected[shared + i] = kinds[1] * routed * p[i] / p[top].sum()
                torch.testing.assert_close(gate, expected)
                torch.testing.assert_close(gate.sum(), kinds[0] * shared + kinds[1] * routed)
                chosen.append([float(i in top) for i in range(6 - shared)])
                probabilities.append(p)
            load, mean = torch.tensor(chosen).mean(0), torch.stack(probabilities).mean(0)
            torch.testing.assert_close(balance, (6 - shared) * (load * mean).sum())

    def test_attention_with_zero_routers_and_all_heads_kept_is_plain_attention(self):
        from models import Attention, Routing

        torch.manual_seed(3)
        plain = Attention(16, 4, 4, causal=True, bias=True)
        routed = Attention(16, 4, 4, causal=True, bias=True, routing=Routing(2, 2))
        routed.load_state_dict(plain.state_dict(), strict=False)
        for weight in routed.router.parameters():
            torch.nn.init.zeros_(weight)
        x = torch.randn(2, 7, 16)
        y, balance = routed(x)
        torch.testing.assert_close(y, plain(x)[0])
        self.assertAlmostEqual(balance.item(), 2.0, places=5)  # K

    def test_the_model_computes_the_loss_of_moh(self):
        for moh_overrides in ((), MOH_OVERRIDES, ("model.tied_embeddings=true",)):
            with self.subTest(moh_overrides):
                self.compare_losses(moh_overrides)

    def compare_losses(self, overrides):
        from models import Llama

        config = resolved(*overrides)
        text = b"Of many heads a token keeps a few."
        (self.folder / "text").write_bytes(text * 4)
        (self.folder / "held_out").write_bytes(text[:17])
        out = self.folder / f"run{len(list(self.folder.iterdir()))}"
        settings = ["model.layers=2", "model.hidden=32", "model.intermediate=48", "model.heads=4",
                    "data.sequence_length=16", f"data.train={self.folder / 'text'}",
                    f"data.validation={self.folder / 'held_out'}", "train.steps=2", "train.batch_size=2",
                    f"output.dir={out}", "threads=1", "sample.tokens=0", "optim.learning_rate=0.01",
                    "schedule.warmup_steps=0", *overrides]
        done = subprocess.run([MOH, "train", "configs/bench/llama_384.yaml", *settings], capture_output=True, text=True,
                              cwd=SOURCE, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        metrics = [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]
        expected = [record["loss"] for record in metrics if record["kind"] == "eval"][-1]
        model = Llama({**config["model"], "moh": {**config["model"]["moh"], "balance_weight": 0.0}})
        load_moh_weights(model, next(out.glob("checkpoints/*/model.safetensors")))
        ids = torch.tensor(list(text[:17]))[None]
        self.assertAlmostEqual(model(ids[:, :-1], ids[:, 1:]).item(), expected, places=5)


def read_safetensors(path):
    data = path.read_bytes()
    size = int.from_bytes(data[:8], "little")
    tensors = {}
    for name, entry in json.loads(data[8:8 + size]).items():
        if name == "__metadata__":
            continue
        assert entry["dtype"] == "F32", entry
        begin, end = (8 + size + offset for offset in entry["data_offsets"])
        tensors[name] = torch.tensor(array.array("f", data[begin:end])).reshape(entry["shape"])
    return tensors


def load_moh_weights(model, path):
    """Puts a checkpoint of moh into the PyTorch model, whose projections are fused."""
    weights = read_safetensors(path)
    fused = {"attention.qkv": ["self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"],
             "attention.proj": ["self_attn.o_proj"], "mlp.gate_up": ["mlp.gate_proj", "mlp.up_proj"],
             "mlp.down": ["mlp.down_proj"], "attention_norm": ["input_layernorm"],
             "mlp_norm": ["post_attention_layernorm"],
             **{f"attention.router.{name}": [f"self_attn.{name}"] for name in ("wg", "wg_0", "wg_1")}}
    state = {"embedding.weight": weights["model.embed_tokens.weight"], "norm.weight": weights["model.norm.weight"]}
    state["head.weight"] = weights.get("lm_head.weight", weights["model.embed_tokens.weight"])
    for i in range(len(model.layers)):
        for name, parts in fused.items():
            found = [weights[key] for key in (f"model.layers.{i}.{part}.weight" for part in parts) if key in weights]
            if found:
                state[f"layers.{i}.{name}.weight"] = torch.cat(found)
    model.load_state_dict(state)


@unittest.skipIf(torch is None, "no PyTorch")
class OptimizerTest(unittest.TestCase):
    OPTIM = {"learning_rate": 0.1, "betas": [0.9, 0.95], "eps": 1e-8, "weight_decay": 0.1, "clip_grad_norm": 1.0}

    def train(self, dtype):
        from models import Optimizer, place

        torch.manual_seed(5)
        module = place(torch.nn.Linear(8, 4), "cpu", dtype)
        with torch.no_grad():
            for weight in module.parameters():
                weight.copy_(weight.bfloat16())  # the same beginning for both
        optimizer = Optimizer(module, self.OPTIM)
        for step in range(5):
            optimizer.zero_grad()
            for i, weight in enumerate(module.parameters()):
                torch.manual_seed(100 * step + i)
                weight.grad = torch.randn(weight.shape).bfloat16().to(dtype)
            optimizer.step()
        return module, optimizer

    def test_bfloat16_weights_follow_float32_masters(self):
        plain, _ = self.train(torch.float32)
        mixed, optimizer = self.train(torch.bfloat16)
        for expected, found, master in zip(plain.parameters(), mixed.parameters(), optimizer.masters):
            torch.testing.assert_close(master, expected.detach())
            torch.testing.assert_close(found.detach(), expected.detach().bfloat16(), rtol=0, atol=0)


@unittest.skipIf(torch is None, "no PyTorch")
class WorkerTest(unittest.TestCase):
    def work(self, job):
        job = {"threads": 1, "warmups": 1, "repeats": 2, "device": "cpu", "dtype": "f32", **job}
        done = subprocess.run([sys.executable, "-B", WORKER, json.dumps(job)], capture_output=True, text=True,
                              check=False)
        return done.returncode, measure.json_objects(done.stdout)

    def test_step(self):
        for overrides in ((), MOH_OVERRIDES):
            code, (record,) = self.work({"work": "step", "compile": False, "config": resolved(*overrides)})
            self.assertEqual(code, 0, record)
            self.assertAlmostEqual(record["step_ms"], record["forward_ms"] + record["backward_ms"]
                                   + record["optimizer_ms"], delta=0.5 * record["step_ms"])
            self.assertAlmostEqual(record["first_loss"], math.log(256), delta=0.3)
            self.assertLess(record["import_rss_bytes"], record["peak_rss_bytes"])
            per_layer = 4 * 32 * 32 + 3 * 32 * 48 + 2 * 32 + (6 * 32 if overrides else 0)
            self.assertEqual(record["parameters"], 2 * per_layer + 2 * 256 * 32 + 32)

    def test_step_in_bfloat16(self):
        for overrides in ((), MOH_OVERRIDES):
            code, (record,) = self.work({"work": "step", "compile": False,
                                         "config": resolved("precision=bfloat16", *overrides)})
            self.assertEqual(code, 0, record)
            self.assertAlmostEqual(record["first_loss"], math.log(256), delta=0.3)

    @unittest.skipIf(torch is not None and torch.cuda.is_available(), "there is a GPU")
    def test_without_a_gpu(self):
        for work in ("versions", "attention"):
            code, (record,) = self.work({"work": work, "device": "cuda", "batch": 1, "heads": 1, "tokens": 4, "head_dim": 8})
            self.assertEqual(code, 1)
            self.assertIn("Error: ", record["error"])

    def test_attention_and_module(self):
        shape = {"batch": 1, "tokens": 32, "heads": 8, "head_dim": 16, "causal": True, "compile": False}
        code, (record,) = self.work({"work": "attention", **shape})
        self.assertEqual((code, record["kernel"]), (0, "FLASH_ATTENTION"))
        self.assertGreater(record["forward_backward_ms"], record["forward_ms"])
        for dtype in ("f32", "bf16"):
            code, records = self.work({"work": "module", "width": 32, "active": [1.0, 0.5], **shape, "dtype": dtype})
            self.assertEqual((code, [record["active"] for record in records]), (0, [1.0, 0.5]))

    def test_says_why_it_cannot(self):
        code, (record,) = self.work({"work": "step", "compile": False, "config": {}})
        self.assertEqual((code, record), (1, {"error": "KeyError: 'train'"}))


if __name__ == "__main__":
    if torch is None:
        print("moh test: without PyTorch, its models are not tested", file=sys.stderr)
    unittest.main()
