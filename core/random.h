#pragma once

#include <cstdint>
#include <span>

#include "core/philox.h"
#include "core/tensor.h"

namespace moh {

/// Names one sequence of random numbers: element i of the sequence is a function of (seed, stream, i).
struct RandomKey {
  std::uint64_t seed = 0;
  std::uint64_t stream = 0;
  /// If not null, a number in device memory that kernels add to `stream`, so that each launch of a captured
  /// step draws other numbers. For ops only; the functions below do not take such a key.
  const std::int64_t* first_stream = nullptr;
};

/// Element `index` of the sequence as a number in [0, 1), a multiple of 2^-24.
float random_uniform(RandomKey key, std::uint64_t index);
/// Element `index` of the sequence, standard normal (Box-Muller), in double precision.
double random_normal(RandomKey key, std::uint64_t index);
/// Element `index` of the sequence as an integer in [0, bound); the bias is at most 2^-64 * bound. bound > 0.
std::uint64_t random_below(RandomKey key, std::uint64_t index, std::uint64_t bound);
/// Elements first, first + 1, ... of the sequence: random_normal() of each, rounded to float, many at a time.
/// Not parallel.
void random_normals(RandomKey key, std::uint64_t first, std::span<float> to);

/// Fills a floating tensor with mean + std * normal, truncated to [-cut, cut] standard deviations by
/// rejection; cut = 0: no truncation. Element i depends on (key, i) alone.
void fill_normal(const Tensor& tensor, RandomKey key, double mean, double std, double cut = 0.0);
/// Fills a floating tensor with numbers from [low, high); rounding to the dtype may reach high.
void fill_uniform(const Tensor& tensor, RandomKey key, double low, double high);

/// Returns a new RandomKey for each use within a training step. The keys are a function of (seed, step,
/// number of the use), so that a resumed or recomputed step draws the same numbers; state() and restore()
/// rewind the generator for a recomputation.
class Generator {
 public:
  Generator(std::uint64_t seed, std::uint64_t step) : seed_(seed), step_(step) {}
  /// With the step in device memory, for a captured graph: `first_stream` is an int64 scalar on the GPU that
  /// holds first_stream_of(step) and must live as long as the keys are used.
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
