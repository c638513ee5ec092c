#pragma once

#include <optional>
#include <string>
#include <vector>

#include "models/translation/translation_config.h"
#include "train/base/formats/weight_file.h"

namespace moh {

/// Names of the three matrices of a vocabulary, and what stands before all names in files of transformers.
inline constexpr std::string_view kSourceTable = "encoder.embed_tokens.weight",
                                  kTargetTable = "decoder.embed_tokens.weight",
                                  kOutputMatrix = "decoder.output_projection.weight", kModelPrefix = "model.";

/// A translation model as far as its tensors tell it.
struct TranslationInTensors {
  TranslationConfig model;
  std::vector<std::string> untold;  ///< keys of the rest
};
/// The model in weights with these names, after "model." or without it. hidden is 0 for others.
TranslationInTensors translation_in(const WeightFile& weights);

/// The kind of a tensor [positions, D] that is a table of sinusoids, from position 0 on; rows may be zeros,
/// as that of padding is in fairseq. Nothing for other tensors.
std::optional<SinusoidKind> sinusoids_in(const WeightFile& weights, const WeightInfo& tensor);

}  // namespace moh
