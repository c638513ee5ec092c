#pragma once

#include <cstdint>
#include <vector>

#include "core/tensor.h"
#include "train/tasks/analysis_inputs.h"
#include "train/tasks/language/data/token_source.h"

namespace moh {

/// The part of a token stream that is analysed: windows that do not overlap, as many as hold `max_tokens`, at
/// even distances over all of the stream, so that the beginning does not stand for the whole. The end of the
/// stream, a shorter window, is a batch of its own when everything is read. A function of the stream and the
/// sizes.
class AnalysisSequences {
 public:
  /// Reads the sizes of the options: length, batch, tokens, and those for the similarity of heads, which are
  /// of this stream here. `number` is that of the source. Throws ValueError for sizes out of range, DataError
  /// for an empty stream.
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
  std::int64_t all_windows_ = 0;  // full ones in the stream
  std::int64_t windows_ = 0;      // full ones that are read
  std::int64_t rest_ = 0;         // tokens of the shorter one; 0: not read
  std::int64_t compared_ = 0;     // of the full ones
};

/// How often each id of [0, vocab_size) occurs in what is read. Throws DataError for an id outside.
void count_tokens(const AnalysisSequences& sequences, std::span<std::int64_t> counts);

}  // namespace moh
