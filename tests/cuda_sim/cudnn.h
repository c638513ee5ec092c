#pragma once

#include <compare>
#include <cstddef>
#include <map>
#include <optional>

namespace moh::sim {

/// The settings and counters of the simulated cuDNN for tests. For each direction it first proposes an
/// algorithm that adds up in no fixed order, then one that fails, one by FFT, and one that works.
struct Cudnn {
  static Cudnn& instance();

  bool has_reproducible = true;        ///< proposes an algorithm that gives the same bits in each run
  bool knows_reproducible = true;      ///< computes by it, whoever asks for it
  std::size_t workspace_bytes = 1000;  ///< what that one needs; proposals say half of it
  /// Math type of proposals (cudnnMathType_t); none: that of the descriptor.
  std::optional<int> proposed_math = {};

  enum class Direction { kForward, kData, kWeights };
  struct Call {
    Direction direction;
    int data_type, math;  ///< cudnnDataType_t, cudnnMathType_t
    auto operator<=>(const Call&) const = default;
  };
  std::map<Call, int> calls;  ///< convolutions so far
  int queries = 0;            ///< for algorithms
  int descriptors = 0;        ///< that are not destroyed; kept when tests reset the rest
};

}  // namespace moh::sim
