"""What scripts/newest.sh says about the results of ctest."""

import os
import pathlib
import sys
import unittest
import xml.etree.ElementTree

sys.path.append(str(pathlib.Path(os.environ["MOH_SOURCE_DIR"], "scripts")))
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


if __name__ == "__main__":
    unittest.main()
