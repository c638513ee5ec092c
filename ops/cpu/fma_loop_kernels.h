#pragma once

#include <cstdint>

namespace moh {

/// sum_{k+1} = sum_k * factor + term, `rounds` times, in flops_per_round() / 2 independent lanes. Of T =
/// bfloat16, where products are of pairs: sum_{k+1} = sum_k + 2 factor * term, in half as many; of a step in
/// tiles, sum_k + 32 factor * term.
template <class Backend, class T>
struct FmaLoopKernels {
  /// Returns the sum of the final values of all lanes, so that the loop cannot be optimised away.
  static float run(std::int64_t rounds, float factor, float term);
  /// Floating-point operations in a round.
  static std::int64_t flops_per_round();
};

}  // namespace moh
