#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "train/weights/weight_names.h"

namespace moh {

/// Names in which a model and a weight file differ.
struct WeightDifferences {
  std::vector<std::string> missing;     ///< parameters without a tensor
  std::vector<std::string> unexpected;  ///< tensors without a parameter
  std::vector<std::string> mismatched;  ///< "NAME: expected [2, 3], found [3, 2]"
  /// Tensors without a parameter that say nothing which the model does not know. No difference.
  std::vector<std::string> redundant;
  /// Why the names differ, and what to do, where that is known: a prefix that the file's have, another
  /// program that wrote it.
  std::string reason;

  bool none() const { return missing.empty() && unexpected.empty() && mismatched.empty(); }
};

/// Compares names and shapes; dtypes may differ, as loading converts. `names`, of the model's family, tells
/// what is redundant; where it is null, nothing is.
WeightDifferences compare_weights(std::span<const WeightInfo> parameters, const WeightFile& weights,
                                  const WeightNames* names = nullptr);

/// "12 missing, 1 unexpected": what differs, by kind.
std::string describe(const WeightDifferences& differences);
/// The same with a line for the reason, or else one for each name; those that differ in their numbers alone
/// share one (fold_names.h).
std::string list(const WeightDifferences& differences);

/// Compares the tensors of a checkpoint with those that a model expects, by name, shape and dtype. Throws one
/// CheckpointError that lists every missing, unexpected and different one:
///   checkpoint step_1200: layers.3.attention.wq: expected [512, 512] float32, found [512, 256] float32
/// `where` is what stands in front ("checkpoint step_1200").
void check_matches(std::string_view where, std::span<const WeightInfo> expected,
                   std::span<const WeightInfo> found);

}  // namespace moh
