#include "core/random.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstddef>
#include <iterator>
#include <numbers>

#include "core/error.h"
#include "core/parallel.h"
#include "core/philox.h"

namespace moh {

namespace {

constexpr std::int64_t kGrain = 1 << 12;

__extension__ using Uint128 = unsigned __int128;

[[gnu::always_inline]] inline std::array<std::uint32_t, 4> words_at(RandomKey key, std::uint64_t index,
                                                                    std::uint32_t attempt) {
  // The seed is the key; stream and attempt share the upper half of the counter.
  return philox(key.seed, index, key.stream ^ (static_cast<std::uint64_t>(attempt) << 56));
}

// Below, operations that every processor rounds alike, in this order (this file is compiled without fused
// multiply-adds): the same bits everywhere, in a vector as well as alone. The polynomials are fdlibm's.

/// c[0] + x (c[1] + x (c[2] + ...)).
template <std::size_t kCount>
[[gnu::always_inline]] inline double polynomial(double x, const double (&c)[kCount]) {
  double sum = c[kCount - 1];
  for (std::size_t i = kCount - 1; i-- > 0;) sum = c[i] + x * sum;
  return sum;
}

/// log(x) of a normal number x > 0.
[[gnu::always_inline]] inline double log_of(double x) {
  constexpr double kLn2High = 6.93147180369123816490e-01, kLn2Low = 1.90821492927058770002e-10;
  constexpr double kSeries[] = {6.666666666666735130e-01, 3.999999999940941908e-01, 2.857142874366239149e-01,
                                2.222219843214978396e-01, 1.818357216161805012e-01, 1.531383769920937332e-01,
                                1.479819860511658591e-01};
  // x = m 2^n, m from [sqrt(1/2), sqrt(2)); vectors have no conversion from 64-bit integers: n is added to a
  // mantissa instead.
  constexpr auto kRootHalf = std::bit_cast<std::uint64_t>(0.5 * std::numbers::sqrt2);
  constexpr std::uint64_t kBias = 1024;
  const auto bits = std::bit_cast<std::uint64_t>(x);
  const std::uint64_t biased = (bits - kRootHalf + (kBias << 52)) >> 52;
  const double m = std::bit_cast<double>(bits - ((biased - kBias) << 52));
  const double n =
      std::bit_cast<double>(biased | std::bit_cast<std::uint64_t>(0x1p52)) - (0x1p52 + double{kBias});
  const double f = m - 1, s = f / (2 + f), z = s * s, half = 0.5 * f * f;
  const double rest = z * polynomial(z, kSeries);
  return n * kLn2High - ((half - (s * (half + rest) + n * kLn2Low)) - f);
}

/// cos(2 pi u) of 0 <= u < 1.
[[gnu::always_inline]] inline double cosine_of_turns(double u) {
  constexpr double kSine[] = {-1.66666666666666324348e-01, 8.33333333332248946124e-03,
                              -1.98412698298579493134e-04, 2.75573137070700676789e-06,
                              -2.50507602534068634195e-08, 1.58969099521155010221e-10};
  constexpr double kCosine[] = {4.16666666666666019037e-02, -1.38888888888741095749e-03,
                                2.48015872894767294178e-05, -2.75573143513906633035e-07,
                                2.08757232129817482790e-09, -1.13596475577881948265e-11};
  constexpr double kRound = 0x1.8p52;  // a sum with it is rounded to an integer, in its lowest bits
  const double shifted = 4 * u + kRound;
  const auto quarter = std::bit_cast<std::uint64_t>(shifted);
  const double y = (4 * u - (shifted - kRound)) * (std::numbers::pi / 2), z = y * y;  // |y| <= pi / 4
  const double sine = y + y * (z * polynomial(z, kSine));
  const double cosine = 1 - (0.5 * z - z * z * polynomial(z, kCosine));
  // GCC 12 makes a branch of ?:, and no vectors.
  const std::uint64_t odd = 0 - (quarter & 1), sign = ((quarter + 1) & 2) << 62;
  const std::uint64_t value =
      (std::bit_cast<std::uint64_t>(sine) & odd) | (std::bit_cast<std::uint64_t>(cosine) & ~odd);
  return std::bit_cast<double>(value ^ sign);
}

[[gnu::always_inline]] inline float uniform_at(RandomKey key, std::uint64_t index) {
  return static_cast<float>(static_cast<std::int32_t>(words_at(key, index, 0)[0] >> 8)) * 0x1p-24F;
}

/// The upper 53 of 64 bits as a multiple of 2^-53 in [0, 1), by way of integers that vectors can convert.
[[gnu::always_inline]] inline double fraction_of(std::uint32_t high, std::uint32_t low) {
  const double upper = static_cast<double>(static_cast<std::int32_t>(high ^ 0x80000000U)) + 0x1p31;
  return upper * 0x1p-32 + static_cast<double>(static_cast<std::int32_t>(low >> 11)) * 0x1p-53;
}

[[gnu::always_inline]] inline double normal_at(RandomKey key, std::uint64_t index, std::uint32_t attempt) {
  const auto words = words_at(key, index, attempt);
  const double radius = std::sqrt(-2 * log_of(1 - fraction_of(words[0], words[1])));
  return radius * cosine_of_turns(fraction_of(words[2], words[3]));
}

/// Elements [begin, end) of the sequence.
void normals(RandomKey key, std::int64_t begin, std::int64_t end, double* to) {
#pragma omp simd
  for (std::int64_t i = begin; i < end; ++i) to[i - begin] = normal_at(key, static_cast<std::uint64_t>(i), 0);
}

/// The first of further attempts that is within the cut.
double redrawn_normal(RandomKey key, std::uint64_t index, double cut) {
  // 255 attempts in all: with cut >= 1 the chance that all fall outside is below 1e-127.
  for (std::uint32_t attempt = 1; attempt < 255; ++attempt) {
    const double value = normal_at(key, index, attempt);
    if (std::abs(value) <= cut) return value;
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
  return uniform_at(key, index);
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

void random_normals(RandomKey key, std::uint64_t first, std::span<float> to) {
  double block[256];
  while (!to.empty()) {
    const std::size_t count = std::min(to.size(), std::size(block));
    normals(key, static_cast<std::int64_t>(first), static_cast<std::int64_t>(first + count), block);
    for (std::size_t i = 0; i < count; ++i) to[i] = static_cast<float>(block[i]);
    first += count;
    to = to.subspan(count);
  }
}

void fill_normal(const Tensor& tensor, RandomKey key, double mean, double std, double cut) {
  MOH_CHECK(cut == 0.0 || cut >= 1.0, "fill_normal: cut must be 0 or at least 1 standard deviation");
  if (tensor.device() != kCpu)
    return fill_from_cpu(tensor, [&](const Tensor& t) { fill_normal(t, key, mean, std, cut); });
  visit_floating(tensor.dtype(), "fill_normal", [&]<class T>() {
    T* to = tensor.data<T>();
    parallel_for(tensor.numel(), kGrain, [=](std::int64_t begin, std::int64_t end) {
      double normal[kGrain];
      normals(key, begin, end, normal);
      for (std::int64_t i = begin; i < end; ++i) {
        double& value = normal[i - begin];
        if (cut > 0 && std::abs(value) > cut) value = redrawn_normal(key, static_cast<std::uint64_t>(i), cut);
        to[i] = static_cast<T>(static_cast<Acc<T>>(mean + std * value));
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
#pragma omp simd
      for (std::int64_t i = begin; i < end; ++i) {
        const double value = low + (high - low) * uniform_at(key, static_cast<std::uint64_t>(i));
        to[i] = static_cast<T>(static_cast<Acc<T>>(value));
      }
    });
  });
}

}  // namespace moh
