#pragma once

#include <cstdint>

#include "core/philox.h"
#include "core/tensor.h"

namespace moh {

/// Names one sequence of random numbers: element i of the sequence is a function of (seed, stream, i).
struct RandomKey {
  std::uint64_t seed = 0;
  std::uint64_t stream = 0;
  /// Where not null, a number in the memory of the GPU that is added to `stream` when a kernel draws, so that
  /// a captured step draws others each time. For ops only; the functions below do not take such a key.
  const std::int64_t* first_stream = nullptr;
};

/// Element `index` of the sequence as a number in [0, 1), a multiple of 2^-24.
float random_uniform(RandomKey key, std::uint64_t index);
/// Element `index` of the sequence, standard normal (Box-Muller), in double precision.
double random_normal(RandomKey key, std::uint64_t index);
/// Element `index` of the sequence as an integer in [0, bound), without bias above 2^-64 * bound. bound > 0.
std::uint64_t random_below(RandomKey key, std::uint64_t index, std::uint64_t bound);

/// Fills a floating tensor with mean + std * normal, truncated to [-cut, cut] standard deviations by drawing
/// again from the same sequence; cut = 0 means no truncation. Element i depends on (key, i) alone.
void fill_normal(const Tensor& tensor, RandomKey key, double mean, double std, double cut = 0.0);
/// Fills a floating tensor with numbers from [low, high); rounding to the dtype may reach high.
void fill_uniform(const Tensor& tensor, RandomKey key, double low, double high);

/// Hands out a fresh RandomKey per use within a training step. The keys are a function of (seed, step, number
/// of the use), so that a resumed or recomputed step draws the same numbers; state() and restore() let a
/// recomputation start where the first one did.
class Generator {
 public:
  Generator(std::uint64_t seed, std::uint64_t step) : seed_(seed), step_(step) {}
  /// Of the step that `first_stream` says, on a GPU: int64 scalar, the first_stream_of(step), which lives as
  /// long as the keys are used.
  Generator(std::uint64_t seed, const Tensor& first_stream)
      : seed_(seed), first_stream_(first_stream.data<std::int64_t>()) {}
  static std::uint64_t first_stream_of(std::uint64_t step) { return step << 20; }

  RandomKey next() { return {seed_, first_stream_of(step_) + ++uses_, first_stream_}; }
  std::uint64_t state() const { return uses_; }
  void restore(std::uint64_t state) { uses_ = state; }

 private:
  std::uint64_t seed_;
  std::uint64_t step_ = 0;
  std::uint64_t uses_ = 0;
  const std::int64_t* first_stream_ = nullptr;
};

}  // namespace moh
