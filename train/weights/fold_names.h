#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "train/formats/weight_file.h"

namespace moh {

/// Things that differ in the numbers of their names alone ("layers.0.", "layers.1.").
struct FoldedNames {
  std::string name;  ///< with a range in place of numbers that differ: "layers.{0-31}.mlp.up_proj.weight"
  std::size_t first = 0;  ///< index of the first of them
  std::size_t count = 0;
};

inline constexpr std::size_t kMostFoldedLines = 40;

/// Tensors of one type and shape share a line. In the order of the first of each.
std::vector<FoldedNames> fold_tensors(std::span<const WeightInfo> tensors);

/// The same for names, "layers.{0-31}.rotary_emb.inv_freq (32)", and for lines "NAME: what is wrong": one for
/// all names of which the same is wrong. At most kMostFoldedLines, then "... and 12 more": a file can list as
/// many names as it likes.
std::vector<std::string> fold_lines(std::span<const std::string> lines);

}  // namespace moh
