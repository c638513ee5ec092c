#include "core/random.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <numbers>
#include <set>
#include <vector>

#include "core/error.h"
#include "core/parallel.h"

using namespace moh;

namespace {

using Words = std::array<std::uint32_t, 4>;

/// Central moments of a sample: mean, variance, and the standardised third and fourth.
struct Moments {
  double mean, variance, skewness, kurtosis;
};

Moments moments(const std::vector<double>& sample) {
  const auto n = static_cast<double>(sample.size());
  double mean = 0;
  for (double x : sample) mean += x / n;
  double second = 0, third = 0, fourth = 0;
  for (double x : sample) {
    const double d = x - mean;
    second += d * d / n;
    third += d * d * d / n;
    fourth += d * d * d * d / n;
  }
  return {mean, second, third / std::pow(second, 1.5), fourth / (second * second)};
}

std::vector<double> sample_of(const Tensor& tensor) {
  const Tensor wide = tensor.to(DType::kFloat64);
  return {wide.span<double>().begin(), wide.span<double>().end()};
}

constexpr std::int64_t kCount = 200000;
/// The standard error of the mean for a unit variance.
double standard_error() {
  return 1.0 / std::sqrt(static_cast<double>(kCount));
}

}  // namespace

TEST_CASE("random: Philox4x32-10 gives the known answers of Random123") {
  constexpr std::uint64_t kOnes = ~std::uint64_t{0};
  CHECK(philox(0, 0, 0) == Words{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8});
  CHECK(philox(kOnes, kOnes, kOnes) == Words{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd});
  // Counter 243f6a88 85a308d3 13198a2e 03707344, key a4093822 299f31d0: the digits of pi.
  CHECK(philox(0x299f31d0a4093822, 0x85a308d3243f6a88, 0x0370734413198a2e) ==
        Words{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1});
}

TEST_CASE("random: numbers are a function of seed, stream and index") {
  CHECK(random_uniform({1, 2}, 3) == random_uniform({1, 2}, 3));
  std::set<float> distinct;
  for (std::uint64_t seed : {1, 2}) {
    for (std::uint64_t stream : {1, 2}) {
      for (std::uint64_t index : {1, 2}) distinct.insert(random_uniform({seed, stream}, index));
    }
  }
  CHECK(distinct.size() == 8);
}

TEST_CASE("random: uniform numbers are at least 0 and below 1, multiples of 2^-24, and evenly spread") {
  std::vector<double> sample;
  std::array<int, 16> bins{};
  for (std::uint64_t i = 0; i < kCount; ++i) {
    const float u = random_uniform({5, 0}, i);
    REQUIRE(u >= 0.0F);
    REQUIRE(u < 1.0F);
    REQUIRE(u * 0x1p24F == std::floor(u * 0x1p24F));
    sample.push_back(u);
    ++bins.at(static_cast<std::size_t>(u * 16));
  }
  const Moments m = moments(sample);
  CHECK(std::abs(m.mean - 0.5) < 4 * standard_error() * std::sqrt(1.0 / 12));
  CHECK(m.variance == Approx(1.0 / 12).epsilon(0.01));
  double chi_square = 0;
  for (int count : bins) chi_square += std::pow(count - kCount / 16.0, 2) / (kCount / 16.0);
  CHECK(chi_square < 37.7);  // 15 degrees of freedom, one chance in a thousand
}

TEST_CASE("random: normal numbers have the moments of a standard normal") {
  std::vector<double> sample;
  for (std::uint64_t i = 0; i < kCount; ++i) {
    sample.push_back(random_normal({9, 4}, i));
    REQUIRE(std::isfinite(sample.back()));
  }
  const Moments m = moments(sample);
  CHECK(std::abs(m.mean) < 4 * standard_error());
  CHECK(std::abs(m.variance - 1) < 4 * standard_error() * std::numbers::sqrt2);
  CHECK(std::abs(m.skewness) < 4 * standard_error() * std::sqrt(6.0));
  CHECK(std::abs(m.kurtosis - 3) < 4 * standard_error() * std::sqrt(24.0));
}

TEST_CASE("random: fill_normal places mean and deviation, and truncation keeps every value inside") {
  Tensor tensor = empty({kCount}, DType::kFloat32);
  fill_normal(tensor, {3, 1}, 2.0, 0.5);
  CHECK(moments(sample_of(tensor)).mean == Approx(2.0).margin(4 * 0.5 * standard_error()));
  CHECK(moments(sample_of(tensor)).variance == Approx(0.25).epsilon(0.02));

  fill_normal(tensor, {3, 1}, 0.0, 1.0, 2.0);
  const std::vector<double> truncated = sample_of(tensor);
  CHECK(std::all_of(truncated.begin(), truncated.end(), [](double x) { return std::abs(x) <= 2.0; }));
  CHECK(std::any_of(truncated.begin(), truncated.end(), [](double x) { return std::abs(x) > 1.95; }));
  // Variance of a standard normal cut at two deviations: 1 - 4 phi(2) / (2 Phi(2) - 1).
  CHECK(moments(truncated).variance == Approx(0.77374).epsilon(0.015));
  CHECK(std::abs(moments(truncated).mean) < 4 * standard_error());
}

TEST_CASE("random: a truncated value differs from the untruncated one only where that one lies outside") {
  Tensor plain = empty({5000}, DType::kFloat64), cut = empty({5000}, DType::kFloat64);
  fill_normal(plain, {8, 2}, 0.0, 1.0);
  fill_normal(cut, {8, 2}, 0.0, 1.0, 1.5);
  int redrawn = 0;
  for (std::size_t i = 0; i < 5000; ++i) {
    const double x = plain.span<double>()[i], y = cut.span<double>()[i];
    if (std::abs(x) <= 1.5) {
      REQUIRE(x == y);
    } else {
      REQUIRE(std::abs(y) <= 1.5);
      ++redrawn;
    }
  }
  CHECK(redrawn > 0);
}

