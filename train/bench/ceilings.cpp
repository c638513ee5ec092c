#include "train/bench/ceilings.h"

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "core/function_ref.h"
#include "core/parallel.h"
#include "core/tensor.h"
#include "ops/cpu/fma_loop.h"
#include "ops/linalg/matmul.h"
#include "train/metrics/progress.h"

namespace moh {

namespace {

constexpr int kTries = 7;

/// Seconds of the fastest of kTries runs, after one that does not count.
double fastest(FunctionRef<void()> run) {
  run();
  double best = 0;
  for (int i = 0; i < kTries; ++i) {
    const double begin = monotonic_seconds();
    run();
    const double seconds = monotonic_seconds() - begin;
    best = i == 0 ? seconds : std::min(best, seconds);
  }
  return best;
}

double measure_fma_rate() {
  // Rounds for about 20 ms: long beside waking the threads, short enough to fall between two interruptions.
  constexpr std::int64_t kProbe = 100'000;
  const double probe = fastest([] { run_fma_loop(kProbe); });
  const auto rounds = std::max(kProbe, static_cast<std::int64_t>(kProbe * 0.02 / probe));
  double flops = 0;
  const double seconds = fastest([&] { flops = run_fma_loop(rounds); });
  return flops / seconds * 1e-9;
}

double measure_matmul_rate() {
  constexpr std::int64_t kSize = 1536;
  const Tensor a = full({kSize, kSize}, 0.5, DType::kFloat32),
               b = full({kSize, kSize}, 0.25, DType::kFloat32);
  const Tensor c = empty_like(a);
  const double seconds = fastest([&] { matmul_into(c, {a}, {b}); });
  constexpr double kFlops = 2.0 * kSize * kSize * kSize;
  return kFlops / seconds * 1e-9;
}

}  // namespace

Ceilings measure_ceilings() {
  const MemoryPurposeScope purpose(MemoryPurpose::kWorkspace);
  return {measure_fma_rate(), measure_matmul_rate()};
}

CopyRates measure_copy_rates(std::size_t bytes) {
  const MemoryPurposeScope purpose(MemoryPurpose::kWorkspace);
  const Tensor from = zeros({static_cast<std::int64_t>(bytes / sizeof(float))}, DType::kFloat32);
  const Tensor to = zeros_like(from);
  const auto rate = [&](double seconds) { return 2.0 * static_cast<double>(to.bytes()) / seconds * 1e-9; };
  const std::int64_t share = num_chunks(to.numel(), num_threads());
  const auto one_memcpy_per_thread = [&] {
    parallel_for(to.numel(), share, [&](std::int64_t begin, std::int64_t end) {
      std::memcpy(to.data<float>() + begin, from.data<float>() + begin,
                  static_cast<std::size_t>(end - begin) * sizeof(float));
    });
  };
  return {rate(fastest([&] { to.copy_from(from); })), rate(fastest(one_memcpy_per_thread))};
}

}  // namespace moh
