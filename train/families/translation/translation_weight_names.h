#pragma once

#include "train/trainer/task/weight_names.h"

namespace moh {

/// Translation models as fairseq names them (.pt files without a description), and as Hugging Face's
/// transformers does: the same names after "model.", with a config.json of model type `marian` or `fsmt`.
/// Embeddings that are shared may be stored under any of their names, or under all; tables of sinusoids are
/// computed.
class TranslationWeightNames final : public WeightNames {
 public:
  std::span<const std::string_view> model_types() const override;
  bool recognises(const ConfigJson& json) const override;
  std::unique_ptr<FamilyConfig> read_config(const std::filesystem::path& config_json) const override;
  /// Sizes by the tensors. They tell neither the number of heads, nor the activation, nor, unless fairseq
  /// wrote them, the position of the first token.
  std::unique_ptr<FamilyConfig> model_in(const WeightFile& weights,
                                         std::vector<std::string>& untold) const override;
  /// config.json of a MarianMTModel, for a dense model that it computes.
  void write_files(const std::filesystem::path& folder, const FamilyConfig& config,
                   const ModelLocation& source, std::span<const WeightInfo> tensors) const override;
  std::string exported_name(std::string_view parameter, const FamilyConfig& config) const override;
  std::vector<std::string> settings_in(const std::filesystem::path& folder) const override;
  std::vector<std::string> other_names(std::string_view parameter) const override;
  /// Embeddings once more, tables of sinusoids, and versions of fairseq.
  bool is_redundant(const WeightFile& weights, const WeightInfo& tensor) const override;
  bool rows_may_grow(std::string_view parameter) const override;
  std::string describe(const FamilyConfig& config) const override;
};

}  // namespace moh
