#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/tensor.h"
#include "ops/loss/cross_entropy.h"
#include "train/families/language/data/document_marks.h"
#include "train/families/language/data/mixture_schedule.h"
#include "train/families/language/data/token_source.h"
#include "train/trainer/task/data/spread_subset.h"

namespace moh {

/// Assigns a window of a token stream to each training sample. A sample has `sequence_length` inputs and as
/// many targets, shifted by one token. Sample g (counted through the whole run) is a function of (seed,
/// epoch, index) with epoch = g / windows_per_epoch() and index = g % windows_per_epoch(): the state of the
/// data order is one number, and seeking is free.
///
/// An epoch splits the stream into windows that do not overlap, starting at a random offset, so that window
/// boundaries differ between epochs, and visits each window once in random order. To leave room for the
/// offset, an epoch has one window less than would fit (unless only one fits): it omits at most 2 *
/// sequence_length - 1 targets of the stream, different ones in each epoch.
class SequenceSampler {
 public:
  /// Throws DataError when the stream is too short for one window, ValueError for sequence_length < 1.
  SequenceSampler(std::int64_t num_tokens, std::int64_t sequence_length, std::uint64_t seed);

  std::int64_t sequence_length() const { return sequence_length_; }
  std::int64_t windows_per_epoch() const { return windows_per_epoch_; }
  std::int64_t epoch_of(std::int64_t sample) const { return sample / windows_per_epoch_; }
  /// First token of the sample's window, which is sequence_length + 1 tokens long. sample >= 0.
  std::int64_t window_start(std::int64_t sample) const;

 private:
  std::int64_t num_targets_;
  std::int64_t sequence_length_;
  std::int64_t windows_per_epoch_;
  std::uint64_t seed_;
};

/// B sequences of T tokens with their next tokens as targets. In a dry run no tokens are read.
struct TokenBatch {
  Tensor tokens;  ///< [B, T] int64
  /// [B, T] int64, kIgnoredTarget where nothing follows, or a token that is no target (token_source.h)
  Tensor targets;
  Tensor document_starts;         ///< [B, T] int32 (AttentionOptions), with BatchOptions::document_mask
  std::int64_t num_targets = 0;   ///< targets that are not ignored
  std::int64_t target_bytes = 0;  ///< their length as text in bytes, for bits per byte
};

/// How windows become batches.
struct BatchOptions {
  std::int64_t sequence_length = 0;
  /// Fill in document_starts, and ignore targets that are the first token of another document, which nothing
  /// that the mask leaves predicts.
  bool document_mask = false;
};

/// The tokens of a part of the training or held-out data.
struct TextSource {
  std::string name = {};  ///< empty: the only part
  TokenSourcePtr tokens;
  double weight = 1;  ///< in training: share of the rows, relative to the other weights
};

/// The batches of a training run, with random access in constant time: rows of several sources in the order
/// of a MixtureSchedule. Each source has a SequenceSampler of its own: one that is used up begins its next
/// epoch, whose windows and order are others.
class TrainingBatches {
 public:
  /// `tokenizer` must be that of the sources. Throws as SequenceSampler and MixtureSchedule do, naming the
  /// source.
  TrainingBatches(std::vector<TextSource> sources, const Tokenizer& tokenizer, const BatchOptions& options,
                  std::uint64_t seed);

  const SequenceSampler& sampler(std::size_t source = 0) const { return samplers_.at(source); }
  const MixtureSchedule& schedule() const { return schedule_; }
  const std::vector<TextSource>& sources() const { return sources_; }
  /// Memory for a batch. In a dry run it counts as filled.
  TokenBatch begin(std::int64_t batch_size) const;
  /// Fills a batch that was begun with the samples of the run from first_sample on.
  void fill(TokenBatch& batch, std::int64_t first_sample) const;
  /// Samples [first_sample, first_sample + batch_size) of the run.
  TokenBatch at(std::int64_t first_sample, std::int64_t batch_size) const;

 private:
  std::vector<TextSource> sources_;
  std::vector<std::int64_t> token_bytes_;
  BatchOptions options_;
  DocumentMarks marks_;
  MixtureSchedule schedule_;
  std::vector<SequenceSampler> samplers_;
};

/// One pass over a held-out stream, in order and in windows that do not overlap: every token but the first is
/// predicted exactly once. The last window may be partial (its other targets are ignored), the last batch may
/// have fewer rows. With `max_tokens`, of as few windows as have so many tokens, spread evenly over the
/// stream, the same for any batch size.
class EvaluationBatches {
 public:
  /// Throws DataError for fewer than two tokens, ValueError for sizes below 1.
  EvaluationBatches(TokenSourcePtr source, const Tokenizer& tokenizer, const BatchOptions& options,
                    std::int64_t batch_size, std::int64_t max_tokens = 0);

  std::int64_t size() const;
  /// Tokens of the stream that can be predicted.
  std::int64_t all_predicted() const { return source_->size() - 1; }
  /// Tokens that are predicted, targets and others; those of the batches before `index`.
  std::int64_t num_predicted() const {
    return windows_.is_whole() ? all_predicted() : windows_.size() * options_.sequence_length;
  }
  std::int64_t predicted_before(std::int64_t index) const {
    return std::min(index * batch_size_ * options_.sequence_length, num_predicted());
  }
  /// Batch `index` of [0, size()).
  TokenBatch at(std::int64_t index) const;

 private:
  TokenSourcePtr source_;
  std::vector<std::int64_t> token_bytes_;
  BatchOptions options_;
  DocumentMarks marks_;
  std::int64_t batch_size_;
  SpreadSubset windows_{0, 0};
};

}  // namespace moh
