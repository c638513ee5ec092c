#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "core/tensor.h"

namespace moh {

/// A class and its probability.
struct Prediction {
  std::string name;
  std::int64_t label = 0;
  double probability = 0;
};

/// Numbers that a model makes of one file, float32 on the CPU.
struct PredictedArray {
  std::string name;
  Tensor values;
};

/// Predicts the classes of files with a trained model.
class Predictor {
 public:
  virtual ~Predictor() = default;

  /// The `top` most probable classes of a file, the first one first; equally probable ones by label.
  /// `arrays`, unless it is null, gets the logits and what `features` names. Throws DataError naming a file
  /// that cannot be read or decoded, NumericError for logits that are not numbers.
  virtual std::vector<Prediction> predict(const std::filesystem::path& file, std::int64_t top,
                                          std::span<const std::string> features = {},
                                          std::vector<PredictedArray>* arrays = nullptr) const = 0;

  /// The arrays that predict() makes of any file, with values of no meaning. Throws ConfigError for features
  /// that the model does not have, and for one that is named twice.
  virtual std::vector<PredictedArray> arrays(std::span<const std::string> features) const = 0;
};

}  // namespace moh
