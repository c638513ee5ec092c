"""scripts/mutations.py fits the source that it breaks: each mutation's text is found once, and the tests that should notice
it exist. What follows from a mutation is for scripts/mutate.sh to see, which takes half an hour."""

import os
import pathlib
import re
import sys
import unittest

ROOT = pathlib.Path(os.environ["MOH_SOURCE_DIR"])
sys.path.insert(0, str(ROOT / "scripts"))
from mutations import MUTATIONS  # noqa: E402
from test_names_test import case_names  # noqa: E402

OP_CASES = re.compile(r"^OP_CASES\((\w+)\)", re.M)
PYTHON_TEST = re.compile(r"\bmoh_(?:python|cli)_test\(([\w.]+) ")
CLI_SUBJECTS = re.compile(r"foreach\(subject\s+(.*?)\)", re.S)


def contents(pattern):
    return [path.read_text(encoding="utf-8") for path in sorted((ROOT / "tests").rglob(pattern))]


def names_of_tests():
    """As ctest knows them: cases of the test programs, some of them on the simulated GPU, too; and Python tests."""
    cases = []
    for code in contents("*.cpp"):
        cases += case_names(code) + [f"ops: {op}" for op in OP_CASES.findall(code)]
    python = []
    for text in contents("CMakeLists.txt"):
        python += PYTHON_TEST.findall(text)
        for subjects in CLI_SUBJECTS.findall(text):
            python += [f"cli.{subject}" for subject in subjects.split()]
    return {"programs": cases + [f"sim/{case}" for case in cases], "moh": python}


class MutationsTest(unittest.TestCase):
    def test_each_breaks_one_place_of_the_source(self):
        for mutation in MUTATIONS:
            with self.subTest(mutation.name):
                text = (ROOT / mutation.file).read_text(encoding="utf-8")
                self.assertEqual(text.count(mutation.text), 1, f"{mutation.file} has changed: mend scripts/mutations.py")
                self.assertNotEqual(mutation.instead, mutation.text)

    def test_each_has_tests_that_should_notice_it(self):
        names = names_of_tests()
        for mutation in MUTATIONS:
            with self.subTest(mutation.name):
                known = names["moh" if mutation.target == "moh" else "programs"]
                self.assertTrue(any(re.search(mutation.tests, name) for name in known), mutation.tests)

    def test_names_and_targets(self):
        names = [mutation.name for mutation in MUTATIONS]
        self.assertEqual(len(set(names)), len(names))
        build = "".join(contents("CMakeLists.txt"))
        for target in {mutation.target for mutation in MUTATIONS} - {"moh"}:
            self.assertRegex(build, rf"\b(moh_tests|add_executable)\({target}\b")

    def test_names_of_tests_are_found(self):
        names = names_of_tests()
        self.assertIn("cli.resume", names["moh"])
        self.assertIn("sim/ops: rms_norm", names["programs"])


if __name__ == "__main__":
    unittest.main()
