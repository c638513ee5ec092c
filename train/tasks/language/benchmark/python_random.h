#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace moh {

/// Python's random.Random as far as lm-evaluation-harness draws examples with it: the same seed gives the
/// same examples. The generator is MT19937 (Matsumoto and Nishimura 1998), seeded by an array as Python seeds
/// it with an integer.
class PythonRandom {
 public:
  explicit PythonRandom(std::uint64_t seed);

  /// random.sample(range(size), count), as of Python 3.11. Throws ValueError for count above size.
  std::vector<std::size_t> sample(std::size_t size, std::size_t count);
  /// 32 bits.
  std::uint32_t next();

 private:
  static constexpr std::size_t kWords = 624;

  void refill();
  /// A number below `bound`, which is at least 1.
  std::size_t below(std::size_t bound);

  std::array<std::uint32_t, kWords> state_{};
  std::size_t at_ = kWords;
};

}  // namespace moh
