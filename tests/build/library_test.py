"""The installed library: a project elsewhere finds it, builds an example against it, and runs that."""

import os
import pathlib
import re
import shutil
import subprocess
import tempfile
import unittest

SOURCE_DIR = pathlib.Path(os.environ["MOH_SOURCE_DIR"])
BUILD_DIR = pathlib.Path(os.environ["MOH_BUILD_DIR"])


def run(*command):
    result = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if result.returncode:
        raise AssertionError(f"{' '.join(map(str, command))}\n{result.stdout}")
    return result.stdout


class Library(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.elsewhere = pathlib.Path(folder.name)
        cls.prefix = cls.elsewhere / "prefix"
        run("cmake", "--install", BUILD_DIR, "--prefix", cls.prefix, "--component", "library")

    def test_an_example_builds_against_it(self):
        project, build = self.elsewhere / "project", self.elsewhere / "build"
        shutil.copytree(SOURCE_DIR / "examples", project)
        # The project has headers of the names that ours have; neither side takes the other's.
        (self.elsewhere / "own/core").mkdir(parents=True)
        (self.elsewhere / "own/core/tensor.h").write_text("#error a header of the project\n")
        run("cmake", "-G", "Ninja", "-S", project, "-B", build, f"-DCMAKE_PREFIX_PATH={self.prefix}", "-DCMAKE_BUILD_TYPE=Release",
            f"-DCMAKE_CXX_FLAGS=-Wall -Wextra -Werror -I{self.elsewhere / 'own'}")
        run("cmake", "--build", build, "--target", "mlp")
        self.assertIn("gradients agree", run(build / "mlp"))

    def test_the_archive_lacks_nothing_of_moh(self):
        archive, = self.prefix.glob("lib/**/libmoh.a")
        symbols = re.findall(r"^[\da-f ]{16,} ([A-Za-z]) (\S*3moh\S*)$", run("nm", archive), re.MULTILINE)
        defined = {name for kind, name in symbols if kind not in "Uw"}
        self.assertGreater(len(defined), 1000)
        self.assertEqual(sorted({name for kind, name in symbols if kind == "U"} - defined), [])


if __name__ == "__main__":
    unittest.main()
