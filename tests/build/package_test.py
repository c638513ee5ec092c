"""scripts/package.sh: a wheel and an archive that need nothing but the C library. The program of this build is linked once more, with its
libraries in it, and runs where a wheel and an archive were put."""

import base64
import filecmp
import hashlib
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest
import zipfile

SOURCE = pathlib.Path(os.environ["MOH_SOURCE_DIR"])
BUILD = pathlib.Path(os.environ["MOH_BUILD_DIR"])
sys.path.insert(0, str(SOURCE / "scripts"))

import make_wheel

C_LIBRARY = {"libc.so.6", "libm.so.6", "ld-linux-x86-64.so.2"}
SHORT = ("train.steps=2", "train.batch_size=2", "sample.tokens=5", "eval.every=0", "eval.max_tokens=512")


def run(*command, code=0, **options):
    result = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, **options)
    if result.returncode != code:
        raise AssertionError(f"{' '.join(map(str, command))}\n{result.stdout}")
    return result.stdout


def package(*arguments, code=0):
    """Quickly, and without looking for what is not installed."""
    environment = {**os.environ, "XZ_OPT": "-0", "MOH_SKIP_SETUP": "1"}
    return run(SOURCE / "scripts/package.sh", *arguments, code=code, env=environment)


class Package(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.folder = pathlib.Path(folder.name)
        cls.output = package("--from", BUILD, "--native", "--without-deb", "--output", cls.folder / "packages")
        (cls.wheel,) = (cls.folder / "packages").glob("moh-*.whl")
        (cls.archive,) = (cls.folder / "packages").glob("moh-*-linux-*.tar.xz")
        run("tar", "-C", cls.folder, "-xf", cls.archive)
        cls.tree = cls.folder / cls.archive.name.removesuffix(".tar.xz")

    def use(self, name, *command, path=""):
        """Runs the command in an empty folder, with an empty environment but for PATH."""
        folder = self.folder / name
        folder.mkdir(exist_ok=True)
        return run(*command, cwd=folder, env={"PATH": path, "HOME": str(folder)})

    def check_program(self, name, program, configs, path=""):
        """What a user tries first."""
        self.assertRegex(self.use(name, program, "--version", path=path), r"^moh \d+\.\d+\.\d+ \(commit ")
        self.assertIn("processor ", self.use(name, program, "doctor", path=path))
        self.assertIn("finished at step 2", self.use(name, program, "quickstart", "language", *SHORT, path=path))
        (self.folder / name / "text.txt").write_text("The quick brown fox jumps over the lazy dog. " * 2000)
        config = configs / "llm/quickstart.yaml"
        self.use(name, program, "train", config, "data.train=text.txt", "output.dir=run", "schedule.warmup_steps=0", *SHORT, path=path)
        self.assertTrue((self.folder / name / "run/metrics.jsonl").exists())

    def test_it_needs_the_c_library_alone(self):
        listing = run("readelf", "-d", self.tree / "bin/moh")
        self.assertLessEqual(set(re.findall(r"\(NEEDED\).*\[(.+)\]", listing)), C_LIBRARY)
        self.assertNotRegex(listing, "RPATH|RUNPATH")

    def test_the_archive_runs_where_it_was_unpacked(self):
        self.check_program("unpacked", self.tree / "bin/moh", self.tree / "share/moh/configs")
        self.assertTrue((self.tree / "share/man/man1/moh.1").exists())
        self.assertIn("MIT", (self.tree / "share/doc/moh/third_party/libyaml-cpp").read_text())

    def test_the_tag_is_that_of_the_newest_symbol(self):
        binaries = [self.tree / "bin/moh"]
        with zipfile.ZipFile(self.wheel) as archive:
            modules = [name for name in archive.namelist() if name.endswith(".so")]
            binaries += [archive.extract(name, self.folder / "modules") for name in modules]
        newest = max(int(minor) for binary in binaries for minor in re.findall(r"GLIBC_2\.(\d+)", run("objdump", "-T", binary)))
        if os.confstr("CS_GNU_LIBC_VERSION") == "glibc 2.36":
            self.assertLessEqual(newest, 35)  # as docs/install.md says, for systems older than the one that it was made on
        python = "cp{0}{1}-cp{0}{1}".format(*sys.version_info) if modules else "py3-none"
        tag = f"{python}-manylinux_2_{newest}_x86_64"
        self.assertTrue(self.wheel.name.endswith(f"-{tag}.whl"), self.wheel.name)
        with zipfile.ZipFile(self.wheel) as archive:
            (name,) = (name for name in archive.namelist() if name.endswith(".dist-info/WHEEL"))
            self.assertIn(f"\nTag: {tag}\n", archive.read(name).decode())

    def test_the_record_lists_every_file(self):
        with zipfile.ZipFile(self.wheel) as archive:
            (record,) = (name for name in archive.namelist() if name.endswith(".dist-info/RECORD"))
            lines = archive.read(record).decode().splitlines()
            self.assertEqual([line.split(",")[0] for line in lines], archive.namelist())
            for line in lines[:-1]:
                name, digest, size = line.split(",")
                data = archive.read(name)
                self.assertEqual(len(data), int(size), name)
                self.assertEqual(digest, "sha256=" + base64.urlsafe_b64encode(hashlib.sha256(data).digest()).decode().rstrip("="), name)
        self.assertEqual(lines[-1], f"{record},,")

    def test_the_same_build_makes_the_same_bytes(self):
        package("--from", BUILD, "--native", "--without-deb", "--output", self.folder / "again")
        for path in (self.wheel, self.archive):
            self.assertTrue(filecmp.cmp(path, self.folder / "again" / path.name, shallow=False), path.name)

    def test_the_wheel_in_a_virtual_environment(self):
        venv = self.folder / "venv"
        made = subprocess.run([sys.executable, "-m", "venv", venv], stdout=subprocess.PIPE, text=True)
        if made.returncode:
            self.skipTest(f"moh test skipped: no virtual environment; Debian's package python3-venv has it\n{made.stdout}")
        run(venv / "bin/pip", "install", "--quiet", "--no-index", "--no-deps", "--disable-pip-version-check", self.wheel)
        path = f"{venv}/bin"
        self.check_program("installed", "moh", venv / "share/moh/configs", path=path)
        self.assertIn("usage:", self.use("installed", "moh-plot-run", "--help", path=path))
        self.assertIn("| tiny_shakespeare_moh_50 | 50% |", self.use(
            "installed", "moh-quality", "--data", "text.txt", "--configs", "configs/llm/tiny_shakespeare_moh_50.yaml", "--seeds", "1", "--",
            "train.steps=2", "train.batch_size=2", "data.sequence_length=16", "eval.max_tokens=64", path=path))
        self.assertEqual(self.use("installed", "python", "-c", "import moh; print(moh.program())", path=path), f"{venv}/bin/moh\n")
        if "py3-none" not in self.wheel.name:
            code = "import moh; print(moh.load('run').generate('The quick', max_tokens=5))"
            self.assertIn("The quick", self.use("installed", "python", "-c", code, path=path))
        self.assertIn("Usage: moh plan", self.use("installed", "python", "-m", "moh", "plan", "--help", path=path))

    def test_refusals(self):
        self.assertIn("expected a build folder, found '/nothing'", package("--from", "/nothing", code=2))
        self.assertIn("unknown option '--frob'", package("--frob", code=2))
        with self.assertRaisesRegex(make_wheel.PackageError, "needs the C library alone, found that it needs .*libyaml-cpp"):
            make_wheel.glibc_of(os.environ["MOH_BINARY"])
        if "+native" in self.wheel.name:
            self.assertIn("found MOH_CPU_KERNELS=native", package("--from", BUILD, code=1))

    def test_a_module_makes_a_wheel_of_one_python(self):
        package, tree = self.folder / "package", self.folder / "small"
        (tree / "share/doc/moh/third_party").mkdir(parents=True)
        (tree / "share/doc/moh/LICENSE").touch()
        (tree / "bin").mkdir()
        package.mkdir()
        shutil.copy("/bin/true", tree / "bin/moh")
        shutil.copy("/bin/true", package / "_moh.cpython-311-x86_64-linux-gnu.so")
        (package / "__init__.py").write_text("instead = True\n")
        wheel = make_wheel.make_wheel(tree, "0.1.0", self.folder, [make_wheel.PACKAGE, package])
        self.assertIn("-cp311-cp311-manylinux_2_", wheel.name)
        with zipfile.ZipFile(wheel) as archive:
            self.assertEqual(archive.read("moh/__init__.py"), b"instead = True\n")
            self.assertLessEqual({"moh/__main__.py", "moh/_moh.cpython-311-x86_64-linux-gnu.so"}, set(archive.namelist()))
        (package / "_more.cpython-312-x86_64-linux-gnu.so").touch()
        with self.assertRaisesRegex(make_wheel.PackageError, "found 311, 312"):
            make_wheel.python_tag(list(package.glob("*.so")))


if __name__ == "__main__":
    unittest.main()
