#pragma once

#include <cstdint>
#include <vector>

#include "core/tensor.h"
#include "train/tasks/language/data/token_source.h"

namespace moh {

/// Sequences for one forward pass.
struct AnalysisBatch {
  Tensor tokens;                     ///< [B, T] int64
  std::vector<bool> for_similarity;  ///< by sequence: whether its heads are compared with each other
};

/// How much of a source is read.
struct AnalysisSizes {
  std::int64_t sequence_length = 0;
  std::int64_t batch_size = 0;         ///< sequences of a batch at most
  std::int64_t max_tokens = 0;         ///< of the source; 0: all
  std::int64_t similarity_tokens = 0;  ///< of them, whose heads are compared
};

/// The part of a token stream that is analysed: windows that do not overlap, as many as hold `max_tokens`, at
/// even distances over all of the stream, so that the beginning does not stand for the whole. The end of the
/// stream, a shorter window, is a batch of its own when everything is read. A function of the stream and the
/// sizes.
class AnalysisSequences {
 public:
  /// Throws ValueError for sizes out of range, DataError for an empty stream.
  AnalysisSequences(TokenSourcePtr source, const AnalysisSizes& sizes);

  std::int64_t num_tokens() const { return windows_ * sizes_.sequence_length + rest_; }
  std::int64_t num_similarity_tokens() const;
  /// Number of batches.
  std::int64_t size() const;
  AnalysisBatch at(std::int64_t index) const;

 private:
  void copy_window(std::int64_t begin, std::span<std::int64_t> to) const;
  bool compares(std::int64_t window) const;

  TokenSourcePtr source_;
  AnalysisSizes sizes_;
  std::int64_t all_windows_ = 0;  // full ones in the stream
  std::int64_t windows_ = 0;      // full ones that are read
  std::int64_t rest_ = 0;         // tokens of the shorter one; 0: not read
  std::int64_t compared_ = 0;     // of the full ones
};

/// How often each id of [0, vocab_size) occurs in what is read. Throws DataError for an id outside.
void count_tokens(const AnalysisSequences& sequences, std::span<std::int64_t> counts);

}  // namespace moh
