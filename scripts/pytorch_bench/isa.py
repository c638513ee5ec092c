"""Instruction sets of the CPU: holds both sides to one, and checks what they say that they use. The standard library only.

moh, ATen (PyTorch's own kernels) and torch.compile use the one that they are told, or the best of the processor. The libraries
below PyTorch choose for themselves, up to a limit. They alone multiply bfloat16 by AVX512-BF16 or AMX: ATen and torch.compile
know AVX-512 at most.
"""

import os
import pathlib
import re

from pytorch_bench.measure import BenchError

ISAS = ("baseline", "avx2", "avx512", "avx512_bf16", "amx")  # as MOH_CPU_ISA names them, in order

# By ISA, for ATen and the code that torch.compile writes; for MKL; for oneDNN; and for torch.compile's compiler, which compiles
# for the processor otherwise: what moh's kernels are compiled for.
VARIABLES = {
    "baseline": {"ATEN_CPU_CAPABILITY": "default", "MKL_ENABLE_INSTRUCTIONS": "SSE4_2", "ONEDNN_MAX_CPU_ISA": "SSE41",
                 "TORCHINDUCTOR_CPP_MARCH": "x86-64-v2"},
    "avx2": {"ATEN_CPU_CAPABILITY": "avx2", "MKL_ENABLE_INSTRUCTIONS": "AVX2", "ONEDNN_MAX_CPU_ISA": "AVX2",
             "TORCHINDUCTOR_CPP_MARCH": "x86-64-v3"},
    # The best of each library without bfloat16, the best without AMX, and the best with it for bfloat16.
    "avx512": {"ATEN_CPU_CAPABILITY": "avx512", "MKL_ENABLE_INSTRUCTIONS": "AVX512_E2", "ONEDNN_MAX_CPU_ISA": "AVX512_CORE_VNNI"},
    "avx512_bf16": {"ATEN_CPU_CAPABILITY": "avx512", "MKL_ENABLE_INSTRUCTIONS": "AVX512_E3",
                    "ONEDNN_MAX_CPU_ISA": "AVX512_CORE_BF16"},
    "amx": {"ATEN_CPU_CAPABILITY": "avx512", "MKL_ENABLE_INSTRUCTIONS": "AVX512_E4", "ONEDNN_MAX_CPU_ISA": "AVX512_CORE_AMX"},
}


def variables(isa, cache):
    """The environment in which moh and PyTorch use `isa`; none for None. `cache`: a folder for the code that torch.compile makes,
    which does not mark it with all of this."""
    if isa is None:
        return {}
    chosen = {"MOH_CPU_ISA": isa, "TORCHINDUCTOR_CACHE_DIR": os.path.abspath(cache), **VARIABLES[isa]}
    if isa == "baseline" and not is_intel():
        chosen["MKL_CBWR"] = "COMPATIBLE"  # SSE; MKL_ENABLE_INSTRUCTIONS counts on processors of Intel alone
    return chosen


def is_intel():
    try:
        return "GenuineIntel" in pathlib.Path("/proc/cpuinfo").read_text(encoding="utf-8")
    except OSError:
        return False


def of_moh(version):
    """The last word of what `moh --version` prints."""
    found = re.search(r", (\w+)\)$", version)
    if not found or found[1] not in ISAS:
        raise BenchError(f"moh --version: expected an instruction set at the end, found {version!r}")
    return found[1]


# Libraries below PyTorch, which may use less than they are allowed to.
LIBRARIES = ("MKL", "oneDNN")


# "Intel(R) Architecture" is all that MKL says on a processor of AMD, where its kernels are of AVX2 (mkl_blas_def_*_zen). oneDNN
# calls AVX-512 with bfloat16 and float16 AVX10.1.
WORDS = (("baseline", "SSE|DEFAULT|INVALID_VEC_ISA|baseline|CNR:COMPATIBLE"), ("amx", r"^amx$|Intel(\(R\))? AMX"),
         ("avx512_bf16", r"AVX-?512.*BF(LOAT)?16|AVX ?10"), ("avx512", "AVX-?512"), ("avx2", r"AVX|^Intel\(R\) Architecture$"))


def in_words(text):
    """The instruction set in the words of moh, ATen, torch.compile, MKL or oneDNN; None for one of another processor."""
    return next((isa for isa, pattern in WORDS if re.search(pattern, text, re.IGNORECASE)), None)


def base(isa):
    """The instruction set without the products of bfloat16 that some processors add to it."""
    return "avx512" if isa in ("avx512_bf16", "amx") else isa


def check(asked, said):
    """Raises BenchError if the sides use more than one instruction set, or another than was asked for. `said`: what each part
    says, moh first. Unless one was asked for, each side multiplies bfloat16 as it is fastest on the processor."""
    found = {part: in_words(text) for part, text in said.items()}
    wanted = asked or found["moh"]
    for part, isa in found.items():
        same = isa == wanted if part == "moh" or asked and part in LIBRARIES else base(isa) == base(wanted)
        may_be_less = part in LIBRARIES or asked is None and isa is None
        if not same and not (may_be_less and rank(isa) < rank(wanted)):
            remedy = "" if asked else f"; --isa {min(filter(None, found.values()), key=rank)} holds both sides to one"
            raise BenchError(f"--isa: expected {wanted} on both sides, found {part}: {said[part]}{remedy}")


def rank(isa):
    return ISAS.index(isa) if isa else -1


def sentence(said):
    return "Instruction sets: " + "; ".join(f"{part} {text}" for part, text in said.items()) + "."
