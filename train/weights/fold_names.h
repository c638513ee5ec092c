#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "train/base/formats/weight_file.h"

namespace moh {

/// A group of names that differ only in numbers ("layers.0.", "layers.1.").
struct FoldedNames {
  std::string name;       ///< with ranges in place of differing numbers: "layers.{0-31}.mlp.up_proj.weight"
  std::size_t first = 0;  ///< index of the first name of the group
  std::size_t count = 0;
};

inline constexpr std::size_t kMostFoldedLines = 40;

/// Groups tensors of the same type and shape, in the order of the first of each group.
std::vector<FoldedNames> fold_tensors(std::span<const WeightInfo> tensors);

/// Folds names, "layers.{0-31}.rotary_emb.inv_freq (32)", and lines "NAME: message", of which those with the
/// same message form a group. At most kMostFoldedLines, then "... and 12 more", as the number of names in a
/// file is not bounded.
std::vector<std::string> fold_lines(std::span<const std::string> lines);

}  // namespace moh
