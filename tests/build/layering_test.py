"""The layers core <- autograd <- ops <- models, and the rooms of train/: a file includes its own layer and those that its
CMake target names, and no other. An arrow is the only direction of an include."""

import re
import unittest

from build_tree import LAYERS, OPTIONAL_ROOMS, SOURCE_DIR, compile_commands, layer_of, sources

INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]', re.MULTILINE)

# Libraries whose types no header shows: who includes a header of ours should not compile theirs.
CONFINED = ("yaml-cpp/", "nlohmann/", "CLI/", "Eigen/", "spdlog/", "fmt/", "boost/", "jpeglib.h", "png.h", "xxhash.h", "zlib.h")


def violations(path, text):
    """What the includes of one file get wrong. `path` is relative to the root of the source tree."""
    layer = layer_of(path)
    found = []
    for quote, included in INCLUDE.findall(text):
        other = layer_of(included)
        if other not in (None, layer) and other not in LAYERS[layer]:
            found.append(f"{path}: {layer} must not include {included}: {other} is not below it")
        if quote == '"' and other is None:
            found.append(f'{path}: "{included}" is not a path from the root of the source tree')
        if included.startswith(CONFINED) and path.endswith(".h"):
            found.append(f"{path}: a header shows {included}; include it in the source file")
    return found


def classes_of(header):
    """The classes that a header defines, with their namespaces; not those of unnamed ones, of which each file has its own."""
    found, scopes = [], []
    for line in header.splitlines():
        if namespace := re.match(r"(?:inline )?namespace ?([\w:]*) ?\{", line):
            scopes.append(namespace.group(1))
        elif line.startswith("}  // namespace"):
            scopes.pop()
        elif (defined := re.match(r"(?:struct|class) (\w+)(?: final)?(?: :.*)? ?\{", line)) and "" not in scopes:
            found.append("::".join([*scopes, defined.group(1)]))
    return found


class SourceScan(unittest.TestCase):
    def test_no_file_includes_what_is_not_below_it(self):
        files = [path for layer in LAYERS for path in sources(layer)]
        self.assertGreater(len(files), 20, "the scan must see the source tree")
        found = []
        for path in files:
            found += violations(str(path.relative_to(SOURCE_DIR)), path.read_text())
        self.assertEqual(found, [], "\n" + "\n".join(found))

    def test_a_source_includes_the_header_of_its_name_first(self):
        # So each of them shows, when it is compiled, that its header needs no other before it.
        found = []
        for path in (path for layer in LAYERS for path in sources(layer) if path.suffix == ".cpp"):
            header = path.with_suffix(".h")
            first = INCLUDE.search(path.read_text())
            if path.match("core/cuda/launch.cpp"):  # the header is for nvcc
                continue
            if header.exists() and (first is None or first.group(2) != str(header.relative_to(SOURCE_DIR))):
                found.append(str(path.relative_to(SOURCE_DIR)))
        self.assertEqual(found, [])

    def test_no_two_classes_have_one_name(self):
        # The linker would keep the functions of one of them, and both would be destroyed by these.
        named = {}
        for path in (path for layer in LAYERS for path in sources(layer) if path.suffix == ".h"):
            for name in classes_of(path.read_text()):
                named.setdefault(name, set()).add(str(path.relative_to(SOURCE_DIR)))
        self.assertGreater(len(named), 500)
        self.assertEqual({name: files for name, files in named.items() if len(files) > 1}, {})

    def test_every_file_of_train_is_in_a_room(self):
        strays = [path for path in (SOURCE_DIR / "train").rglob("*") if path.suffix in (".h", ".cpp")
                  and layer_of(str(path.relative_to(SOURCE_DIR))) is None]
        self.assertEqual(strays, [SOURCE_DIR / "train/main.cpp"])  # the program

    def test_no_room_depends_on_itself(self):
        self.assertGreater(len(LAYERS), 15)
        for layer, below in LAYERS.items():
            self.assertNotIn(layer, below)
            self.assertIn("core", {layer} | below, layer)

    def test_the_scan_sees_what_it_looks_for(self):
        for path, text in (
            ("core/a.h", '#include "ops/norm/rms_norm.h"'),
            ("autograd/a.cpp", '#include <vector>\n  #  include <train/base/io/printable.h>'),
            ("ops/norm/a.cpp", '#include "rms_norm.h"'),
            ("ops/norm/a.cpp", '#include "../models/module.h"'),
            ("models/a.h", "#include <yaml-cpp/yaml.h>"),
            ("ops/linalg/gemm.h", "#include <Eigen/Dense>"),
            ("train/base/io/a.cpp", '#include "train/config/fields.h"'),
            ("train/trainer/task/a.h", '#include "train/families/language/language_run.h"'),
            ("train/heads/init/a.cpp", '#include "train/families/language/language_run.h"'),
            ("train/trainer/run/a.h", '#include "train/apps/cli/cli.h"'),
        ):
            self.assertEqual(len(violations(path, text)), 1, (path, text))
        for path, text in (
            ("ops/norm/a.cpp", '#include "ops/norm/a.h"\n#include <vector>\n#include "core/tensor.h"'),
            ("train/base/math/eigen.cpp", "#include <Eigen/Dense>"),
            ("train/config/a.cpp", '#include "core/tensor.h"\n#include <yaml-cpp/yaml.h>'),
            ("train/families/language/a.h", '#include "train/trainer/task/task.h"'),
        ):
            self.assertEqual(violations(path, text), [], (path, text))


class Compilation(unittest.TestCase):
    """Compiles includes with the very options that the build uses for the files of each layer."""

    @classmethod
    def setUpClass(cls):
        cls.commands = {layer: [] for layer in LAYERS}
        for command in compile_commands():
            layer = command.path and layer_of(command.path)
            if layer:
                cls.commands[layer].append(command)
        cls.headers = {layer: next(p for p in sources(layer) if p.suffix == ".h") for layer in LAYERS}

    def one_command_per_target(self, layer):
        self.assertTrue(self.commands[layer] or layer in OPTIONAL_ROOMS, f"the build compiles no file of {layer}/")
        return {command.target: command for command in self.commands[layer]}

    def test_what_is_below_is_in_reach_and_nothing_else(self):
        # __has_include() finds what an #include would, and asks for all of them in one call of the preprocessor. That headers compile
        # with the includes of their layer is shown by header_checks() in CMakeLists.txt.
        for layer, below in LAYERS.items():
            reached = {layer, *below}
            code = "".join(f"#if {'!' if name in reached else ''}__has_include(\"{self.headers[name].relative_to(SOURCE_DIR)}\")\n"
                           f"#error {name} is {'not found' if name in reached else 'in reach'}\n#endif\n" for name in LAYERS)
            for target, command in self.one_command_per_target(layer).items():
                with self.subTest(target=target):
                    result = command.preprocess(code)
                    self.assertEqual(result.returncode, 0, result.stderr)


if __name__ == "__main__":
    unittest.main()
