#pragma once

#include <span>
#include <string>
#include <vector>

#include "models/module.h"
#include "train/checkpoint/checkpoint.h"
#include "train/weights/weight_names.h"

namespace moh {

/// Names in which a model and a weight file differ.
struct WeightDifferences {
  std::vector<std::string> missing;     ///< parameters without a tensor
  std::vector<std::string> unexpected;  ///< tensors without a parameter
  std::vector<std::string> mismatched;  ///< "NAME: expected [2, 3], found [3, 2]"
  /// Tensors without a parameter that say nothing which the model does not know. No difference.
  std::vector<std::string> redundant;

  bool none() const { return missing.empty() && unexpected.empty() && mismatched.empty(); }
};

/// Compares names and shapes; dtypes may differ, as loading converts. `names`, of the model's family, tells
/// what is redundant; where it is null, nothing is.
WeightDifferences compare_weights(std::span<const NamedParameter> parameters, const WeightFile& weights,
                                  const WeightNames* names = nullptr);
WeightDifferences compare_weights(std::span<const TensorSpec> parameters, const WeightFile& weights,
                                  const WeightNames* names = nullptr);

/// "12 missing, 1 unexpected": what differs, by kind.
std::string describe(const WeightDifferences& differences);
/// The same with a line for each name; those that differ in their numbers alone share one (fold_names.h).
std::string list(const WeightDifferences& differences);

}  // namespace moh
