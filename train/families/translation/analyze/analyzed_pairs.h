#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "train/families/translation/data/pair_batches.h"
#include "train/trainer/task/analysis_inputs.h"

namespace moh {

/// Sentence pairs as AnalysisPass::inputs: int32, of each pair the numbers of its source and its target
/// tokens, then these tokens.
Tensor to_inputs(std::span<const MarkedPair> pairs);
/// The pairs in such inputs, which must outlive the result.
std::vector<SentencePair> pairs_in(const Tensor& inputs);

/// The analysed part of sentence pairs: as many, spread evenly, as have about `max_tokens` target tokens, in
/// token batches. Heads are compared on pairs that are spread evenly over these. Deterministic given the
/// pairs and the sizes.
class AnalyzedPairs {
 public:
  /// Uses the options max_tokens and similarity_tokens, here for these pairs alone. `number`: index of the
  /// source. Throws ValueError for sizes out of range.
  AnalyzedPairs(std::shared_ptr<const TokenPairs> pairs, const SentenceMarks& marks,
                std::int64_t batch_tokens, const AnalyzeOptions& options, std::int32_t number = 0);

  std::int64_t num_pairs() const { return places_.back(); }
  std::int64_t num_available() const { return pairs_.pairs().size(); }
  /// Target tokens of the pairs on which heads are compared.
  std::int64_t num_similarity_tokens() const;
  /// Number of token batches.
  std::int64_t size() const { return pairs_.size(); }
  AnalysisPass at(std::int64_t index) const;

 private:
  bool is_compared(std::int64_t place) const;

  HeldOutPairs pairs_;
  SentenceMarks marks_;
  std::int32_t number_;
  std::vector<std::int64_t>
      places_;                 // of the first pair of each batch among the analysed ones, and their number
  std::int64_t compared_ = 0;  // pairs
};

}  // namespace moh
