"""Kernel objects compiled for newer processors must not leak code into the rest of the program.

A kernel file is compiled once per instruction set. An inline function or template that such an object defines as a weak
symbol under a name that other objects use too (std::vector<float>::push_back, say) may be the copy that the linker keeps
for everybody: the program then crashes on an older processor, far from any kernel. So every function that an AVX2 or
AVX-512 object offers to the linker must carry the tag of its instruction set in its name, and no such object may have
code that runs at start-up.
"""

import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

from build_tree import compile_commands

KERNEL_TARGET = re.compile(r"^moh_\w+_kernels_(Avx2|Avx512|Avx512Bf16|Amx|AmxPlain)$")

# What `nm` prints for a function that the linker sees (T: strong, W: weak, i: indirect) ...
VISIBLE_FUNCTION = re.compile(r"^[0-9a-f]+ [TWi] (.*)$")
# ... and for code that runs before main.
STATIC_INITIALIZER = re.compile(r"^[0-9a-f]+ [tTW] (_GLOBAL__sub_I_.*|global constructors keyed.*)$")


def leaks(isas):
    """Functions that must not be in object files, by file, of which `isas` has the instruction sets."""
    listing = subprocess.run(
        ["nm", "--print-file-name", "--demangle", "--defined-only", *isas], check=True, capture_output=True, text=True
    ).stdout
    found = {path: [] for path in isas}
    for line in listing.splitlines():
        path, symbol = line.split(":", 1)
        function = VISIBLE_FUNCTION.match(symbol)
        if function and not re.search(rf"\bmoh::cpu::{isas[path]}\b", function[1]):
            found[path].append(function[1])
        if initializer := STATIC_INITIALIZER.match(symbol):
            found[path].append(initializer[1])
    return found


class KernelSymbols(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.objects = {}
        for command in compile_commands():
            match = KERNEL_TARGET.match(command.target)
            if match and command.output.suffix != ".gch":  # a precompiled header
                cls.objects[command.output] = (match[1], command)
        if not cls.objects:
            print("skipped: this processor family has a single set of kernels")
            sys.exit(77)

    def test_every_visible_function_carries_its_tag(self):
        isas = {str(path): isa for path, (isa, _) in self.objects.items()}
        for path in isas:
            self.assertTrue(pathlib.Path(path).is_file(), f"{path} is missing: build everything before running the tests")
        for path, found in leaks(isas).items():
            with self.subTest(object=path):
                self.assertEqual(
                    found,
                    [],
                    "\ncompiled for one instruction set, yet visible to generic code; make it a kernel template's"
                    " member, force it inline or put it into an unnamed namespace:\n  " + "\n  ".join(found),
                )

    def leaks_of(self, code):
        isa, command = next(iter(self.objects.values()))
        with tempfile.TemporaryDirectory() as folder:
            output = pathlib.Path(folder, "probe.o")
            result = command.compile(code.replace("ISA", isa), output)
            self.assertEqual(result.returncode, 0, result.stderr)
            return leaks({str(output): isa})[str(output)]

    def test_the_check_sees_a_leak(self):
        untagged = "template <class T> [[gnu::noinline]] T twice(T x) { return x + x; } template float twice(float);"
        self.assertEqual(self.leaks_of(untagged), ["float twice<float>(float)"])
        self.assertEqual(self.leaks_of("float strong(float x); float strong(float x) { return x; }"), ["strong(float)"])
        self.assertIn("_GLOBAL__sub_I", "".join(self.leaks_of("float early(); float before_main = early();")))

    def test_the_check_accepts_tagged_and_local_functions(self):
        tagged = """
            #include "core/cpu_isa.h"
            template <class Backend> struct Kernels { static float twice(float x); };
            template <class Backend> float Kernels<Backend>::twice(float x) { return x + x; }
            template struct Kernels<moh::cpu::ISA>;
            static float local(float x) { return x * x; }
            float (*volatile use)(float) = local;
        """
        self.assertEqual(self.leaks_of(tagged), [])
        self.assertEqual(len(self.leaks_of(tagged.replace("cpu::ISA", "cpu::Baseline"))), 1)


if __name__ == "__main__":
    unittest.main()
