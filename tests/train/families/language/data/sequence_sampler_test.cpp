#include "train/families/language/data/token_batch.h"

#include <algorithm>
#include <array>
#include <catch2/catch.hpp>
#include <cmath>
#include <map>
#include <numeric>
#include <set>
#include <vector>

#include "core/error.h"
#include "train/trainer/task/data/index_permutation.h"

using namespace moh;

namespace {

std::vector<std::int64_t> values_of(const IndexPermutation& permutation, std::int64_t size) {
  std::vector<std::int64_t> values(static_cast<std::size_t>(size));
  for (std::int64_t i = 0; i < size; ++i) values[static_cast<std::size_t>(i)] = permutation(i);
  return values;
}

}  // namespace

TEST_CASE("data: an index permutation visits every index exactly once") {
  for (std::int64_t size : {1, 2, 3, 4, 5, 15, 16, 17, 63, 64, 65, 255, 257, 1000, 4096, 4097, 70000}) {
    for (std::uint64_t seed : {0u, 1u}) {
      std::vector<std::int64_t> values = values_of(IndexPermutation(size, {seed, 9}), size);
      std::sort(values.begin(), values.end());
      std::vector<std::int64_t> all(values.size());
      std::iota(all.begin(), all.end(), 0);
      INFO("size " << size);
      CHECK(values == all);
    }
  }
}

TEST_CASE("data: an index permutation stays in range for sizes no table could hold") {
  const std::int64_t size = (std::int64_t{1} << 62) - 12345;
  const IndexPermutation permutation(size, {3, 4});
  std::set<std::int64_t> seen;
  for (std::int64_t i = 0; i < 1000; ++i) {
    const std::int64_t value = permutation(size - 1 - i);
    CHECK((value >= 0 && value < size));
    seen.insert(value);
  }
  CHECK(seen.size() == 1000);
}

TEST_CASE("data: index permutations are uniform over their keys") {
  // Where the indices 0, 1 and 2 go together, over many keys: chi-square against the uniform distribution.
  constexpr int kKeys = 24000;
  for (std::int64_t size : {3, 4, 5, 7, 10}) {
    std::map<std::array<std::int64_t, 3>, int> images;
    for (std::uint64_t key = 0; key < kKeys; ++key) {
      const IndexPermutation permutation(size, {42, key});
      ++images[{permutation(0), permutation(1), permutation(2)}];
    }
    const auto cells = static_cast<double>(size * (size - 1) * (size - 2));
    const double expected = kKeys / cells;
    double chi_square = (cells - static_cast<double>(images.size())) * expected;  // cells never hit
    for (const auto& [image, count] : images)
      chi_square += (count - expected) * (count - expected) / expected;
    INFO("size " << size << " chi-square " << chi_square << " of " << cells - 1 << " degrees of freedom");
    CHECK(chi_square < cells - 1 + 3.5 * std::sqrt(2 * (cells - 1)));
  }
}

TEST_CASE("data: an epoch visits every window once, without overlap") {
  const std::int64_t length = 7;
  for (std::int64_t num_tokens : {8, 9, 14, 15, 16, 21, 22, 100, 1000}) {
    const SequenceSampler sampler(num_tokens, length, 5);
    const std::int64_t windows = sampler.windows_per_epoch();
    CHECK(windows == std::max<std::int64_t>((num_tokens - 1) / length - 1, 1));
    for (std::int64_t epoch = 0; epoch < 20; ++epoch) {
      std::vector<std::int64_t> starts;
      for (std::int64_t i = 0; i < windows; ++i) starts.push_back(sampler.window_start(epoch * windows + i));
      std::sort(starts.begin(), starts.end());
      INFO("tokens " << num_tokens << " epoch " << epoch);
      CHECK(starts.front() >= 0);
      CHECK(starts.back() + length + 1 <= num_tokens);
      for (std::size_t i = 1; i < starts.size(); ++i) CHECK(starts[i] - starts[i - 1] == length);
    }
  }
}

TEST_CASE("data: window borders move from epoch to epoch, and all of them occur") {
  const SequenceSampler sampler(100, 10, 1);  // 99 targets: 8 windows, 19 targets of slack
  std::set<std::int64_t> offsets;
  for (std::int64_t epoch = 0; epoch < 400; ++epoch) {
    std::int64_t least = 100;
    for (std::int64_t i = 0; i < 8; ++i) least = std::min(least, sampler.window_start(epoch * 8 + i));
    offsets.insert(least);
  }
  CHECK(offsets.size() == 20);
  CHECK(*offsets.begin() == 0);
  CHECK(*offsets.rbegin() == 19);
}

TEST_CASE("data: the order is a function of seed, epoch and index") {
  const SequenceSampler a(5000, 16, 1), same(5000, 16, 1), other(5000, 16, 2);
  std::vector<std::int64_t> forward, backward, of_other;
  for (std::int64_t g = 0; g < 1000; ++g) forward.push_back(a.window_start(g));
  for (std::int64_t g = 999; g >= 0; --g) backward.push_back(same.window_start(g));
  for (std::int64_t g = 0; g < 1000; ++g) of_other.push_back(other.window_start(g));
  std::reverse(backward.begin(), backward.end());
  CHECK(forward == backward);
  CHECK(forward != of_other);

  const auto windows = static_cast<std::ptrdiff_t>(a.windows_per_epoch());
  const std::vector<std::int64_t> first(forward.begin(), forward.begin() + windows);
  const std::vector<std::int64_t> second(forward.begin() + windows, forward.begin() + 2 * windows);
  CHECK(first != second);
  CHECK(a.epoch_of(windows - 1) == 0);
  CHECK(a.epoch_of(windows) == 1);
}

TEST_CASE("data: the order stays what it was in earlier releases, so that their checkpoints resume") {
  const SequenceSampler sampler(1003854, 256, 1337);
  const std::int64_t samples[] = {0, 1, 2, 3918, 3919, 1000000};
  std::vector<std::int64_t> starts;
  for (std::int64_t sample : samples) starts.push_back(sampler.window_start(sample));
  CHECK(starts == std::vector<std::int64_t>{967583, 871327, 446623, 707999, 522143, 406032});
}

TEST_CASE("data: a text shorter than one sequence is refused") {
  CHECK_NOTHROW(SequenceSampler(9, 8, 0));
  CHECK_THROWS_AS(SequenceSampler(8, 8, 0), DataError);
  CHECK_THROWS_WITH(
      SequenceSampler(8, 8, 0),
      "data: training text: expected at least 9 tokens (sequence length + 1), found 8; add more "
      "text or lower data.sequence_length");
  CHECK_THROWS_AS(SequenceSampler(0, 8, 0), DataError);
  CHECK_THROWS_AS(SequenceSampler(100, 0, 0), ValueError);
}
