#pragma once

#include <cstdint>
#include <vector>

#include "core/tensor.h"
#include "train/families/language/data/token_source.h"
#include "train/trainer/task/analysis_inputs.h"

namespace moh {

/// Throws ValueError for amounts of tokens out of range: max_tokens and similarity_tokens.
void require_amounts(const AnalyzeOptions& options);

/// The analysed part of a token stream: windows that do not overlap, with `max_tokens` tokens in total,
/// spread evenly over the stream, so that it is representative. If everything is read, the rest at the end, a
/// shorter window, is a batch of its own. Deterministic given the stream and the sizes.
class AnalysisSequences {
 public:
  /// Uses the options sequence_length, batch_size, max_tokens, and similarity_tokens, here for this stream
  /// alone. `number`: index of the source. Throws ValueError for sizes out of range, DataError for an empty
  /// stream.
  AnalysisSequences(TokenSourcePtr tokens, const AnalyzeOptions& options, std::int32_t number = 0);

  std::int64_t num_tokens() const { return windows_ * length_ + rest_; }
  std::int64_t num_similarity_tokens() const;
  /// Number of batches.
  std::int64_t size() const;
  AnalysisPass at(std::int64_t index) const;

 private:
  void copy_window(std::int64_t begin, const Tensor& row) const;

  TokenSourcePtr tokens_;
  std::int32_t number_;
  std::int64_t length_, batch_size_;
  std::int64_t all_windows_ = 0;  // full windows of the stream
  std::int64_t windows_ = 0;      // full windows that are read
  std::int64_t rest_ = 0;         // tokens of the shorter window; 0: not read
  std::int64_t compared_ = 0;     // full windows for the similarity of heads
};

/// Counts the occurrences of each id of [0, vocab_size) in the windows. Throws DataError for an id outside.
void count_tokens(const AnalysisSequences& sequences, std::span<std::int64_t> counts);

}  // namespace moh