TEST_CASE("random: fills depend on neither threads nor the tensor's length") {
  const int before = num_threads();
  Tensor long_one = empty({20000}, DType::kFloat32), short_one = empty({100}, DType::kFloat32);
  set_num_threads(4);
  fill_normal(long_one, {1, 1}, 0.0, 1.0);
  set_num_threads(1);
  Tensor again = empty_like(long_one);
  fill_normal(again, {1, 1}, 0.0, 1.0);
  fill_normal(short_one, {1, 1}, 0.0, 1.0);
  set_num_threads(before);
  CHECK(std::ranges::equal(long_one.span<float>(), again.span<float>()));
  CHECK(std::ranges::equal(long_one.span<float>().first(100), short_one.span<float>()));
}

TEST_CASE("random: fill_uniform stays within its bounds in every floating dtype") {
  for (DType dtype : {DType::kFloat32, DType::kBFloat16, DType::kFloat64}) {
    Tensor tensor = empty({20000}, dtype);
    fill_uniform(tensor, {4, 4}, -3.0, 5.0);
    const std::vector<double> sample = sample_of(tensor);
    CHECK(std::all_of(sample.begin(), sample.end(), [](double x) { return x >= -3.0 && x <= 5.0; }));
    CHECK(moments(sample).mean == Approx(1.0).margin(0.1));
    CHECK(moments(sample).variance == Approx(64.0 / 12).epsilon(0.05));
  }
  CHECK_THROWS_WITH(fill_uniform(empty({2}, DType::kInt64), {0, 0}, 0, 1),
                    Catch::Contains("fill_uniform: dtype"));
}

TEST_CASE("random: random_below stays below its bound, reaches every value and has no favourite") {
  std::array<int, 7> counts{};
  for (std::uint64_t i = 0; i < 70000; ++i) {
    const std::uint64_t value = random_below({6, 6}, i, 7);
    REQUIRE(value < 7);
    ++counts.at(value);
  }
  for (int count : counts) CHECK(count == Approx(10000).margin(4 * 100));
  for (std::uint64_t i = 0; i < 100; ++i) {
    CHECK(random_below({6, 6}, i, 1) == 0);
    // A bound that 32-bit arithmetic would fold.
    CHECK(random_below({6, 6}, i, std::uint64_t{1} << 63) < (std::uint64_t{1} << 63));
  }
  std::uint64_t largest = 0;
  for (std::uint64_t i = 0; i < 100; ++i)
    largest = std::max(largest, random_below({6, 6}, i, std::uint64_t{1} << 40));
  CHECK(largest > (std::uint64_t{1} << 39));
  CHECK_THROWS_AS(random_below({0, 0}, 0, 0), InternalError);
}

TEST_CASE("random: a generator's keys depend on seed, step and use, and its state can be restored") {
  Generator first(1, 10);
  const std::uint64_t start = first.state();
  const RandomKey a = first.next(), b = first.next();
  CHECK(a.stream != b.stream);
  first.restore(start);
  CHECK(first.next().stream == a.stream);
  CHECK(Generator(1, 10).next().stream == a.stream);
  CHECK(Generator(1, 11).next().stream != a.stream);
  CHECK(Generator(2, 10).next().seed != a.seed);
}

TEST_CASE("random: normal numbers are those of the formula, and the same bits on every processor") {
  const auto fraction = [](std::uint32_t high, std::uint32_t low) {
    return static_cast<long double>((std::uint64_t{high} << 32 | low) >> 11) * 0x1p-53L;
  };
  for (std::uint64_t i = 0; i < kCount; ++i) {
    const Words words = philox(9, i, 4);
    const long double radius = std::sqrt(-2 * std::log1p(-fraction(words[0], words[1])));
    const long double turn = 2 * std::numbers::pi_v<long double>;
    const long double expected = radius * std::cos(turn * fraction(words[2], words[3]));
    REQUIRE(std::abs(random_normal({9, 4}, i) - expected) <= 4 * 0x1p-53L * radius);
  }
  CHECK(random_normal({1, 2}, 3) == -0x1.fa2e18a6ad272p+0);
  CHECK(random_normal({1, 2}, 4) == -0x1.c4f80daa730ffp+0);
  CHECK(random_normal({0, 0}, std::uint64_t{1} << 40) == 0x1.82c259d1b4efap-2);
}

TEST_CASE("random: fills have the numbers of their sequence, in every vector and chunk") {
  Tensor normals = empty({10007}, DType::kFloat64), uniforms = empty({10007}, DType::kFloat64);
  fill_normal(normals, {3, 5}, 0.0, 1.0);
  fill_uniform(uniforms, {3, 5}, 0.0, 1.0);
  for (std::uint64_t i = 0; i < 10007; ++i) {
    REQUIRE(normals.span<double>()[i] == random_normal({3, 5}, i));
    REQUIRE(uniforms.span<double>()[i] == random_uniform({3, 5}, i));
  }
}

TEST_CASE("random: many normal numbers at once are those of the sequence, rounded") {
  for (const std::size_t count : {0, 1, 255, 256, 700}) {
    std::vector<float> numbers(count);
    random_normals({3, 5}, 1000, numbers);
    for (std::size_t i = 0; i < count; ++i)
      REQUIRE(numbers[i] == static_cast<float>(random_normal({3, 5}, 1000 + i)));
  }
}
