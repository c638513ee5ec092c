"""cmake --install and cpack: the program works from where it was put, and its pages are those of its commands."""

import os
import pathlib
import shutil
import subprocess
import tempfile
import unittest

BUILD_DIR = pathlib.Path(os.environ["MOH_BUILD_DIR"])


def run(*command, **options):
    return subprocess.run(command, check=True, capture_output=True, text=True, **options).stdout


class Install(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.prefix = pathlib.Path(folder.name, "prefix")
        cls.elsewhere = pathlib.Path(folder.name, "elsewhere")
        cls.elsewhere.mkdir()
        run("cmake", "--install", BUILD_DIR, "--prefix", cls.prefix)

    def moh(self, *arguments):
        return run(self.prefix / "bin/moh", *arguments, cwd=self.elsewhere)

    def test_the_program_reads_the_installed_configurations(self):
        configs = sorted((self.prefix / "share/moh/configs").rglob("*.yaml"))
        self.assertGreater(len(configs), 15)
        self.assertIn("top_k: 2", self.moh("config", self.prefix / "share/moh/configs/llm/quickstart.yaml"))

    def test_the_scripts_start(self):
        for script in ("plot-run", "plot-heads", "import-tokens", "ablate", "export-metrics", "from-parquet", "lm-eval", "quality",
                       "recovery", "reproduce", "scaling", "sweep"):
            self.assertIn("usage:", run("/usr/bin/python3", "-B", self.prefix / f"bin/moh-{script}", "--help"))

    def installed(self, script, *arguments):
        """An installed script, in a folder without configurations, with the installed program in PATH."""
        return run(self.prefix / "bin" / script, *arguments, cwd=self.elsewhere,
                   env={**os.environ, "PATH": f"{self.prefix}/bin:/usr/bin:/bin", "PYTHONDONTWRITEBYTECODE": "1"})

    def test_scripts_find_the_program_and_the_shipped_configurations(self):
        (self.elsewhere / "text.txt").write_text("Two households, both alike in dignity, " * 200, encoding="utf-8")
        trained = self.installed("moh-quality", "--data", "text.txt", "--configs", "configs/llm/tiny_shakespeare_moh_50.yaml", "--seeds", "1", "--",
                                 "train.steps=2", "train.batch_size=2", "data.sequence_length=16", "eval.every=2")
        self.assertIn("| tiny_shakespeare_moh_50 | 50% |", trained)
        self.assertIn("At the paper's size", self.installed("moh-reproduce", "ablation_components_dit"))

    def test_the_man_page_has_every_command(self):
        page = (self.prefix / "share/man/man1/moh.1").read_text()
        for command in ("train", "eval", "bench step", "bench module", "data tokenize", "checkpoint info", "convert"):
            self.assertIn(f'.SS "moh {command}"', page)
        self.assertIn(r"\-\-resume", page)
        self.assertIn("75 stopped early", page)

    def complete(self, *words):
        """What bash offers for the last of `words`."""
        script = self.prefix / "share/bash-completion/completions/moh"
        line = " ".join(f"'{word}'" for word in words)
        return run("bash", "-c", f'source {script}; COMP_WORDS=({line}); COMP_CWORD={len(words) - 1}; _moh; '
                   'printf "%s\\n" "${COMPREPLY[@]}"', cwd=self.elsewhere).split()

    def test_completion_offers_commands_options_and_files(self):
        self.assertEqual(self.complete("moh", "tr"), ["train", "translate"])
        self.assertEqual(self.complete("moh", "bench", "mod"), ["module"])
        self.assertEqual(self.complete("moh", "train", "--res"), ["--resume", "--resume-from"])
        self.assertEqual(self.complete("moh", "bench", "step", "--rand"), ["--random-data"])
        (self.elsewhere / "mine.yaml").touch()
        self.assertEqual(self.complete("moh", "train", "mi"), ["mine.yaml"])

    @unittest.skipUnless(shutil.which("dpkg-shlibdeps"), "moh test skipped: no dpkg-shlibdeps")
    def test_the_debian_package_names_its_libraries(self):
        with tempfile.TemporaryDirectory() as folder:
            run("cpack", "-D", "CPACK_DEBIAN_COMPRESSION_TYPE=gzip", "-B", folder, cwd=BUILD_DIR)  # quickly
            (package,) = pathlib.Path(folder).glob("moh_*.deb")
            depends = run("dpkg-deb", "-f", package, "Depends")
            for library in ("libc6", "libyaml-cpp"):
                self.assertIn(library, depends)
            contents = run("dpkg-deb", "-c", package)
            for path in ("./usr/bin/moh", "./usr/bin/moh-plot-run", "./usr/share/man/man1/moh.1",
                         "./usr/share/moh/configs/llm/quickstart.yaml"):
                self.assertIn(f" {path}\n", contents)


if __name__ == "__main__":
    unittest.main()
