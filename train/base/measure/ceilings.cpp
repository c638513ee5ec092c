#include "train/base/measure/ceilings.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstring>

#include "core/cuda/backend.h"
#include "core/device_clock.h"
#include "core/function_ref.h"
#include "core/math_mode.h"
#include "core/parallel.h"
#include "core/random.h"
#include "core/tensor.h"
#include "ops/cpu/fma_loop.h"
#include "ops/linalg/matmul.h"

namespace moh {

namespace {

constexpr int kTries = 7;

/// Seconds of the fastest of kTries runs, after a warm-up.
double fastest(Device device, FunctionRef<void()> run) {
  DeviceClock clock(device);
  run();
  clock.mark();
  for (int i = 0; i < kTries; ++i) {
    run();
    clock.mark();
  }
  double best = clock.seconds(0, 1);
  for (std::size_t i = 1; i < kTries; ++i) best = std::min(best, clock.seconds(i, i + 1));
  return best;
}

/// Time and rate of a GEMM of square matrices. They are random: with constant ones a GPU draws less power
/// and so keeps a higher clock rate.
struct Product {
  double seconds, gflops;
};
Product measure_product(Device device, DType dtype, std::int64_t size) {
  const Tensor a = empty({size, size}, dtype, device), b = empty_like(a), c = empty_like(a);
  fill_uniform(a, {1, 1}, -1.0, 1.0);
  fill_uniform(b, {1, 2}, -1.0, 1.0);
  const double seconds = fastest(device, [&] { matmul_into(c, {a}, {b}); });
  return {seconds, 2 * std::pow(static_cast<double>(size), 3) / seconds * 1e-9};
}

/// GFLOP/s. On a GPU the size is doubled until a GEMM takes 1 ms, long compared to its launch; the best
/// counts.
double measure_matmul_rate(Device device, DType dtype) {
  if (device == kCpu) return measure_product(kCpu, dtype, 1536).gflops;
  constexpr std::int64_t kLargest = 8192;
  constexpr double kLong = 1e-3;
  Product product{};
  double best = 0;
  for (std::int64_t size = 64; size <= kLargest && product.seconds < kLong; size *= 2) {
    product = measure_product(device, dtype, size);
    best = std::max(best, product.gflops);
  }
  return best;
}

}  // namespace

double measure_fma_gflops(DType dtype, double seconds_each) {
  // The default is long compared to waking the threads, and short enough that some run is not preempted.
  constexpr std::int64_t kProbe = 100'000;
  const double probe = fastest(kCpu, [&] { run_fma_loop(kProbe, dtype); });
  const auto rounds = std::max(kProbe, static_cast<std::int64_t>(kProbe * seconds_each / probe));
  double flops = 0;
  const double seconds = fastest(kCpu, [&] { flops = run_fma_loop(rounds, dtype); });
  return flops / seconds * 1e-9;
}

Ceilings measure_ceilings(Device device, DType dtype, bool tf32) {
  const MathModeScope mode({.tf32 = tf32});
  const MemoryPurposeScope purpose(MemoryPurpose::kWorkspace);
  if (device == kCpu) return {measure_fma_gflops(dtype), measure_matmul_rate(kCpu, dtype), {}};
  return {{}, measure_matmul_rate(device, dtype), published_gflops(cuda::product_name(), dtype, tf32)};
}

std::optional<double> peak_gflops(Device device, DType dtype, bool tf32) {
  constexpr double kShort = 0.003;
  if (device == kCpu) return measure_fma_gflops(dtype, kShort);
  return published_gflops(cuda::product_name(), dtype, tf32);
}

std::optional<double> published_gflops(std::string_view gpu, DType dtype, bool tf32) {
  struct Rates {
    std::string_view gpu;
    double bfloat16, tf32, float32;
  };
  // Without sparsity. Other variants of these GPUs (PCIe, NVL, MIG instances) have other names and rates.
  constexpr std::array<Rates, 4> kDense = {{{"NVIDIA H100 80GB HBM3", 989e3, 495e3, 67e3},
                                            {"NVIDIA H200", 989e3, 495e3, 67e3},
                                            {"NVIDIA A100-SXM4-40GB", 312e3, 156e3, 19.5e3},
                                            {"NVIDIA A100-SXM4-80GB", 312e3, 156e3, 19.5e3}}};
  const auto* const known = std::ranges::find(kDense, gpu, &Rates::gpu);
  if (known == kDense.end()) return {};
  if (dtype == DType::kBFloat16) return known->bfloat16;
  if (dtype != DType::kFloat32) return {};
  return tf32 ? known->tf32 : known->float32;
}

CopyRates measure_copy_rates(std::size_t bytes, Device device) {
  const MemoryPurposeScope purpose(MemoryPurpose::kWorkspace);
  const Tensor from = zeros({static_cast<std::int64_t>(bytes / sizeof(float))}, DType::kFloat32, device);
  const Tensor to = zeros_like(from);
  const auto rate = [&](double seconds) { return 2.0 * static_cast<double>(to.bytes()) / seconds * 1e-9; };
  const double stores = rate(fastest(device, [&] { to.copy_from(from); }));
  if (device != kCpu) return {stores, {}};
  const std::int64_t share = num_chunks(to.numel(), num_threads());
  const auto one_memcpy_per_thread = [&] {
    parallel_for(to.numel(), share, [&](std::int64_t begin, std::int64_t end) {
      std::memcpy(to.data<float>() + begin, from.data<float>() + begin,
                  static_cast<std::size_t>(end - begin) * sizeof(float));
    });
  };
  return {stores, rate(fastest(kCpu, one_memcpy_per_thread))};
}

}  // namespace moh
