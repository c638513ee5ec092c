#pragma once

#include <optional>
#include <string>

#include "train/formats/weight_file.h"

namespace moh {

/// What `moh checkpoint info` shows.
struct WeightSummary {
  const WeightFile* weights = nullptr;
  std::string model;                ///< a line about the model; empty when nothing describes it
  std::optional<std::string> hash;  ///< content_hash(), when it was asked for
};

/// "name  value" lines, then one line per tensor; with `all` false, tensors that differ in the numbers of
/// their names alone share a line.
std::string describe(const WeightSummary& summary, bool all);

/// One JSON object: path, format, metadata, model, parameters, bytes, dtypes (name -> tensors, parameters,
/// bytes), hash, and tensors (name, dtype, shape, bytes), each listed.
std::string to_json(const WeightSummary& summary);

/// The format, and which of the models in the file this is, where there are several: "PyTorch, ema of model,
/// ema".
std::string format_and_part(const WeightFile& weights);

}  // namespace moh
