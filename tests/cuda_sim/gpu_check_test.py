"""scripts/gpu_check.sh on the simulated GPU, in a folder as scripts/bundle.sh makes it, at the smallest sizes: every part
runs, goes on after failures and stops, and ends up in the tables."""

import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

SOURCE = pathlib.Path(os.environ["MOH_SOURCE_DIR"])
PARTS = ["device", "tests", "modes", "losses", "processes", "step", "train", "step_images", "attention_causal", "attention_full",
         "attention_window", "ops_bf16", "module", "ops_f32", "memcheck", "racecheck", "synccheck", "pytorch"]

SIZES = """
test_filter='device: head lists*' sanitizer_filter='device: head lists*'
tiny=(model.layers=1 model.hidden=16 model.intermediate=16 model.head_dim=2 data.sequence_length=8 model.max_positions=8
  threads=1)
toolkits=() mode_steps=6 mode_settings=("${tiny[@]}" train.batch_size=1 schedule.warmup_steps=1)
loss_models=(tiny_shakespeare_dense tiny_shakespeare_moh_50) loss_steps=3 early_steps=2
loss_settings=("${tiny[@]}" train.batch_size=1 eval.max_tokens=16)
models=(llm_s moh_llm_s_50) model_settings=("${tiny[@]}" model.vocab_size=256 train.batch_size=1 train.accumulate=1)
image_models=(tiny tiny_moh) image_settings=(train.batch_size=1 threads=1)
window_sizes=(16:2:2 36:1:4) window_shape=(--pooled 4 --head-dim 24 --repeats 1)
bench_steps=2 train_steps=12 train_settings=(schedule.warmup_steps=1 optim.learning_rate=0.01)
attention_lengths=(8:2 12:1) attention_shape=(--heads 4 --kv-heads 2 --head-dim 16 --repeats 1)
module_lengths=(8:1) module_shape=(--width 32 --heads 4 --head-dim 16 --repeats 1) shares=1.0,0.5
ops_options=(--megabytes 1 --seconds 1e-9 --repeats 1 --only add,scale)
pytorch_cases=(llm_step attention) pytorch_options=(--rounds 1 --masks causal --modes eager)
"""

TINY_CLASSIFIER = """
task: image_classification
model:
  architecture: transnext
  classes: 4
  image_size: 32
  transnext: {dims: [24, 48], heads: [1, 2], depths: [1, 1], mlp_ratios: [2, 2], pool_ratios: [4, 1]}
"""

SANITIZER = """#!/bin/sh
echo "$@" >> "$0.log"
while [ ! -x "$1" ]; do shift; done
exec "$@"
"""


# Stand-ins that answer to every case of scripts/bench_pytorch.py.
FAKE_MOH = f"""#!{sys.executable}
import json, sys
if "config" in sys.argv[1:2]:
    print("model:\\n  hidden: 8\\nprecision: bfloat16")
elif "--version" in sys.argv:
    print("0")
else:
    for active in (1.0,) if "step" in sys.argv else (0.5, 0.75):
        print(json.dumps({{"active": active, "forward_ms": 20.0, "forward_backward_ms": 60.0, "backward_ms": 40.0,
                          "optimizer_ms": 5.0, "step_ms": 100.0, "parameters": 7, "peak_bytes": {{"total": 1 << 20}}}}))
"""
FAKE_TORCH = f"""#!{sys.executable}
import json, sys
if sys.argv[1] == "-c":
    sys.exit(0)
if json.loads(sys.argv[-1])["work"] == "versions":
    print(json.dumps({{"python": "3", "torch": "9.9", "libraries": ["CUDA 13"], "capability": "sm_90", "gpu": "G", "driver": "D"}}))
else:
    for active in (1.0,) if json.loads(sys.argv[-1])["work"] == "step" else (0.5, 0.75, 1.0):
        print(json.dumps({{"active": active, "forward_ms": 40.0, "forward_backward_ms": 120.0, "backward_ms": 80.0,
                          "optimizer_ms": 10.0, "step_ms": 200.0, "parameters": 7, "peak_device_bytes": 2 << 20}}))
"""


