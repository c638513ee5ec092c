#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "train/base/formats/weight_file.h"

namespace moh {

/// How the names of a model's parameters and those of tensors in files belong together, where they are not
/// equal. The base class is for models whose files have a tensor of the parameter's name each.
class ParameterNames {
 public:
  virtual ~ParameterNames() = default;

  /// Other names that a file may have for the parameter, those that go first first: of another program, or
  /// where one tensor has several names and the file keeps one of them, as the output matrix of a tied
  /// embedding.
  virtual std::vector<std::string> other_names(std::string_view /*parameter*/) const { return {}; }
  /// is_redundant(weights, tensor): whether a tensor without a parameter contains nothing new (a table that
  /// moh computes, an output matrix that is bit-identical to the tied embedding). Throws CheckpointError.
  virtual bool is_redundant(const WeightFile&, const WeightInfo&) const { return false; }
};

}  // namespace moh
