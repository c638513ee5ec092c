#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "core/tensor.h"
#include "models/forward_context.h"

namespace moh {

/// Options of the analysis of heads (train/heads/analyze).
struct AnalyzeOptions {
  std::int64_t sequence_length = 0;       ///< 0: as in the run's training
  std::int64_t batch_size = 0;            ///< sequences, or images, per forward pass; 0: as in the run
  std::int64_t max_tokens = 65536;        ///< limit per source; 0: all
  std::int64_t similarity_tokens = 8192;  ///< limit of all sources together for the similarity of heads
  std::int64_t top_tokens = 32;           ///< number of most frequent tokens in the table of tokens
  std::vector<std::string> tokens;        ///< if not empty, tokens to show there instead, as texts
  std::string text;                       ///< text whose tokens are reported one by one; empty: none
  double rank_tolerance = 0.01;           ///< singular values above this share of the largest count
};

/// A named group of files and folders that is analysed as one source.
struct AnalyzedFiles {
  std::string name;
  std::vector<std::string> paths;
};

/// A layer of a model whose layers are of several kinds.
struct AnalyzedLayer {
  std::string kind;         ///< "decoder cross"
  std::int64_t number = 0;  ///< from 0 among those of its kind
};

/// "decoder cross 0"
inline std::string name_of(const AnalyzedLayer& layer) {
  return layer.kind + " " + std::to_string(layer.number);
}

/// The sizes of the analysed model.
struct AnalyzedModel {
  std::int64_t layers = 0, hidden = 0, heads = 0, kv_heads = 0, head_dim = 0;  ///< of the widest layer
  std::vector<std::int64_t> stages;        ///< number of layers of each stage; empty: all are alike
  std::vector<AnalyzedLayer> layer_kinds;  ///< by layer; empty: all are of one kind
  std::vector<std::string> sides;  ///< "source" and "target" of an encoder-decoder; empty: there is one
  std::int64_t vocab_size = 0;     ///< 0 where tokens have no ids
};

/// A named source of inputs with its own statistics: texts, or the images of a class.
struct AnalyzedSource {
  std::string name;
  std::int64_t tokens = 0;  ///< number of analysed tokens
  std::int64_t available = 0;
};

/// A token in a report.
struct ShownToken {
  std::int32_t id = 0;
  std::string text;        ///< printable
  std::int64_t count = 0;  ///< occurrences in the analysed tokens
};

/// A token of AnalysisInputs::text.
struct TextToken : ShownToken {
  std::size_t side = 0;  ///< AttentionTrace::side of the layers that it is an input of
};

/// The tokens of one side of a pass.
struct PassTokens {
  Tensor ids;  ///< [B, T] int64; undefined if tokens have none
  /// Tokens with which N sequences begin that are packed into one (B = 1), and T. Empty: there are B
  /// sequences of T tokens.
  std::vector<std::int64_t> offsets = {};
};

/// Inputs of one forward pass: B sequences, or images, of T tokens, or N that are packed.
struct AnalysisPass {
  Tensor inputs;                   ///< argument of AnalysisInputs::forward
  std::vector<PassTokens> tokens;  ///< by AttentionTrace::side; empty: one side, of tokens without ids
  /// [B T]: index of each token's source; or [B], or [N] if packed, that of all of a sequence's tokens
  std::vector<std::int32_t> sources;
  std::vector<bool> for_similarity;  ///< [B] or [N]: whether heads are compared on this sequence
};

/// The tokens of a side of a pass; without ids and offsets where the pass names none.
inline PassTokens tokens_of(const AnalysisPass& pass, std::size_t side) {
  return pass.tokens.empty() ? PassTokens() : pass.tokens.at(side);
}

/// The inputs of an analysis, prepared by the model's family. The model must outlive it.
struct AnalysisInputs {
  AnalyzeOptions options;  ///< with the run's values in place of 0
  AnalyzedModel model;
  std::string tokenizer;                ///< its name; empty without one
  std::string unit = "tokens";          ///< what sources are counted in: tokens, images, sentence pairs
  std::vector<AnalyzedSource> sources;  ///< not empty, with at least one token each
  /// (source, description) pairs of what was opened, as TaskData::contents.
  std::vector<std::pair<std::string, std::string>> contents;
  std::int64_t similarity_tokens = 0;   ///< number of tokens in sequences with for_similarity
  std::vector<ShownToken> token_table;  ///< tokens, of distinct ids, whose selected heads are reported
  Tensor text;                          ///< input whose tokens are reported one by one; undefined: none
  std::vector<TextToken> text_tokens;   ///< the tokens of `text`, in order, side by side; counts are not set

  std::int64_t num_passes = 0;
  std::function<AnalysisPass(std::int64_t index)> pass;
  /// Runs the model on inputs.
  std::function<void(const Tensor& inputs, const ForwardContext& context)> forward;
};

}  // namespace moh
