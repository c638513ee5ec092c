"""scripts/bundle.sh: what goes into a bundle, and that it is not too large. The program is a stand-in; with MOH_CUDA_BUILD, a build with a
CUDA toolkit, that build's is weighed instead, whose device code and libraries are those of a bundle."""

import os
import pathlib
import shutil
import subprocess
import tarfile
import tempfile
import unittest

SOURCE = pathlib.Path(os.environ["MOH_SOURCE_DIR"])
CUDA_BUILD = os.environ.get("MOH_CUDA_BUILD")
LIMIT = 45_000_000


class WithBundle(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.bundle = pathlib.Path(folder.name) / "moh-bundle"

    def make(self, build, code=0):
        run = subprocess.run([SOURCE / "scripts" / "bundle.sh", "--from", build, "--without-cpu-losses", self.bundle],
                             capture_output=True, text=True, env={**os.environ, "XZ_OPT": "-0"})  # quickly
        self.assertEqual(run.returncode, code, run.stdout + run.stderr)
        return run.stdout + run.stderr


@unittest.skipIf(CUDA_BUILD, "of a stand-in")
class Bundle(WithBundle):
    def setUp(self):
        super().setUp()
        self.build = self.bundle.parent / "build"
        (self.build / "tests" / "cuda_sim").mkdir(parents=True)
        self.program = self.build / "tests" / "cuda_sim" / "moh_with_tests"
        shutil.copy(os.environ["MOH_BINARY"], self.program)
        subprocess.run(["objcopy", "--remove-section", ".nv_fatbin", self.program], check=True)  # of a build with CUDA

    def add_device_code(self, size):
        code = self.build / "code"
        code.write_bytes(bytes(size))
        subprocess.run(["objcopy", "--add-section", f".nv_fatbin={code}", self.program], check=True)

    def test_contents(self):
        self.add_device_code(3_200_000)
        output = self.make(self.build)
        self.assertIn("== device code in moh: 3.2 MB\n", output)
        self.assertRegex(output, r"(?m)^ +\d+\.\d MB moh\n")
        self.assertEqual({path.name for path in self.bundle.iterdir()},
                         {"moh", "cuda_tests", "lib", "configs", "scripts", "text", "COMMIT", "gpu_hour.md"})
        self.assertIn("Usage: moh", subprocess.check_output([self.bundle / "moh", "--help"], text=True))
        # The tests are a command of the program that has them; this one does not know it.
        tests = subprocess.run([self.bundle / "cuda_tests", "--help"], capture_output=True, text=True)
        self.assertIn("cuda_tests", tests.stderr)
        libraries = [path.name for path in (self.bundle / "lib").iterdir()]
        self.assertTrue(any(name.startswith("libstdc++") for name in libraries))
        # Neither the C library, which has to match the other machine's, nor anything for https, which nothing here speaks.
        self.assertFalse([name for name in libraries if name.startswith(("libc.", "libm.", "libssl", "libcrypto"))])
        with tarfile.open(f"{self.bundle}.tar.xz") as archive:
            self.assertIn("moh-bundle/scripts/gpu_check.sh", archive.getnames())
        self.assertEqual(list(self.bundle.parent.glob("*.new")), [])

    def test_what_is_too_large_is_refused(self):
        self.add_device_code(LIMIT)
        output = self.make(self.build, code=1)
        self.assertRegex(output, r"expected at most 45\.0 MB, found \d+\.\d MB; what is in it is listed above")
        self.assertRegex(output, r"(?m)^ +\d+\.\d MB moh\n")
        self.assertFalse(self.bundle.exists())

    def test_programs_that_are_missing(self):
        self.program.unlink()
        self.assertIn(f"expected a program at {self.program}; it is built with CUDA", self.make(self.build, code=1))


@unittest.skipUnless(CUDA_BUILD, "a build without CUDA has no device code to weigh")
class CudaBuild(WithBundle):
    def test_the_program_is_small_enough(self):
        print(self.make(CUDA_BUILD))
        tests = subprocess.run([self.bundle / "cuda_tests", "--list-test-names-only"], capture_output=True, text=True).stdout
        self.assertIn("device: attention of each head width", tests)
        self.assertIn("moh ", subprocess.check_output([self.bundle / "moh", "--version"], text=True))


if __name__ == "__main__":
    unittest.main()
