#pragma once

#include <optional>
#include <string>

#include "train/base/formats/weight_file.h"

namespace moh {

/// The content of `moh checkpoint info`.
struct WeightSummary {
  const WeightFile* weights = nullptr;
  std::string model;                ///< a line about the model; empty if there is no configuration
  std::optional<std::string> hash;  ///< content_hash(), if requested
};

/// "name  value" lines, then one line per tensor; unless `all`, tensors that differ only in the layer numbers
/// of their names share a line.
std::string describe(const WeightSummary& summary, bool all);

/// One JSON object: path, format, metadata, model, parameters, bytes, dtypes (name -> tensors, parameters,
/// bytes), hash, and tensors (name, dtype, shape, bytes), each listed.
std::string to_json(const WeightSummary& summary);

/// The format, and for a file with several models the one that was opened: "PyTorch, ema of model, ema".
std::string format_and_part(const WeightFile& weights);

}  // namespace moh
