"""The layers: core <- autograd <- ops <- models <- train. An arrow is the only direction of an include."""

import re
import unittest

from build_tree import LAYERS, SOURCE_DIR, compile_commands, sources

INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]', re.MULTILINE)

# Libraries whose types no header shows: who includes a header of ours should not compile theirs.
CONFINED = ("yaml-cpp/", "nlohmann/", "CLI/", "spdlog/", "fmt/", "oneapi/", "xxhash.h", "zlib.h")


def violations(path, text):
    """What the includes of one file get wrong. `path` is relative to the root of the source tree."""
    layer = path.split("/")[0]
    found = []
    for quote, included in INCLUDE.findall(text):
        first = included.split("/")[0]
        if first in LAYERS and LAYERS.index(first) > LAYERS.index(layer):
            found.append(f"{path}: {layer} must not include {included}: {first} is to its right")
        if quote == '"' and first not in LAYERS:
            found.append(f'{path}: "{included}" is not a path from the root of the source tree')
        if included.startswith(CONFINED) and path.endswith(".h"):
            found.append(f"{path}: a header shows {included}; include it in the source file")
    return found


class SourceScan(unittest.TestCase):
    def test_no_file_includes_from_its_right(self):
        files = [path for layer in LAYERS for path in sources(layer)]
        self.assertGreater(len(files), 20, "the scan must see the source tree")
        found = []
        for path in files:
            found += violations(str(path.relative_to(SOURCE_DIR)), path.read_text())
        self.assertEqual(found, [], "\n" + "\n".join(found))

    def test_the_scan_sees_what_it_looks_for(self):
        for path, text in (
            ("core/a.h", '#include "ops/norm/rms_norm.h"'),
            ("autograd/a.cpp", '#include <vector>\n  #  include <train/main.h>'),
            ("ops/norm/a.cpp", '#include "rms_norm.h"'),
            ("ops/norm/a.cpp", '#include "../models/module.h"'),
            ("models/a.h", "#include <yaml-cpp/yaml.h>"),
            ("ops/linalg/gemm.h", "#include <oneapi/dnnl/dnnl.h>"),
        ):
            self.assertEqual(len(violations(path, text)), 1, (path, text))
        for path, text in (
            ("ops/norm/a.cpp", '#include "ops/norm/a.h"\n#include <vector>\n#include "core/tensor.h"'),
            ("ops/linalg/gemm.cpp", "#include <oneapi/dnnl/dnnl.h>"),
            ("train/a.cpp", '#include "core/tensor.h"\n#include <yaml-cpp/yaml.h>'),
        ):
            self.assertEqual(violations(path, text), [], (path, text))


class Compilation(unittest.TestCase):
    """Compiles includes with the very options that the build uses for the files of each layer."""

    @classmethod
    def setUpClass(cls):
        cls.commands = {layer: [] for layer in LAYERS}
        for command in compile_commands():
            path = command.file
            if SOURCE_DIR in path.parents and (layer := path.relative_to(SOURCE_DIR).parts[0]) in LAYERS:
                cls.commands[layer].append(command)
        cls.headers = {layer: next(p for p in sources(layer) if p.suffix == ".h") for layer in LAYERS}

    def include(self, layer):
        return f'#include "{self.headers[layer].relative_to(SOURCE_DIR)}"\n'

    def one_command_per_target(self, layer):
        self.assertTrue(self.commands[layer], f"the build compiles no file of {layer}/")
        return {command.target: command for command in self.commands[layer]}

    def test_includes_to_the_left_compile(self):
        for index, layer in enumerate(LAYERS):
            code = "".join(self.include(left) for left in LAYERS[: index + 1])
            for target, command in self.one_command_per_target(layer).items():
                with self.subTest(target=target):
                    result = command.compile(code)
                    self.assertEqual(result.returncode, 0, result.stderr)

    def test_includes_to_the_right_do_not_compile(self):
        for index, layer in enumerate(LAYERS):
            for right in LAYERS[index + 1 :]:
                for target, command in self.one_command_per_target(layer).items():
                    with self.subTest(target=target, includes=right):
                        result = command.compile(self.include(right))
                        self.assertNotEqual(result.returncode, 0)
                        # For the right reason: the header is out of reach, not broken.
                        header = str(self.headers[right].relative_to(SOURCE_DIR))
                        self.assertIn(f"fatal error: {header}: No such file", result.stderr)


if __name__ == "__main__":
    unittest.main()
