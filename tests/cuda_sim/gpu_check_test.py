"""scripts/gpu_check.sh on the simulated GPU, in a folder as scripts/bundle.sh makes it, at the smallest sizes: what becomes of failures, limits,
other programs and missing ones. gpu_hour_test.py runs every part."""

import json
import os
import shutil
import subprocess
import sys
import unittest

from bundle_case import BundleCase, program


# Stand-ins that answer to every case of scripts/bench_pytorch.py.
FAKE_MOH = f"""#!{sys.executable}
import json, sys
if "config" in sys.argv[1:2]:
    print("model:\\n  hidden: 8\\nprecision: bfloat16")
elif "--version" in sys.argv:
    print("0")
else:
    for active in (1.0,) if "step" in sys.argv else (0.5, 0.75):
        print(json.dumps({{"op": "attention", "active": active, "forward_ms": 20.0, "forward_backward_ms": 60.0, "backward_ms": 40.0,
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


class GpuCheck(BundleCase):
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
        self.assertEqual(self.records("tests")[1], {"alone": 3, "left": 0, "fail_alone": "second [2]; third"})
        log = (self.results / "tests.alone.log").read_text()
        self.assertIn("#### second [2]\n", log)
        self.assertIn("kernel fill: an illegal address", log)
        self.assertNotIn("first", log)

    def test_the_first_part_goes_on_whatever_it_finds(self):
        broken = program(self.bundle / "broken", '''#!/bin/sh
            case "$*" in
              *primitives*) echo 'kernel mma: an illegal instruction'; exit 1 ;;
              *"width 16") exec sleep 60 ;;
              *"width 24") echo 'All tests passed (4 assertions in 1 test case)' ;;
              *) echo 'No test cases matched' ;;
            esac\n''')
        wrong = self.moh_with_cases('train*cuda_graph=true*) echo "error: a capture" >&2; exit 3 ;;')
        self.change_sizes("attempt_seconds=1 head_widths=(16 24 32)\n")
        output = self.check("--only", "first", code=1, TEST_BINARY=str(broken), MOH_BINARY=wrong)
        versions, *attempts = self.records("first")
        self.assertEqual(set(versions["versions"]), {"libcublasLt.so.13", "libcudnn.so.9", "libnvrtc.so.13", "libcudart.so.13",
                                                     "libnccl.so.2"})
        self.assertEqual([(r["check"], r["result"], r["says"].split(" timeout")[0]) for r in attempts if "step" not in r["check"]],
                         [("device primitives", "failed", "kernel mma: an illegal instruction"),
                          ("attention, head width 16", "hung", "$"),  # the command, which printed nothing
                          ("attention, head width 24", "passed", ""), ("attention, head width 32", "failed", "No test cases matched")])
        self.assertEqual([(r["check"], r["result"]) for r in attempts if r["check"] == "captured steps"], [("captured steps", "failed")])
        self.assertIn("failed: first: not as expected: device primitives (failed), attention, head width 16 (hung)", output)
        self.assertIn("| attention, head width 16 | hung |", (self.bundle / "gpu.md").read_text())
        # Steps that are not captured, but succeed.
        wrong = self.moh_with_cases('train*cuda_graph=true*) set -- "$@" cuda_graph=false ;;')
        self.change_sizes("attempt_seconds=20 head_widths=()\n")
        self.check("--only", "first", code=1, TEST_BINARY=str(broken), MOH_BINARY=wrong)
        self.assertEqual([(r["result"], r["says"]) for r in self.records("first") if "step" in r.get("check", "")],
                         [("passed", ""), ("failed", "expected to read: the step is captured")])
        self.change_sizes("first_seconds=0\n")
        self.check("--only", "first", "--again", code=1)
        self.assertEqual({r["result"] for r in self.records("first") if "check" in r}, {"not tried"})

    def test_after_a_failure_tests_before_it_are_not_repeated_and_those_beyond_the_limit_are_left(self):
        # Catch2's output of a process whose second test is broken; alone, each takes a second.
        name = "device: a test with a name that is longer than a line of Catch2's output has columns"
        broken = program(self.bundle / "broken", f'''#!/bin/sh
            rule=-------------------------------------------------------------------------------
            case "$*" in
              --list*) printf '%s\\n' 'device: sound' "{name}" 'device: third' 'device: fourth' ;;
              *durations*) printf '%s\\n' '0.1 s: device: sound' $rule "{name[:70]}" '  {name[71:]}' $rule "0.2 s: {name}" $rule \\
                'device: third' $rule '0.1 s: device: third' '0.1 s: device: fourth' 'test cases: 4 | 2 passed | 2 failed'; exit 2 ;;
              *) sleep 1; echo 'All tests passed' ;;
            esac\n''')
        self.change_sizes("alone_seconds=1\n")
        output = self.check("--only", "tests,ops_f32", code=1, TEST_BINARY=str(broken))
        self.assertIn("of 1 tests, each alone, fail: none", output)
        self.assertIn("2 are left for the next call", output)
        self.assertIn("left for the next call: tests", output)
        self.assertEqual(self.records("tests")[1], {"alone": 1, "left": 2, "fail_alone": ""})
        self.assertEqual((self.results / "tests.alone.piece").read_text(), f"passed {name}\n")
        self.change_sizes("alone_seconds=60\n")
        self.check("--only", "tests,ops_f32", code=1, TEST_BINARY=str(broken))
        self.assertEqual(self.records("tests")[1], {"alone": 3, "left": 0, "fail_alone": ""})
        output = self.check("--only", "tests", code=1, TEST_BINARY=str(broken))
        self.assertIn("tests: is in ", output)

    def test_results_of_other_programs_are_moved_aside(self):
        self.check("--only", "ops_f32")
        old = (self.results / "ops_f32.jsonl").read_text()
        mended = self.moh_with_cases("nothing) ;;")
        output = self.check("--only", "ops_f32", MOH_BINARY=mended)
        self.assertIn("the programs are others than those of the results", output)
        self.assertIn("ops_f32: passed", output)
        before, = self.results.glob("before_*")
        self.assertEqual((before / "ops_f32.jsonl").read_text(), old)
        self.assertTrue((before / "packed" / "ops_f32.tar.gz").exists())
        self.assertIn("ops_f32: is in ", self.check("--only", "ops_f32", MOH_BINARY=mended))

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
        # Made again, as for the next bundle of the same program, they are those that are there.
        again = self.bundle / "again.jsonl"
        self.assertNotIn("on the CPU", self.check("--cpu-losses", losses, "--make-cpu-losses", again))
        self.assertEqual(again.read_text(), losses.read_text())
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
        stuck = self.bundle / "stuck"
        stuck.touch()
        slow = self.moh_with_cases(f'''*"--tokens 12"*) [ ! -e {stuck} ] || exec sleep 60 ;;''')
        self.check("--only", "attention_full", "--budget", "6", code=75, MOH_BINARY=slow)
        self.assertEqual([r["tokens"] for r in self.records("attention_full")], [8] * 4)
        before = self.records("attention_full")
        self.assertIn("| 8 | 2 | dense |", (self.bundle / "gpu.md").read_text())
        stuck.unlink()
        self.check("--only", "attention_full", MOH_BINARY=slow)
        self.assertEqual(self.records("attention_full")[:4], before)  # the very same numbers
        self.assertEqual([r["tokens"] for r in self.records("attention_full")[4:]], [12] * 4)

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
        self.assertIn("left for the next call: tests ops_f32", output)
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
        for arguments, message in ((["--from", "/nothing"], "--from: expected a build folder, found '/nothing'"),
                                   (["--from"], "--from: expected a build folder, found ''"),
                                   (["--fast"], "unknown option '--fast'"), (["a", "b"], "expected one folder, found 'a' and 'b'")):
            run = self.make_bundle(*arguments)
            self.assertEqual((run.returncode, run.stderr.split(": ", 2)[:2]), (2, ["error", "bundle"]))
            self.assertIn(message, run.stderr)

    def test_mistakes_of_the_command_line(self):
        for arguments, message in ((["--only", "speed"], "--only: expected some of device first step"),
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
