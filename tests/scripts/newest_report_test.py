"""What scripts/newest.sh says about the results of ctest."""

import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest
import xml.etree.ElementTree

SCRIPTS = pathlib.Path(os.environ["MOH_SOURCE_DIR"], "scripts")
sys.path.append(str(SCRIPTS))
import newest_report  # noqa: E402

RESULTS = """<testsuite name="Linux" tests="4" failures="1" skipped="1">
  <testcase name="hf_export_test" status="fail"><failure message=""/></testcase>
  <testcase name="cli.timm" status="run"/>
  <testcase name="golden_again.pictures" status="fail"><failure message=""/></testcase>
  <testcase name="cli.lm_eval" status="notrun"><skipped message="SKIP_RETURN_CODE=77"/></testcase>
</testsuite>"""


class Report(unittest.TestCase):
    def lines(self, text):
        return newest_report.warnings(xml.etree.ElementTree.fromstring(text), "transformers 9.0")

    def test_names_of_what_differs_and_of_what_was_left_out(self):
        self.assertEqual(self.lines(RESULTS), [
            "THE NEWEST PACKAGES DIFFER in hf_export_test, golden_again.pictures (transformers 9.0)",
            "NOT COMPARED WITH THE NEWEST PACKAGES: cli.lm_eval (transformers 9.0)"])

    def test_nothing_to_say(self):
        self.assertEqual(self.lines('<testsuite><testcase name="cli.timm" status="run"/></testsuite>'), [])

    def test_no_tests_at_all(self):
        self.assertEqual(len(self.lines("<testsuite/>")), 1)

    def test_versions_name_every_package(self):
        for name in newest_report.COMPARED:
            self.assertIn(name, newest_report.versions())


class Script(unittest.TestCase):
    """scripts/newest.sh in a tree of its own, with a ctest that has those results and an environment that is up to date."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name)
        (self.root / "scripts").mkdir()
        for name in ("lib.sh", "newest.sh", "newest_report.py", "pytorch_venv.sh"):
            shutil.copy(SCRIPTS / name, self.root / "scripts")
        self.write("build/release/CTestTestfile.cmake", "")
        self.write("newest/moh-newest", "")
        self.write("newest/bin/python", f'#!/bin/sh\nexec {sys.executable} "$@"\n')
        self.write("results.xml", RESULTS)
        self.write("bin/ctest", """#!/bin/sh
echo "$MOH_PYTORCH_VENV $*" >>"$ROOT/called"
while [ "$1" != --output-junit ]; do shift; done
cp "$ROOT/results.xml" "$2"
exit 8
""")

    def write(self, name, text):
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        path.chmod(0o755)

    def run_it(self, *arguments):
        environment = {**os.environ, "PATH": f"{self.root / 'bin'}:{os.environ['PATH']}", "ROOT": str(self.root),
                       "MOH_NEWEST_VENV": str(self.root / "newest"), "MOH_PYTORCH_VENV": str(self.root / "fixed")}
        return subprocess.run(["bash", self.root / "scripts/newest.sh", *arguments], env=environment, capture_output=True, text=True)

    def test_differences_are_warnings(self):
        done = self.run_it("--report", self.root / "report")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("warning: THE NEWEST PACKAGES DIFFER in hf_export_test, golden_again.pictures", done.stderr)
        report = (self.root / "report").read_text().splitlines()
        self.assertEqual([line.split(" in ")[0].split(":")[0] for line in report],
                         ["THE NEWEST PACKAGES DIFFER", "NOT COMPARED WITH THE NEWEST PACKAGES"])
        called = (self.root / "called").read_text()
        self.assertTrue(called.startswith(f"{self.root / 'newest'} -L compares -LE ^newer-lm_eval$ "), called)

    def test_a_newer_harness_is_compared(self):
        self.write("newest/lib/python3.11/site-packages/lm_eval-9.0.dist-info/METADATA", "")
        self.assertEqual(self.run_it().returncode, 0)
        self.assertNotIn("-LE", (self.root / "called").read_text())

    def test_an_empty_report_where_nothing_differs(self):
        self.write("results.xml", '<testsuite><testcase name="cli.timm" status="run"/></testsuite>')
        done = self.run_it("--report", self.root / "report")
        self.assertEqual((done.returncode, (self.root / "report").read_text()), (0, ""), done.stderr)
        self.assertIn("nothing differs with the newest packages", done.stdout)

    def test_without_pytorch_to_lend_it_says_what_to_do(self):
        (self.root / "newest/moh-newest").unlink()
        done = self.run_it()
        self.assertEqual(done.returncode, 1)
        self.assertIn("fixed has no PyTorch; scripts/pytorch_venv.sh", done.stderr)


if __name__ == "__main__":
    unittest.main()
