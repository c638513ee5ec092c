"""A whole test program under one instruction set of the CPU kernels (scripts/test.sh --every-isa). Skipped where the
processor lacks it, and where the ordinary run has it: all other tests run with the best, or with that of MOH_CPU_ISA.
Cases that go through all instruction sets in any run, or need one alone, are left out (tests/support/case_tags.h)."""

import os
import re
import subprocess
import sys

SKIPPED = 77
# Their kernels of float32 are those of avx512.
OF_BFLOAT16 = ("avx512_bf16", "amx")


def probe(environment):
    """What tests/core/cpu_isa_test.cpp prints: "isa=NAME.", or "refused=" and why."""
    command = [os.environ["MOH_ISA_PROBE"], "probe: the chosen instruction set"]
    return subprocess.run(command, env=environment, check=True, stdout=subprocess.PIPE, text=True).stdout


def main():
    isa, program = os.environ["MOH_TEST_ISA"], os.environ["MOH_TEST_PROGRAM"]
    chosen = {**os.environ, "MOH_CPU_ISA": isa}
    ordinary = re.search(r"isa=(\w+)\.", probe(os.environ)).group(1)
    if ordinary in OF_BFLOAT16 and ordinary not in os.environ["MOH_TEST_ISAS"].split():
        ordinary = "avx512"
    if ordinary == isa:
        print(f"skipped: all other tests run with {isa}")
        return SKIPPED
    answer = probe(chosen)
    if "refused=" in answer:
        print(f"skipped: this processor has no {isa}")
        return SKIPPED
    if f"isa={isa}." not in answer:
        print(f"the probe: expected 'isa={isa}.', found {answer!r}")
        return 1
    print(f"{program} with MOH_CPU_ISA={isa}", flush=True)
    return subprocess.run([program, "~[every_isa]~[one_isa]"], env=chosen, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
