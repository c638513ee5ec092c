#pragma once

#include <compare>
#include <cstdint>
#include <map>
#include <set>

namespace moh::sim {

/// The settings and counters of the simulated cuBLASLt for tests. Its algorithms, by id, sum in different
/// orders, so that it shows in the bits which one ran:
///   11  one product after the other; any alignment, every epilogue
///   12  even and odd ones apart; a and the result aligned to 16 bytes, every epilogue but that of row sums
///   13  in SPLITK_NUM parts, by way of the workspace or, not reproducibly on a device, in the output; no
///   epilogue
struct Cublas {
  static Cublas& instance();

  bool has_epilogues = true;
  bool proposes_aligned_first = false;                               ///< 12 before the others
  std::set<int> refused = {};                                        ///< proposed, but not run, by id
  std::map<int, double> milliseconds = {{11, 3}, {12, 1}, {13, 2}};  ///< what a product takes, by id

  struct Call {
    int id;
    std::uint32_t epilogue;
    bool tf32;
    auto operator<=>(const Call&) const = default;
  };
  std::map<Call, int> calls;  ///< products so far
};

}  // namespace moh::sim
