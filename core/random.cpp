#include "core/random.h"

#include <cmath>
#include <numbers>

#include "core/error.h"
#include "core/parallel.h"
#include "core/philox.h"

namespace moh {

namespace {

constexpr std::int64_t kGrain = 1 << 12;

__extension__ using Uint128 = unsigned __int128;

std::array<std::uint32_t, 4> words_at(RandomKey key, std::uint64_t index, std::uint32_t attempt) {
  // The seed is the key; stream and attempt share the upper half of the counter.
  return philox(key.seed, index, key.stream ^ (static_cast<std::uint64_t>(attempt) << 56));
}

double normal_at(RandomKey key, std::uint64_t index, std::uint32_t attempt) {
  const auto words = words_at(key, index, attempt);
  const auto wide = [](std::uint32_t high, std::uint32_t low) {
    return ((static_cast<std::uint64_t>(high) << 32 | low) >> 11) * 0x1p-53;
  };
  const double radius = std::sqrt(-2.0 * std::log1p(-wide(words[0], words[1])));
  return radius * std::cos(2.0 * std::numbers::pi * wide(words[2], words[3]));
}

double truncated_normal_at(RandomKey key, std::uint64_t index, double cut) {
  // 255 attempts: with cut >= 1 the chance that all fall outside is below 1e-127.
  for (std::uint32_t attempt = 0; attempt < 255; ++attempt) {
    const double value = normal_at(key, index, attempt);
    if (cut == 0.0 || std::abs(value) <= cut) return value;
  }
  return 0.0;
}

/// Draws on the CPU, so that initial values are the same on every device; the cost arises once a model.
template <class Fill>
void fill_from_cpu(const Tensor& tensor, const Fill& fill) {
  const Tensor on_cpu = empty(tensor.shape(), tensor.dtype());
  fill(on_cpu);
  tensor.copy_from(on_cpu);
}

}  // namespace

float random_uniform(RandomKey key, std::uint64_t index) {
  return static_cast<float>(words_at(key, index, 0)[0] >> 8) * 0x1p-24F;
}

double random_normal(RandomKey key, std::uint64_t index) {
  return normal_at(key, index, 0);
}

std::uint64_t random_below(RandomKey key, std::uint64_t index, std::uint64_t bound) {
  MOH_CHECK(bound > 0, "random_below: bound must be positive");
  const auto words = words_at(key, index, 0);
  const std::uint64_t wide = static_cast<std::uint64_t>(words[0]) << 32 | words[1];
  return static_cast<std::uint64_t>(static_cast<Uint128>(wide) * bound >> 64);
}

void fill_normal(const Tensor& tensor, RandomKey key, double mean, double std, double cut) {
  MOH_CHECK(cut == 0.0 || cut >= 1.0, "fill_normal: cut must be 0 or at least 1 standard deviation");
  if (tensor.device() != kCpu)
    return fill_from_cpu(tensor, [&](const Tensor& t) { fill_normal(t, key, mean, std, cut); });
  visit_floating(tensor.dtype(), "fill_normal", [&]<class T>() {
    T* to = tensor.data<T>();
    parallel_for(tensor.numel(), kGrain, [=](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) {
        const double value = mean + std * truncated_normal_at(key, static_cast<std::uint64_t>(i), cut);
        to[i] = static_cast<T>(static_cast<Acc<T>>(value));
      }
    });
  });
}

void fill_uniform(const Tensor& tensor, RandomKey key, double low, double high) {
  if (tensor.device() != kCpu)
    return fill_from_cpu(tensor, [&](const Tensor& t) { fill_uniform(t, key, low, high); });
  visit_floating(tensor.dtype(), "fill_uniform", [&]<class T>() {
    T* to = tensor.data<T>();
    parallel_for(tensor.numel(), kGrain, [=](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) {
        const double value = low + (high - low) * random_uniform(key, static_cast<std::uint64_t>(i));
        to[i] = static_cast<T>(static_cast<Acc<T>>(value));
      }
    });
  });
}

}  // namespace moh
