#pragma once

#include <cstddef>
#include <optional>
#include <string_view>

#include "core/device.h"
#include "core/dtype.h"

namespace moh {

/// What the machine can do: what a share is a share of. On the CPU with num_threads() threads at most.
struct Ceilings {
  /// float32 multiply-adds on registers (ops/cpu/fma_loop.h); of the CPU only.
  std::optional<double> fma_gflops;
  /// A large square product through ops/linalg/matmul: float32 on the CPU, the elements asked for on a GPU.
  double matmul_gflops = 0;
  /// What the GPU's maker publishes for the elements asked for, where known (published_gflops).
  std::optional<double> published_gflops;
};

/// Measures, the best of several tries each, about half a second in all: what else runs on the machine can
/// only make them lower. A GPU has to be open.
Ceilings measure_ceilings(Device device = kCpu, DType dtype = DType::kFloat32);

/// GFLOP/s of dense bfloat16 products on tensor cores that the data sheet of a GPU promises, by the name that
/// the driver gives it; nothing for other elements and for GPUs that are not in the table.
std::optional<double> published_gflops(std::string_view gpu, DType dtype);

/// GB/s (1e9) of copying one array of `bytes` to another, reads and writes counted, the best of several
/// tries. For a ceiling of what is not in any cache the arrays have to be larger than the last of them.
struct CopyRates {
  /// On the CPU in pieces of 128 KiB, by ordinary stores, as ops write their results; on a GPU by the
  /// driver's copy on the device.
  double stores = 0;
  /// Of the CPU only: one memcpy per thread. Where libc thinks the pieces long enough it writes past the
  /// caches, which otherwise read first what is about to be overwritten; how long that is depends on the libc
  /// and on the processor.
  std::optional<double> memcpy;
};
CopyRates measure_copy_rates(std::size_t bytes, Device device = kCpu);

}  // namespace moh
