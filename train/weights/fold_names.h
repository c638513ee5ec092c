#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "train/formats/weight_file.h"

namespace moh {

/// Tensors that differ in the numbers of their names alone ("layers.0.", "layers.1."), of one type and shape.
struct FoldedTensors {
  std::string name;  ///< with a range in place of numbers that differ: "layers.{0-31}.mlp.up_proj.weight"
  const WeightInfo* first = nullptr;
  std::size_t count = 0;
};

/// In the order of the first of each.
std::vector<FoldedTensors> fold_tensors(std::span<const WeightInfo> tensors);

/// The same for names, "layers.{0-31}.rotary_emb.inv_freq (32)", and for lines "NAME: what is wrong": one for
/// all names of which the same is wrong.
std::vector<std::string> fold_lines(std::span<const std::string> lines);

}  // namespace moh
