#pragma once

#include <cstdint>
#include <functional>
#include <iosfwd>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "models/model.h"
#include "train/comm/communicator.h"
#include "train/heads/analyze/head_analysis.h"
#include "train/heads/analyze/head_dump.h"
#include "train/trainer/task/analysis_inputs.h"

namespace moh {

/// One layer of the report.
struct LayerReport {
  LayerHeads heads;
  std::optional<HeadUse> use;      ///< absent in a dense layer
  std::vector<HeadUse> by_source;  ///< in the order of HeadReport::sources; empty in a dense layer
  std::optional<HeadSimilarity> similarity;
  std::vector<std::pair<HeadGroup, FeatureRank>> rank_of_groups;
  std::vector<FeatureRank> rank_of_heads;

  /// The loads of the routed heads, in the order of LayerHeads::routed; empty in a dense layer.
  std::vector<double> routed_load(const HeadUse& of) const;
};

/// A token of AnalysisInputs::token_table and the heads that it selects.
struct TokenReport : ShownToken {
  std::vector<std::vector<double>> load;  ///< [layer][head]; empty for a dense layer
};

/// A token of AnalysisInputs::text_tokens and the heads that it selects.
struct TextTokenReport : TextToken {
  /// By layer: its selected routed heads; none in layers of the other side.
  std::vector<std::vector<std::int64_t>> heads;
};

struct HeadReport {
  std::string checkpoint;
  AnalyzedModel model;
  std::string unit;  ///< of `tokens` and of the sources' numbers
  std::string tokenizer;
  AnalyzeOptions options;
  std::int64_t tokens = 0, similarity_tokens = 0;
  std::vector<AnalyzedSource> sources;
  std::vector<LayerReport> layers;
  std::vector<TokenReport> token_table;
  std::vector<TextTokenReport> text;
};

struct AnalyzeProgress {
  bool ranks = false;  ///< false: `done` and `total` are tokens; true: layers whose ranks are computed
  std::int64_t done = 0, total = 0;
};
/// Called after each batch of tokens and then after each layer's ranks. Returns whether to continue.
using AnalyzeProgressCallback = std::function<bool(const AnalyzeProgress&)>;

/// Runs a model over inputs without gradients and reports how its heads are used, how similar they are and
/// which ranks their features have. The result does not depend on the number of threads;
/// HeadReport::checkpoint is left empty. Returns nothing if the callback stopped it. Throws ValueError for
/// options out of range or for more processes than passes, NumericError when head outputs are not finite.
///
/// Several processes take the passes in turns; the callback of any of them stops all. The report is that of
/// process 0: in the others it is incomplete. It differs from that of one process by rounding. With a `dump`,
/// which only one process can have, it observes the passes, too.
std::optional<HeadReport> analyze_heads(const Model& model, const AnalysisInputs& inputs,
                                        const AnalyzeProgressCallback& progress,
                                        Communicator& processes = one_process(), HeadDump* dump = nullptr);

/// The report as one JSON object (docs/analyze.md) and a newline.
std::string to_json(const HeadReport& report);
/// Writes a summary as text tables.
void write_tables(std::ostream& out, const HeadReport& report);

}  // namespace moh
