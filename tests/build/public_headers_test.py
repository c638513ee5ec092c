"""The public headers (cmake/MohLibrary.cmake) include public headers alone, and those behind them that are listed as such."""

import os
import pathlib
import re
import unittest

SOURCE_DIR = pathlib.Path(os.environ["MOH_SOURCE_DIR"])
LISTS = SOURCE_DIR / "cmake/MohLibrary.cmake"


def listed(name):
    return re.search(rf"set\({name}\s+([^)]*)\)", LISTS.read_text()).group(1).split()


def includes(header):
    return re.findall(r'^#include "([^"]+)"', (SOURCE_DIR / header).read_text(), re.MULTILINE)


def reached(headers):
    """The headers, and all that they include, however indirectly."""
    found, todo = set(), list(headers)
    while todo:
        header = todo.pop()
        if header not in found:
            found.add(header)
            todo += includes(header)
    return found


class PublicHeaders(unittest.TestCase):
    def test_those_behind_are_the_ones_that_they_include(self):
        public, behind = set(listed("MOH_PUBLIC_HEADERS")), set(listed("MOH_HEADERS_BEHIND"))
        self.assertGreater(len(public), 40)
        self.assertEqual(public & behind, set())
        needed = reached(public) - public
        self.assertEqual(needed - behind, set(), "a public header includes these: include less, or add them to MOH_HEADERS_BEHIND")
        self.assertEqual(behind - needed, set(), "no public header includes these any more: remove them from MOH_HEADERS_BEHIND")

    def test_none_is_for_the_inside_of_kernels(self):
        inside = re.compile(r"_cpu\.h$|_cuda\.h$|^core/cuda/|^ops/(cpu|cuda|device)/")
        self.assertEqual([header for header in reached(listed("MOH_PUBLIC_HEADERS")) if inside.search(header)], [])

    def test_the_check_follows_includes(self):
        self.assertIn("core/device.h", reached(["core/tensor.h"]))
        self.assertNotIn("core/random.h", reached(["core/tensor.h"]))


if __name__ == "__main__":
    unittest.main()
