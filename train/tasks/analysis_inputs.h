#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "core/tensor.h"
#include "models/forward_context.h"

namespace moh {

/// What an analysis of heads (train/moh/analyze) is to look at.
struct AnalyzeOptions {
  std::int64_t sequence_length = 0;       ///< 0: as in the run's training
  std::int64_t batch_size = 0;            ///< sequences, or images, of a forward pass; 0: as in the run
  std::int64_t max_tokens = 65536;        ///< of each source; 0: all
  std::int64_t similarity_tokens = 8192;  ///< of all sources together, whose heads are compared
  std::int64_t top_tokens = 32;           ///< most frequent tokens in the table of tokens
  std::vector<std::string> tokens;        ///< texts of one token each that it shows instead
  std::string text;                       ///< whose tokens are shown one by one; empty: none
  double rank_tolerance = 0.01;           ///< smallest singular value that counts, over the largest
};

/// Files and folders whose inputs are analysed together, under a name.
struct AnalyzedFiles {
  std::string name;
  std::vector<std::string> paths;
};

/// The sizes of a model that is analysed.
struct AnalyzedModel {
  std::int64_t layers = 0, hidden = 0, heads = 0, kv_heads = 0, head_dim = 0;
  std::int64_t vocab_size = 0;  ///< 0 where tokens have no ids
};

/// Inputs under a name, for which the use of heads is counted apart: texts, or the images of a class.
struct AnalyzedSource {
  std::string name;
  std::int64_t tokens = 0;  ///< that are analysed
  std::int64_t available = 0;
};

/// A token that people see.
struct ShownToken {
  std::int32_t id = 0;
  std::string text;        ///< printable
  std::int64_t count = 0;  ///< in what is analysed
};

/// Inputs of one forward pass: B sequences, or images, of T tokens.
struct AnalysisPass {
  Tensor inputs;                      ///< as AnalysisInputs::forward takes them
  Tensor ids;                         ///< [B, T] int64, of the tokens; undefined where these have none
  std::vector<std::int32_t> sources;  ///< [B T], of the tokens, by number
  std::vector<bool> for_similarity;   ///< [B]: whether heads are compared on this sequence
};

/// What a model is analysed on, as its family prepares it. The model outlives it.
struct AnalysisInputs {
  AnalyzeOptions options;  ///< with the run's values where 0 stood for them
  AnalyzedModel model;
  std::string tokenizer;                ///< its name; empty without one
  std::vector<AnalyzedSource> sources;  ///< not empty, of one token or more each
  std::int64_t similarity_tokens = 0;   ///< that stand in sequences for_similarity
  std::vector<ShownToken> token_table;  ///< different ids whose use of heads is reported
  Tensor text;                          ///< inputs whose tokens are reported one by one; undefined: none
  std::vector<ShownToken> text_tokens;  ///< these, in order; their counts are not set

  std::int64_t num_passes = 0;
  std::function<AnalysisPass(std::int64_t index)> pass;
  /// Runs the model on inputs.
  std::function<void(const Tensor& inputs, const ForwardContext& context)> forward;
};

}  // namespace moh
