#pragma once

#include <cstdint>
#include <functional>
#include <iosfwd>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "models/model.h"
#include "train/moh/analyze/head_analysis.h"
#include "train/tasks/analysis_inputs.h"

namespace moh {

/// One layer of the report.
struct LayerReport {
  LayerHeads heads;
  std::optional<HeadUse> use;      ///< absent in a dense layer, as what follows
  std::vector<HeadUse> by_source;  ///< in the order of the sources
  std::optional<HeadSimilarity> similarity;
  std::vector<std::pair<HeadGroup, FeatureRank>> rank_of_groups;
  std::vector<FeatureRank> rank_of_heads;

  /// The loads of the routed heads alone, as LayerHeads lists them; empty in a dense layer.
  std::vector<double> routed_load(const HeadUse& of) const;
};

/// How one of AnalysisInputs::token_table uses the heads.
struct TokenReport : ShownToken {
  std::vector<std::vector<double>> load;  ///< by layer and head; no heads in a dense layer
};

/// How one of AnalysisInputs::text_tokens uses them.
struct TextTokenReport : ShownToken {
  std::vector<std::vector<std::int64_t>> heads;  ///< by layer: the routed heads that it uses
};

struct HeadReport {
  std::string checkpoint;
  AnalyzedModel model;
  std::string tokenizer;
  AnalyzeOptions options;
  std::int64_t tokens = 0, similarity_tokens = 0;
  std::vector<AnalyzedSource> sources;
  std::vector<LayerReport> layers;
  std::vector<TokenReport> token_table;
  std::vector<TextTokenReport> text;
};

/// Called after each batch of tokens and, once these are through, after each layer's ranks. Returns whether
/// to go on.
struct AnalyzeProgress {
  bool ranks = false;  ///< false: tokens are counted, true: layers
  std::int64_t done = 0, total = 0;
};
using AnalyzeProgressCallback = std::function<bool(const AnalyzeProgress&)>;

/// Runs a model over inputs without gradients and reports what its heads do. The report is a function of the
/// model and the inputs, whatever the number of threads; checkpoint is left empty. Nothing when
/// the callback asked to stop. Throws ValueError for options out of range, NumericError when the model
/// computes something that is not finite.
std::optional<HeadReport> analyze_heads(const Model& model, const AnalysisInputs& inputs,
                                        const AnalyzeProgressCallback& progress);

/// The report as one JSON object (docs/analyze.md), and a newline.
std::string to_json(const HeadReport& report);
/// The gist of it as tables for people.
void write_tables(std::ostream& out, const HeadReport& report);

}  // namespace moh
