"""A folder as scripts/bundle.sh makes it, with the programs of the simulated GPU, at the smallest sizes."""

import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

SOURCE = pathlib.Path(os.environ["MOH_SOURCE_DIR"])
PARTS = ["device", "first", "step", "attention_causal", "attention_full", "kernels", "tests", "memcheck", "modes", "losses", "processes",
         "train", "step_images", "attention_window", "ops_bf16", "module", "ops_f32", "memcheck_all", "racecheck", "synccheck",
         "pytorch"]

SIZES = """
head_widths=(16 24) memcheck_widths=(16) test_filter='device: head lists*' sanitizer_filter='device: head lists*'
tiny=(model.layers=1 model.hidden=16 model.intermediate=16 model.head_dim=2 data.sequence_length=8 model.max_positions=8
  threads=1)
toolkits=() mode_steps=6 mode_settings=("${tiny[@]}" train.batch_size=1 schedule.warmup_steps=1)
loss_models=(tiny_shakespeare_dense tiny_shakespeare_moh_50) loss_steps=3 early_steps=2
loss_settings=("${tiny[@]}" train.batch_size=1 eval.max_tokens=16)
models=(llm_s moh_llm_s_50) model_settings=("${tiny[@]}" model.vocab_size=256 train.batch_size=1 train.accumulate=1)
for case in tiny tiny_moh; do
  case_config[$case]=scripts/gpu_check/images/$case.yaml case_settings[$case]='train.batch_size=1 threads=1'
done
for case in llm_s moh_llm_s_50 llm_b moh_llm_b_50; do
  case_settings[$case]="${model_settings[*]}"
done
step_cases=(llm_s moh_llm_s_50) image_cases=(tiny tiny_moh) kernel_cases=(llm_b moh_llm_b_50) kernel_steps=1
window_sizes=(16:2:2 36:1:4) window_shape=(--pooled 4 --head-dim 24 --repeats 1)
bench_steps=2 train_steps=12 train_settings=(schedule.warmup_steps=1 optim.learning_rate=0.01)
attention_lengths=(8:2 12:1) attention_shape=(--heads 4 --kv-heads 2 --head-dim 16) attention_repeats=1
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


def program(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)
    return path


class BundleCase(unittest.TestCase):
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
        # Scripts, as each call adds up a checksum of both.
        program(self.bundle / "moh", f'#!/bin/sh\nexec {os.environ["MOH_SIM_BINARY"]} "$@"\n')
        program(self.bundle / "cuda_tests", f'#!/bin/sh\nexec {os.environ["SIM_TESTS_BINARY"]} "$@"\n')
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

    def moh_with_cases(self, cases):
        """The program, after a shell's `case` that sees its arguments."""
        return str(program(self.bundle / "wrong", f'''#!/bin/sh
            case "$*" in {cases} esac
            exec {os.environ["MOH_SIM_BINARY"]} "$@"\n'''))
