#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace moh {

/// A class and its probability.
struct Prediction {
  std::string name;
  std::int64_t label = 0;
  double probability = 0;
};

/// Predicts the classes of files with a trained model.
class Predictor {
 public:
  virtual ~Predictor() = default;

  /// The `top` most probable classes of a file, the first one first; equally probable ones by label. Throws
  /// DataError naming a file that cannot be read or decoded, NumericError for logits that are not numbers.
  virtual std::vector<Prediction> predict(const std::filesystem::path& file, std::int64_t top) const = 0;
};

}  // namespace moh
