#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "train/weights/parameter_names.h"

namespace moh {

/// The differences between the parameters of a model and the tensors of a file.
struct WeightDifferences {
  std::vector<std::string> missing;     ///< parameters without a tensor
  std::vector<std::string> unexpected;  ///< tensors without a parameter
  std::vector<std::string> mismatched;  ///< "NAME: expected [2, 3], found [3, 2]"
  /// Tensors without a parameter whose contents the model can compute. They do not count as differences.
  std::vector<std::string> redundant;
  /// Why the names differ and how to fix it, if known: a prefix of the file's names, another program that
  /// wrote it.
  std::string reason;

  bool none() const { return missing.empty() && unexpected.empty() && mismatched.empty(); }
};

/// Compares names and shapes; dtypes may differ, as loading converts. `names`, of the model's family, decides
/// which tensors are redundant; if null, none are.
WeightDifferences compare_weights(std::span<const WeightInfo> parameters, const WeightFile& weights,
                                  const ParameterNames* names = nullptr);

/// The number of differences by kind: "12 missing, 1 unexpected".
std::string describe(const WeightDifferences& differences);
/// Lists the differences with a line for the reason, if known, else one for each name; names that differ only
/// in layer numbers share a line (fold_names.h).
std::string list(const WeightDifferences& differences);

/// Compares the tensors of a checkpoint with those that a model expects, by name, shape and dtype. Throws one
/// CheckpointError that lists all missing, unexpected and differing ones:
///   checkpoint step_1200: layers.3.attention.wq: expected [512, 512] float32, found [512, 256] float32
/// `where` is the beginning of the message ("checkpoint step_1200").
void check_matches(std::string_view where, std::span<const WeightInfo> expected,
                   std::span<const WeightInfo> found);

}  // namespace moh