def program(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)
    return path


class GpuCheck(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.bundle = pathlib.Path(folder.name) / "bundle"
        self.results = self.bundle / "runs" / "gpu_check"
        self.tools = pathlib.Path(folder.name) / "tools"
        self.tools.mkdir()
        (self.tools / "python3").symlink_to(sys.executable)
        program(self.tools / "ldconfig", "#!/bin/sh\n")
        self.libraries = self.folder_of_libraries("libraries", "libcublasLt.so.13", "libcudnn.so.9", "libnvrtc.so.13",
                                             "libcudart.so.13")
        shutil.copytree(SOURCE / "scripts", self.bundle / "scripts")
        shutil.copytree(SOURCE / "configs", self.bundle / "configs")
        (self.bundle / "moh").symlink_to(os.environ["MOH_SIM_BINARY"])
        (self.bundle / "cuda_tests").symlink_to(os.environ["SIM_TESTS_BINARY"])
        (self.bundle / "COMMIT").write_text("0123456789ab\n")
        (self.bundle / "text").write_text("To be, or not to be, that is the question. " * 50)
        (self.bundle / "sizes").write_text(SIZES)
        images = self.bundle / "scripts" / "gpu_check" / "images"
        (images / "tiny.yaml").write_text(TINY_CLASSIFIER)
        (images / "tiny_moh.yaml").write_text(TINY_CLASSIFIER + "  moh: {router: learned, num_shared: [1, 1], top_k: [0, 1]}\n")

    def folder_of_libraries(self, path, *names):
        folder = self.tools.parent / path
        folder.mkdir(parents=True)
        for name in names:
            (folder / name).touch()
        return folder

    def check(self, *arguments, code=0, **environment):
        own = {name: value for name, value in os.environ.items() if name not in ("MOH_BINARY", "TEST_BINARY")}
        own["PATH"] = f"{self.tools}:{os.environ['PATH']}"
        own["LD_LIBRARY_PATH"] = str(self.libraries)
        run = subprocess.run([self.bundle / "scripts" / "gpu_check.sh", "--sizes", self.bundle / "sizes", *arguments],
                             capture_output=True, text=True, errors="replace", env={**own, **environment})
        self.assertEqual(run.returncode, code, run.stdout + run.stderr)
        return run.stdout + run.stderr

    def status(self, part):
        return json.loads((self.results / f"{part}.json").read_text())

    def records(self, part):
        return [json.loads(line) for line in (self.results / f"{part}.jsonl").read_text().splitlines()]

    def change_sizes(self, text):
        with open(self.bundle / "sizes", "a") as file:
            file.write(text)

    def test_everything(self):
        program(self.tools / "compute-sanitizer", SANITIZER)
        program(self.tools / "nvidia-smi", "#!/bin/sh\n[ $1 = -L ] && echo 'GPU 0: simulated' && echo 'GPU 1: simulated'\n")
        output = self.check(MOH_SIM_GPUS="2")
        self.assertIn("all is well", output)
        for part in PARTS:
            self.assertEqual(self.status(part)["status"], "skipped" if part == "pytorch" else "passed", part)
        self.assertEqual([json.loads(line)["part"] for part in PARTS for line in
                          (self.results / f"{part}.json").read_text().splitlines()], PARTS)
        self.assertEqual(self.records("device")[0]["commit"], "0123456789ab")
        self.assertIn("All tests passed", self.records("tests")[0]["summary"])
        sanitized = (self.tools / "compute-sanitizer.log").read_text().splitlines()
        self.assertEqual([line.split(" " + str(self.bundle))[0] for line in sanitized],
                         ["--tool memcheck --error-exitcode 99 --report-api-errors no", "--tool racecheck --error-exitcode 99",
                          "--tool synccheck --error-exitcode 99"])
        self.assertIn("no cuDNN", self.records("device")[0]["dense_attention"])
        self.check_modes()
        losses = self.records("losses")
        self.assertEqual([(r["model"][17:], r["precision"], r["steps"], r["good"]) for r in losses],
                         [(m, p, 3, True) for m in ("dense", "moh_50") for p in ("float32", "bfloat16")])
        self.assertTrue(all(r["cpu_loss"] > 1 and r["early_difference"] < 0.02 for r in losses))
        self.assertLess(max(r["difference"] for r in losses if r["precision"] == "float32"), 1e-3)
        self.assertEqual([(r["config"].split("/")[-1], r["cuda_graph"], "profile" in r) for r in self.records("step")],
                         [(f"{model}.yaml", graph, not graph) for model in ("llm_s", "moh_llm_s_50") for graph in (False, True)])
        self.assertTrue(all(r["dtype"] == "bfloat16" for r in self.records("step")))
        for row in ("| llm_s |  | moh / moh | 1 x 8 |", "| moh_llm_s_50 | replayed | moh / moh | 1 x 8 |"):
            self.assertIn(row, (self.bundle / "gpu.md").read_text())
        self.assertEqual([(r["config"].split("/")[-1], r["cuda_graph"], r["image_size"]) for r in self.records("step_images")],
                         [(f"{model}.yaml", graph, 32) for model in ("tiny", "tiny_moh") for graph in (False, True)])
        self.assertEqual([(r["tokens"], r["batch"], r["heads"], r["pooled"], r["active"]) for r in self.records("attention_window")],
                         [(*size, 4, active) for size in ((16, 2, 2), (36, 1, 4)) for active in (1.0, 0.5)])
        self.assertEqual([(r["tokens"], r["batch"], r["op"], r["active"]) for r in self.records("attention_causal")],
                         [(t, b, *form) for t, b in ((8, 2), (12, 1)) for form in
                          (("attention", 1.0), ("head_sparse_attention", 1.0), ("head_sparse_attention", 0.5))])
        self.check_tables()
        began = {part: self.status(part) for part in PARTS[:-1]}
        self.assertIn("ops_f32: is in ", self.check())  # nothing runs twice
        self.assertEqual({part: self.status(part) for part in PARTS[:-1]}, began)
        self.assertIn("tests: passed", self.check("--again", "--only", "device,tests"))

    def check_modes(self):
        modes = self.records("modes")
        self.assertEqual([(r["mode"], r["reference"], r["expected"], r["steps"], r["good"]) for r in modes],
                         [(*names.split(), 6, True) for names in (
                             "moh_again moh same", "moh_graph moh same", "dense_again dense same", "dense_graph dense same",
                             "searched moh near", "read_back searched same", "read_back_graph searched same",
                             "tf32 float32 rounded")])
        self.assertEqual([(r["mode"], r["reference"], r["expected"], r["good"]) for r in self.records("processes")],
                         [(*names.split(), True) for names in (
                             "host_2 one_of_2 near", "nccl_2 one_of_2 near", "nccl_2_graph nccl_2 same")])
        differences = {r["mode"]: r["loss_difference"] for r in modes}
        self.assertGreater(differences["tf32"], 0)
        self.assertEqual({differences[r["mode"]] for r in modes if r["expected"] == "same"}, {0})

    def check_tables(self):
        text = (self.bundle / "gpu.md").read_text()
        for words in ("GPU: simulated GPU, compute capability 9.0", "commit 0123456789ab", "| tests | passed |",
                      "| tiny_shakespeare_moh_50 | bfloat16 | 3 |", "| yes | this machine |",
                      "## Modes of computing", "## Several processes", "| nccl_2 | one_of_2 | 6 |", "| moh_graph | moh | 6 | same bits | 0.00e+00 | 0.00e+00 | yes |",
                      "| tf32 | float32 | 6 | losses within 0.01, other bits |", "- dense attention in bfloat16: moh's kernels",
                      "| moh_llm_s_50 | replayed | moh / moh | 1 x 8 |", "## Steps of the language models", "| moh_llm_s_50 |  | moh / moh | 1 x 8 |",
                      "llm_s, share of the time by op", "| adamw |", "## Training", "| llm_s | 12 |", "## Attention, causal",
                      "| 12 | 1 | lists | 50.0% |", "## Attention, full", "## Steps of the image classifiers", "| tiny_moh | replayed | moh / moh | 1 x 32 |",
                      "tiny_moh, share of the time by op", "## Aggregated attention", "| 36 | 1 | lists | 50.0% |", "## Attention layers", "## Ops in bfloat16",
                      "| matmul peak |", "## Ops in float32", "| pytorch | skipped |"):
            self.assertIn(words, text)
        for line in text.splitlines():
            if line.startswith("|"):
                self.assertEqual(line[-1], "|")
        self.assertNotIn("Not run", text)

    def test_goes_on_after_a_failure(self):
        broken = program(self.bundle / "broken", "#!/bin/sh\necho '  a case: REQUIRE( false )'\nexit 3\n")
        output = self.check("--only", "device,tests,memcheck,ops_f32", code=1, TEST_BINARY=str(broken))
        self.assertEqual([self.status(part)["status"] for part in ("device", "tests", "memcheck", "ops_f32")],
                         ["passed", "failed", "skipped", "passed"])
        self.assertIn("failed: tests: of 1 tests, each alone, fail:   a case: REQUIRE( false )", output)
        self.assertIn("skipped: memcheck: compute-sanitizer was not found", output)
        self.assertIn("| tests | failed |", (self.bundle / "gpu.md").read_text())

    def test_after_a_failure_each_test_runs_alone(self):
        # One that breaks the process for those after it, one that fails by itself, one that never ends.
        broken = program(self.bundle / "broken", '''#!/bin/sh
            case "$*" in
              --list*) printf 'first, of two\\nsecond [2]\\nthird\\n'; exit 3 ;;
              'first\\, of two') [ "$MOH_CUDA_SYNC" = 1 ] && echo 'All tests passed' && exit ;;
              'second \\[2\\]') echo 'kernel fill: an illegal address' && exit 1 ;;
              third) exec sleep 60 ;;
            esac
            echo 'all is lost'; exit 3\n''')
        self.change_sizes("test_seconds=1\n")
        output = self.check("--only", "tests", code=1, TEST_BINARY=str(broken))
        self.assertIn("failed: tests: of 3 tests, each alone, fail: second [2]; third", output)
        self.assertEqual(self.records("tests")[1], {"alone": 3, "fail_alone": "second [2]; third"})
        log = (self.results / "tests.alone.log").read_text()
        self.assertIn("#### second [2]\n", log)
        self.assertIn("kernel fill: an illegal address", log)
        self.assertNotIn("first", log)

    def test_a_gpu_on_which_moh_fails_is_tested_all_the_same(self):
        wrong = self.moh_with_cases('''
            bench*attention*) echo "One GPU"; echo "error: kernel attention: an illegal address" >&2; exit 3 ;;
            train*) echo "error: cublasLt: no" >&2; exit 3 ;;''')
        output = self.check("--only", "device,tests", code=1, MOH_BINARY=wrong)
        self.assertIn("failed: device: error: cublasLt: no", output)
        self.assertEqual(self.status("tests")["status"], "passed")
        self.assertEqual([self.records("device")[0][key] for key in ("gpu", "dense_attention")], ["One GPU", "unknown"])
        self.assertIn("GPU: One GPU", (self.bundle / "gpu.md").read_text())

    def test_tests_that_were_skipped_have_not_passed(self):
        for line, said in (("moh test skipped: no GPU", "tests were skipped"),
                           ("moh test left out: conv: no cuDNN", "cases were left out")):
            tests = program(self.bundle / "tests_here", f"#!/bin/sh\necho '{line}'\necho 'All tests passed'\n")
            self.assertIn(said, self.check("--only", "device,tests", code=1, TEST_BINARY=str(tests)))
            shutil.rmtree(self.results)  # a part that has failed is not run again

    def test_losses_beyond_the_tolerance_fail(self):
        self.change_sizes("loss_models=(tiny_shakespeare_dense) early_tolerance_bfloat16=1e-9\n")
        output = self.check("--only", "device,losses", code=1)
        self.assertIn("more than the tolerance: tiny_shakespeare_dense/bfloat16", output)
        self.assertEqual([r["good"] for r in self.records("losses")], [True, False])

    def moh_with_cases(self, cases):
        """The program, after a shell's `case` that sees its arguments."""
        return str(program(self.bundle / "wrong", f'''#!/bin/sh
            case "$*" in {cases} esac
            exec {os.environ["MOH_SIM_BINARY"]} "$@"\n'''))

    def test_modes_that_differ_fail(self):
        # Captured steps that compute something else, steps that are not captured, TF32 that changes nothing, a search that fails.
        wrong = self.moh_with_cases('''
            *dense*cuda_graph=true*) set -- "$@" seed=5 ;;
            *tf32=true*) set -- "$@" tf32=false ;;
            *modes.moh_graph*) set -- "$@" cuda_graph=false ;;
            *modes.searched*) echo "error: no algorithm" >&2; exit 3 ;;''')
        output = self.check("--only", "modes", code=1, MOH_BINARY=wrong)
        self.assertIn("failed: modes: not as expected: moh_graph moh, dense_graph dense, searched moh, read_back searched, "
                      "read_back_graph searched, tf32 float32", output)
        self.assertIn("moh_graph: the step was not captured", (self.results / "modes.log").read_text())
        found = {r["mode"]: r for r in self.records("modes")}
        self.assertGreater(found["dense_graph"]["loss_difference"], 0)
        self.assertEqual(found["tf32"]["norm_difference"], 0)
        self.assertEqual([mode for mode, r in found.items() if r["good"]], ["moh_again", "dense_again"])
        self.assertIn("| searched | moh | 6 | losses within 0.01 | did not run to the end |  | **no** |",
                      (self.bundle / "gpu.md").read_text())

    def test_algorithms_that_change_when_they_are_read_fail(self):
        wrong = self.moh_with_cases(f'''*modes.read_back_graph*)
            {os.environ["MOH_SIM_BINARY"]} "$@" && echo more >> {self.results}/modes.algorithms; exit ;;''')
        self.assertIn("not as expected: the file of algorithms", self.check("--only", "modes", code=1, MOH_BINARY=wrong))

    def test_the_losses_of_the_cpu_may_be_made_elsewhere(self):
        losses = self.bundle / "cpu_losses.jsonl"  # where a bundle has it
        self.change_sizes("loss_models=(tiny_shakespeare_dense)\n")
        self.check("--make-cpu-losses", losses)
        self.assertEqual([json.loads(line).get("kind") for line in losses.read_text().splitlines()[:4]], [None] + ["train"] * 3)
        self.assertFalse(self.results.exists())
        self.assertNotIn("training on the CPU", self.check("--only", "losses"))
        self.assertNotIn("device=cpu", (self.results / "losses.log").read_text())
        made = json.loads(losses.read_text().splitlines()[0])["made"]
        self.assertRegex(made, "^20..-..-.. on ")
        self.assertEqual([(r["cpu_losses"], r["good"]) for r in self.records("losses")], [(made, True)] * 2)
        # Not with another text, or another configuration.
        text = self.bundle / "other"
        text.write_text("Other words, as many as are needed. " * 50)
        self.check_trains_on_the_cpu("--text", text)
        self.change_sizes('loss_settings+=(seed=3)\n')
        self.check_trains_on_the_cpu("--cpu-losses", losses)

    def check_trains_on_the_cpu(self, *arguments):
        self.assertIn("has none of tiny_shakespeare_dense with this configuration, text and program: training on the CPU",
                      self.check("--only", "losses", "--again", *arguments))
        self.assertEqual({r["cpu_losses"] for r in self.records("losses")}, {"this machine"})

    def test_libraries_are_looked_up_one_by_one(self):
        self.libraries = self.folder_of_libraries("own", "libnvrtc.so.13")
        system = self.tools.parent / "system"
        program(self.tools / "ldconfig", f"#!/bin/sh\necho '\tlibcublasLt.so.13 (libc6,x86-64) => {system}/libcublasLt.so.13'\n")
        toolkit = self.folder_of_libraries("cuda-13.9/lib64", "libcudart.so.13", "libcublasLt.so.13")
        package = self.folder_of_libraries("venv/lib/python3.9/site-packages/nvidia/cudnn/lib", "libcudnn.so.9")
        self.change_sizes(f"toolkits=({toolkit.parent})\n")
        spy = self.moh_with_cases(f'*) echo "$LD_LIBRARY_PATH $CUDNN_FRONTEND_CUDART_LIB_NAME" > {self.bundle}/seen ;;')
        output = self.check("--only", "device", "--pytorch", self.tools.parent / "venv", MOH_BINARY=spy)
        found = [f"libcublasLt.so.13: {system}/libcublasLt.so.13", f"libcudnn.so.9: {package}/libcudnn.so.9",
                 f"libnvrtc.so.13: {self.libraries}/libnvrtc.so.13", f"libcudart.so.13: {toolkit}/libcudart.so.13",
                 "libnccl.so.2: not found"]
        self.assertEqual(self.records("device")[0]["libraries"], found)
        for line in found:
            self.assertIn(f"== {line}\n", output)
        self.assertEqual((self.bundle / "seen").read_text(), f"{self.libraries}:{package}:{toolkit} libcudart.so.13\n")

    def test_libraries_that_are_missing(self):
        (self.tools / "python3").unlink()  # with whatever packages it has
        program(self.tools / "python3", f'#!/bin/sh\n[ "$1" = -c ] && exit 1\nexec {sys.executable} "$@"\n')
        self.libraries = self.folder_of_libraries("own", "libcublasLt.so.13")
        self.assertIn("== libcudnn.so.9: not found", self.check("--only", "device"))  # moh's own kernels do
        self.libraries = self.folder_of_libraries("none")
        self.assertIn("libcublasLt.so.13 was found neither by", self.check("--only", "device", "--again", code=1))

    def test_training_that_does_not_learn_fails(self):
        self.change_sizes("models=(llm_s) train_steps=2\n"
                          "train_settings=(optim.learning_rate=10 schedule.warmup_steps=0 schedule.min_learning_rate=0)\n")
        self.assertIn("llm_s: the loss does not fall in 2 steps", self.check("--only", "device,train", code=1))

    def test_what_a_part_had_finished_when_it_was_cut_off_stays(self):
        slow = program(self.bundle / "slow", f'''#!/bin/sh
            case "$*" in *"--tokens 12"*) exec sleep 60 ;; esac
            exec {os.environ["MOH_SIM_BINARY"]} "$@"\n''')
        self.check("--only", "attention_full", "--budget", "6", code=75, MOH_BINARY=str(slow))
        self.assertEqual([r["tokens"] for r in self.records("attention_full")], [8] * 3)
        before = self.records("attention_full")
        self.assertIn("| 8 | 2 | dense |", (self.bundle / "gpu.md").read_text())
        self.check("--only", "attention_full")
        self.assertEqual(self.records("attention_full")[:3], before)  # the very same numbers
        self.assertEqual([r["tokens"] for r in self.records("attention_full")[3:]], [12] * 3)

    def test_beside_pytorch(self):
        moh = program(self.bundle / "fake_moh", FAKE_MOH)
        python = program(self.bundle / "venv" / "bin" / "python", FAKE_TORCH)
        self.check("--only", "pytorch", "--pytorch", python.parents[1], MOH_BINARY=str(moh))
        text = (self.bundle / "gpu.md").read_text()
        for words in ("## Beside PyTorch", "PyTorch 9.9 (CUDA 13).", "### llm_step", "### attention",
                      "| LLM-S, T 2048, batch 8 | 4 | step | moh dense | 100.00 | PyTorch dense, eager | 200.00 | **2.00**"):
            self.assertIn(words, text)

    def test_a_budget_cuts_a_part_off_and_the_next_call_goes_on(self):
        slow = program(self.bundle / "slow", "#!/bin/sh\nexec sleep 60\n")
        output = self.check("--only", "tests,ops_f32", "--budget", "2", code=75, TEST_BINARY=str(slow))
        self.assertIn("left for the next call: ops_f32 tests", output)
        self.assertEqual(self.status("tests")["status"], "cut off")
        self.assertIn("Not run: ", (self.bundle / "gpu.md").read_text())
        self.check("--only", "tests,ops_f32", "--budget", "1000")
        self.assertEqual(self.status("tests")["status"], "passed")

    def test_without_a_gpu(self):
        moh = program(self.bundle / "no_gpu", "#!/bin/sh\necho 'error: device: cuda:0: expected a CUDA GPU' >&2\nexit 2\n")
        self.assertIn("there is no GPU to check: error: device: cuda:0: expected a CUDA GPU",
                      self.check(code=1, MOH_BINARY=str(moh)))
        self.assertFalse((self.results / "tests.json").exists())
        self.assertIn("device: passed", self.check("--only", "device"))  # the next call finds one

    def test_without_python_the_results_are_there(self):
        (self.tools / "python3").unlink()
        program(self.tools / "python3", "#!/bin/sh\nexit 127\n")
        self.assertIn("no tables: they need Python 3", self.check("--only", "device", code=1))
        self.assertEqual(self.status("device")["status"], "passed")
        subprocess.run([sys.executable, "-B", self.bundle / "scripts/gpu_check/report.py", self.results, "--out",
                        self.bundle / "later.md"], check=True)
        self.assertIn("simulated GPU", (self.bundle / "later.md").read_text())

    def make_bundle(self, *arguments):
        own = {**os.environ, "PATH": f"{self.tools}:{os.environ['PATH']}", "MOH_SKIP_SETUP": "1"}
        return subprocess.run([self.bundle / "scripts" / "bundle.sh", *arguments], capture_output=True, text=True, env=own)

    def test_a_bundle_is_configured_afresh_and_needs_cudnn_unless_told(self):
        cmake = program(self.tools / "cmake", '#!/bin/sh\necho "$@" >> "$0.log"\nexit 1\n')
        for arguments in ([], ["--without-cudnn"]):
            self.assertIn("error: cmake failed", self.make_bundle(*arguments).stderr)
        self.assertEqual(cmake.with_name("cmake.log").read_text().splitlines(),
                         [f"--preset bundle --fresh -DMOH_BUILD_TESTS=ON -DMOH_CUDNN={value}" for value in ("ON", "OFF")])
        for arguments, message in ((["--cpu-losses", "/nothing"], "--cpu-losses: expected a file, found '/nothing'"),
                                   (["--cpu-losses"], "--cpu-losses: expected a file, found ''"),
                                   (["--fast"], "unknown option '--fast'"), (["a", "b"], "expected one folder, found 'a' and 'b'")):
            run = self.make_bundle(*arguments)
            self.assertEqual((run.returncode, run.stderr.split(": ", 2)[:2]), (2, ["error", "bundle"]))
            self.assertIn(message, run.stderr)

    def test_mistakes_of_the_command_line(self):
        for arguments, message in ((["--only", "speed"], "--only: expected some of device tests"),
                                   (["--budget", "soon"], "--budget: expected seconds, found 'soon'"),
                                   (["--out"], "--out: expected a value"), (["--fast"], "unknown option '--fast'"),
                                   (["--text", "/nothing"], "--text: expected a file or folder"),
                                   (["--cpu-losses", "/nothing"], "--cpu-losses: expected a file")):
            self.assertIn(message, self.check(*arguments, code=2))
        self.assertIn("Exit codes:", self.check("--help"))
        (self.bundle / "moh").unlink()
        self.assertIn("expected a program at", self.check(code=2))


if __name__ == "__main__":
    unittest.main()
