#pragma once

#include <cstdint>
#include <functional>
#include <iosfwd>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "models/llm/llama.h"
#include "train/analyze/analysis_sequences.h"
#include "train/analyze/head_analysis.h"
#include "train/data/tokenizer.h"

namespace moh {

/// A text, or several, under a name.
struct AnalysisSource {
  std::string name;
  TokenSourcePtr tokens;
};

struct AnalyzeOptions {
  std::int64_t sequence_length = 0;
  std::int64_t batch_size = 0;            ///< sequences of a forward pass
  std::int64_t max_tokens = 65536;        ///< of each source; 0: all
  std::int64_t similarity_tokens = 8192;  ///< of all sources together, whose heads are compared
  std::int64_t top_tokens = 32;           ///< most frequent tokens in the table of tokens
  std::vector<std::string> tokens;        ///< texts of one token each that it shows instead
  std::string text;                       ///< whose tokens are shown one by one; empty: none
  double rank_tolerance = 0.01;           ///< smallest singular value that counts, over the largest
};

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

/// How one of the frequent or chosen tokens uses the heads.
struct TokenReport {
  TokenId id = 0;
  std::string text;                       ///< printable
  std::int64_t count = 0;                 ///< in what was analysed
  std::vector<std::vector<double>> load;  ///< by layer and head; no heads in a dense layer
};

/// A token of AnalyzeOptions::text.
struct TextTokenReport {
  TokenId id = 0;
  std::string text;                              ///< printable
  std::vector<std::vector<std::int64_t>> heads;  ///< by layer: the routed heads that it uses
};

struct SourceReport {
  std::string name;
  std::int64_t tokens = 0;  ///< that were analysed
  std::int64_t available = 0;
};

struct HeadReport {
  std::string checkpoint;
  LlamaConfig model;
  std::string tokenizer;
  AnalyzeOptions options;
  std::int64_t tokens = 0, similarity_tokens = 0;
  std::vector<SourceReport> sources;
  std::vector<LayerReport> layers;
  std::vector<TokenReport> token_table;  ///< most frequent first
  std::vector<TextTokenReport> text;
};

/// Called after each batch of tokens and, once these are through, after each layer's ranks. Returns whether
/// to go on.
struct AnalyzeProgress {
  bool ranks = false;  ///< false: tokens are counted, true: layers
  std::int64_t done = 0, total = 0;
};
using AnalyzeProgressCallback = std::function<bool(const AnalyzeProgress&)>;

/// Runs a model over texts without gradients and reports what its heads do. The report is a function of the
/// model, the texts and the options, whatever the number of threads; checkpoint is left empty. Nothing when
/// the callback asked to stop. Throws ValueError for options out of range, DataError for texts that cannot be
/// used, NumericError when the model computes something that is not finite.
std::optional<HeadReport> analyze_heads(const Llama& model, const Tokenizer& tokenizer,
                                        const std::vector<AnalysisSource>& sources,
                                        const AnalyzeOptions& options,
                                        const AnalyzeProgressCallback& progress);

/// The report as one JSON object (docs/analyze.md), and a newline.
std::string to_json(const HeadReport& report);
/// The gist of it as tables for people.
void write_tables(std::ostream& out, const HeadReport& report);

}  // namespace moh
