"""Every test case has a name that CMake can hand to ctest. CMake keeps lists as text: a name with a semicolon is cut in
two, one with an open bracket swallows the names after it, and ctest then reports as passed what never ran. And what a
case's tag stands for is used through the function that looks for the tag (tests/support/case_tags.h)."""

import os
import pathlib
import re
import unittest

TESTS = pathlib.Path(os.environ["MOH_SOURCE_DIR"]) / "tests"
STRING = r'"((?:[^"\\]|\\.)*)"'
CASE = re.compile(r"\b(?:TEST_CASE|TEMPLATE_TEST_CASE|SCENARIO)\(\s*((?:" + STRING + r"\s*)+)")


def case_names(code):
    """Names of the test cases in a source, adjacent string literals joined."""
    return ["".join(re.findall(STRING, match.group(1))) for match in CASE.finditer(code)]


class TestNamesTest(unittest.TestCase):
    def test_names_survive_a_cmake_list(self):
        count = 0
        for source in sorted(TESTS.rglob("*.cpp")):
            for name in case_names(source.read_text(encoding="utf-8")):
                count += 1
                self.assertNotRegex(name, r"[\[\];\\]", f"{source.relative_to(TESTS)}: rename this test case")
        self.assertGreater(count, 100, "no test cases found: has their macro changed?")

    def test_what_needs_a_tag_is_used_in_one_place(self):
        for text, places in (("MOH_SHARED\")", ["support/shared_data.h"]),
                             (" : kCpuIsas", ["core/cpu_isa_test.cpp", "support/every_isa.h"])):
            found = [path.relative_to(TESTS).as_posix() for path in TESTS.rglob("*") if path.suffix in (".cpp", ".h")
                     and text in path.read_text(encoding="utf-8")]
            self.assertEqual(sorted(found), places, text)

    def test_the_search_finds_names_over_two_lines(self):
        self.assertEqual(case_names('TEST_CASE("a; "\n          "b") {}'), ["a; b"])


if __name__ == "__main__":
    unittest.main()
