#include "train/tasks/language/benchmark/python_random.h"

#include <bit>
#include <cmath>
#include <numeric>
#include <set>
#include <string>

#include "core/error.h"

namespace moh {

namespace {

constexpr std::size_t kShift = 397;

}  // namespace

PythonRandom::PythonRandom(std::uint64_t seed) {
  std::vector<std::uint32_t> key = {static_cast<std::uint32_t>(seed)};
  if (seed >> 32 != 0) key.push_back(static_cast<std::uint32_t>(seed >> 32));
  state_[0] = 19650218U;
  for (std::size_t i = 1; i < kWords; ++i)
    state_[i] = 1812433253U * (state_[i - 1] ^ (state_[i - 1] >> 30)) + static_cast<std::uint32_t>(i);
  // init_by_array of the generator's authors.
  std::size_t i = 1;
  const auto advance = [&] {
    if (++i < kWords) return;
    state_[0] = state_[kWords - 1];
    i = 1;
  };
  for (std::size_t k = 0; k < kWords; ++k, advance()) {
    const std::uint32_t before = state_[i - 1] ^ (state_[i - 1] >> 30);
    state_[i] =
        (state_[i] ^ (before * 1664525U)) + key[k % key.size()] + static_cast<std::uint32_t>(k % key.size());
  }
  for (std::size_t k = 1; k < kWords; ++k, advance()) {
    const std::uint32_t before = state_[i - 1] ^ (state_[i - 1] >> 30);
    state_[i] = (state_[i] ^ (before * 1566083941U)) - static_cast<std::uint32_t>(i);
  }
  state_[0] = 0x80000000U;
}

void PythonRandom::refill() {
  for (std::size_t i = 0; i < kWords; ++i) {
    const std::uint32_t y = (state_[i] & 0x80000000U) | (state_[(i + 1) % kWords] & 0x7fffffffU);
    state_[i] = state_[(i + kShift) % kWords] ^ (y >> 1) ^ ((y & 1U) != 0 ? 0x9908b0dfU : 0U);
  }
  at_ = 0;
}

std::uint32_t PythonRandom::next() {
  if (at_ == kWords) refill();
  std::uint32_t y = state_[at_++];
  y ^= y >> 11;
  y ^= (y << 7) & 0x9d2c5680U;
  y ^= (y << 15) & 0xefc60000U;
  return y ^ (y >> 18);
}

std::size_t PythonRandom::below(std::size_t bound) {
  const int bits = static_cast<int>(std::bit_width(bound));
  MOH_CHECK(bound > 0 && bits <= 32, "a bound of at most 32 bits");
  std::size_t drawn = bound;
  while (drawn >= bound) drawn = next() >> (32 - bits);
  return drawn;
}

std::vector<std::size_t> PythonRandom::sample(std::size_t size, std::size_t count) {
  if (count > size)
    throw ValueError(
        error_message("sample", "count", "at most " + std::to_string(size), std::to_string(count)));
  // Where a set of what was drawn takes less memory than a list of everything, Python keeps the set: the two
  // draw other numbers.
  std::size_t set_size = 21;
  if (count > 5)
    set_size += std::size_t{1} << (2 * static_cast<int>(std::ceil(std::log(static_cast<double>(count) * 3) /
                                                                  std::log(4.0))));
  std::vector<std::size_t> drawn;
  if (size <= set_size) {
    std::vector<std::size_t> pool(size);
    std::iota(pool.begin(), pool.end(), std::size_t{0});
    for (std::size_t i = 0; i < count; ++i) {
      const std::size_t j = below(size - i);
      drawn.push_back(pool[j]);
      pool[j] = pool[size - i - 1];
    }
    return drawn;
  }
  std::set<std::size_t> seen;
  while (drawn.size() < count) {
    const std::size_t j = below(size);
    if (seen.insert(j).second) drawn.push_back(j);
  }
  return drawn;
}

}  // namespace moh
