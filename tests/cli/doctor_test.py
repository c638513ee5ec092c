"""moh doctor: what there is on this machine, and what is missing, in words and as JSON."""

import json
import os
import unittest

import support


class Doctor(support.MohTest):
    def test_each_thing_is_found_or_its_absence_explained(self):
        lines = self.moh("doctor").splitlines()
        names = [line.split()[0] for line in lines if not line.startswith(" ")]
        self.assertEqual(names[:7], ["program", "processor", "kernels", "memory", "disk", "MPI", "GPU"])
        self.assertLessEqual(len(lines), 12)
        for line in lines:
            text = line[12:]
            self.assertGreater(len(text), 3, line)
            if text.startswith("none: "):
                self.assertRegex(text, "expected|only|missing|driver", line)

    def test_it_says_what_the_program_itself_says(self):
        report = json.loads(self.moh("doctor", "--json"))
        self.assertEqual(report["program"] + "\n", self.moh("--version"))
        for isa in self.instruction_sets():
            kernels = json.loads(self.moh("doctor", "--json", env={"MOH_CPU_ISA": isa}))["findings"]["kernels"]
            self.assertEqual(kernels["found"], isa)
            self.assertEqual(kernels["missing"] is None, isa in ("avx512_bf16", "amx", "amx_plain"), kernels)
        for name, finding in report["findings"].items():
            self.assertEqual(set(finding), {"found", "missing"})
            self.assertTrue(finding["found"] or finding["missing"], name)
        self.assertIn(f"{len(os.sched_getaffinity(0))} thread", report["findings"]["processor"]["found"])

    def test_a_folder_that_cannot_be_used(self):
        self.assert_says(self.moh("doctor", "--folder", "nowhere"), "disk        none: nowhere: No such file or directory")
        if os.geteuid() != 0:
            self.assert_says(self.moh("doctor", "--folder", "/"), "this user may not write there")

    def test_a_missing_library_is_named(self):
        # Of libraries that the system finds, the loader takes this one: an empty file.
        (self.folder / "libmpi.so.40").write_bytes(b"")
        finding = json.loads(self.moh("doctor", "--json", env={"LD_LIBRARY_PATH": str(self.folder)}))["findings"]["MPI"]
        self.assertIsNone(finding["found"])
        self.assert_says(finding["missing"], "MPI", "torchrun")


if __name__ == "__main__":
    unittest.main()
