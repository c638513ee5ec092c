"""The moh program must start on a machine without a GPU, and quickly: it links no CUDA library directly."""

import os
import re
import subprocess
import unittest

CUDA_LIBRARY = re.compile(r"\blib(cuda|cublas|cudnn|cufft|curand|cusolver|cusparse|cupti|nv|nccl)[\w-]*\.so")


class LinkedLibraries(unittest.TestCase):
    def test_no_cuda_library_is_linked(self):
        listing = subprocess.run(["ldd", os.environ["MOH_BINARY"]], check=True, capture_output=True, text=True).stdout
        # The listing is one: this is linked for sure.
        self.assertIn("libyaml-cpp.so", listing)
        self.assertNotIn("not found", listing)
        self.assertEqual([line.strip() for line in listing.splitlines() if CUDA_LIBRARY.search(line)], [])

    def test_the_pattern_knows_the_cuda_libraries(self):
        for name in ("cuda", "cudart", "cublas", "cublasLt", "cudnn", "nccl", "nvrtc", "nvidia-ml", "curand"):
            self.assertTrue(CUDA_LIBRARY.search(f"\tlib{name}.so.12 => /usr/lib/lib{name}.so.12 (0x0)"), name)
        self.assertFalse(CUDA_LIBRARY.search("\tlibc.so.6 => /lib/x86_64-linux-gnu/libc.so.6 (0x0)"))


if __name__ == "__main__":
    unittest.main()
