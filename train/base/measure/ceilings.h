#pragma once

#include <cstddef>
#include <optional>
#include <string_view>

#include "core/device.h"
#include "core/dtype.h"

namespace moh {

/// Peak compute rates of the device, GFLOP/s, to which benchmarks relate what they measure. On the CPU with
/// num_threads() threads.
struct Ceilings {
  /// Multiply-adds of `dtype` on registers (ops/cpu/fma_loop.h); CPU only.
  std::optional<double> fma_gflops;
  /// A large square GEMM of `dtype` by ops/linalg/matmul.
  double matmul_gflops = 0;
  /// The GPU's data sheet for `dtype`, where known (published_gflops).
  std::optional<double> published_gflops;
};

/// Measures for about half a second. Each rate is the best of several tries, as other load can only lower it.
/// A GPU has to be open (open_device); with `tf32` its float32 GEMMs run on tensor cores.
Ceilings measure_ceilings(Device device = kCpu, DType dtype = DType::kFloat32, bool tf32 = false);

/// Ceilings::fma_gflops alone, by runs of `seconds_each`, about ten of them. Short ones are lower where other
/// programs take the processors from time to time.
double measure_fma_gflops(DType dtype, double seconds_each = 0.02);

/// GFLOP/s to which a run relates its steps: on the CPU the FMA peak of num_threads() threads, measured in
/// about 30 ms; of a GPU, which is open, published_gflops().
std::optional<double> peak_gflops(Device device, DType dtype, bool tf32);

/// GFLOP/s of dense GEMMs from the data sheet of a GPU, by the name that the driver reports: bfloat16 on
/// tensor cores, float32 on tensor cores with `tf32` and without them otherwise; nothing for other dtypes and
/// for GPUs that are not in the table.
std::optional<double> published_gflops(std::string_view gpu, DType dtype, bool tf32 = false);

/// Copy bandwidth in GB/s (1e9), reads plus writes, the best of several tries.
struct CopyRates {
  /// CPU: chunks of 128 KiB with ordinary stores, as ops write their results. GPU: cudaMemcpy on the device.
  double stores = 0;
  /// CPU only: one memcpy per thread. From a size on that depends on libc and processor, it uses non-temporal
  /// stores, which save reading the destination into the cache before overwriting it.
  std::optional<double> memcpy;
};
/// Copies one array of `bytes` to another. Larger than the last-level cache, these give the bandwidth of
/// memory.
CopyRates measure_copy_rates(std::size_t bytes, Device device = kCpu);

}  // namespace moh
