#pragma once

#include <cstddef>

namespace moh {

/// What the machine can do with num_threads() threads at most, measured: what a share is a share of.
struct Ceilings {
  double fma_gflops = 0;     ///< float32 multiply-adds on registers (ops/cpu/fma_loop.h)
  double matmul_gflops = 0;  ///< a large square float32 product through ops/linalg/matmul
};

/// Measures both, the best of several tries each, about half a second in all: what else runs on the machine
/// can only make them lower.
Ceilings measure_ceilings();

/// GB/s (1e9) of copying one array of `bytes` to another, reads and writes counted, the best of several
/// tries. For a ceiling of what is not in any cache the arrays have to be larger than the last of them.
struct CopyRates {
  double stores = 0;  ///< in pieces of 128 KiB, by ordinary stores, as ops write their results
  /// One memcpy per thread. Where libc thinks the pieces long enough it writes past the caches, which
  /// otherwise read first what is about to be overwritten; how long that is depends on the libc and on the
  /// processor.
  double memcpy = 0;
};
CopyRates measure_copy_rates(std::size_t bytes);

}  // namespace moh
