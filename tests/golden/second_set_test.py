"""The golden tests pass on a second set of files, with other sizes, names and counts (second_set/make.py): they take
everything from the files."""

import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1] / "support"))
import python_packages  # noqa: E402

python_packages.require("torch", "numpy")
MAKE = pathlib.Path(__file__).resolve().parent / "second_set/make.py"
# Every kind of case, and how many the set has.
COUNTS = {"dit_model": 2, "dit_model_dense": 1, "dit_moh_attention": 3, "dit_schedule": 1, "ema": 1, "llama_model": 1,
          "llama_moh_attention": 1, "losses": 1, "lr_schedule": 1, "moh_router_edges": 1, "optim_adamw": 1,
          "torch_expected": 1, "transnext_attention": 3, "transnext_model": 2, "transnext_relpos": 1}


class SecondSet(unittest.TestCase):
    def run_tests(self, program, shared):
        result = subprocess.run([os.environ[program], "*golden: *"], env={**os.environ, "MOH_SHARED": str(shared)},
                                stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace", check=False)
        self.assertEqual(result.returncode, 0, result.stdout)
        return result.stdout

    def test_all_of_it_passes(self):
        with tempfile.TemporaryDirectory() as folder:
            subprocess.run([sys.executable, "-B", MAKE, folder], check=True)
            golden = pathlib.Path(folder) / "golden"
            said = self.run_tests("MOH_GOLDEN_TESTS", folder)
            for kind, count in COUNTS.items():
                self.assertIn(f"golden: {kind}: {count} in {golden}\n", said)
            for name, count in (("hf_folder", 1), ("hf_folder/in_three", 1)):
                self.assertIn(f"golden: {golden / name}: {count} references\n", said)
            self.assertIn(f"golden: weights of {golden}/larger_training.safetensors: {golden}/torch_checkpoints/vision_run.pth\n",
                          said)
            said = self.run_tests("MOH_WEIGHTS_TESTS", folder)
            self.assertIn(f"golden: torch files: 4 in {golden}\n", said)


if __name__ == "__main__":
    python_packages.main()
