#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "core/device.h"
#include "core/dtype.h"

namespace moh {

/// What the benchmarks of attention and of its layer have in common: every combination of tokens, causal and
/// active is measured.
struct AttentionCases {
  Device device = kCpu;
  DType dtype = DType::kFloat32;
  std::int64_t batch = 1;
  std::vector<std::int64_t> tokens = {256, 1024, 2048};
  std::int64_t heads = 12;
  std::int64_t head_dim = 64;
  std::vector<bool> causal = {false};
  std::vector<double> active = {1.0, 0.75, 0.5};  ///< share of the heads that each token keeps, in (0, 1]
  int warmups = 2;                                ///< passes of each case that are not counted
  int repeats = 15;  ///< counted passes of each case, interleaved with the others
  std::uint64_t seed = 1;

  /// active * heads as a whole number, at least 1.
  std::int64_t kept_heads(double share) const;
};

/// Throws ValueError, naming `bench` and the option, unless `condition` holds.
void require_option(bool condition, std::string_view bench, std::string_view option,
                    std::string_view expected, std::string_view found);

/// Checks the options above.
void check(const AttentionCases& cases, std::string_view bench);

}  // namespace moh
