"""Objects of op_case_tests, which are linked with the simulated GPU, too, include no header that the simulator replaces."""

import os
import pathlib
import subprocess
import unittest

BUILD_DIR = pathlib.Path(os.environ["MOH_BUILD_DIR"])
SIMULATOR = pathlib.Path(os.environ["MOH_SOURCE_DIR"], "tests/cuda_sim/include")


def ninja(tool, *arguments):
    return subprocess.run(["ninja", "-C", BUILD_DIR, "-t", tool, *arguments], check=True, capture_output=True, text=True).stdout


class SimHeaders(unittest.TestCase):
    def test_shared_objects_are_the_same_with_the_simulator(self):
        replaced = ["/" + str(path.relative_to(SIMULATOR)) for path in SIMULATOR.rglob("*.h")]
        self.assertIn("/ops/device/kernel.h", replaced)
        inputs = ninja("query", "tests/cuda_sim/sim_tests").split()
        shared = [path for path in inputs if "/op_case_tests.dir/" in path and path.endswith(".o")]  # of batches, or of files
        self.assertGreater(len(shared), 5)
        lines = ninja("deps", *shared).splitlines()
        self.assertGreater(len(lines), 20 * len(shared))
        self.assertEqual([line for line in lines if line.endswith(tuple(replaced))], [])


if __name__ == "__main__":
    unittest.main()
