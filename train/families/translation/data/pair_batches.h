#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "core/tensor.h"
#include "models/translation/packed_pairs.h"
#include "train/families/translation/data/token_pairs.h"
#include "train/families/translation/translation_run.h"
#include "train/trainer/task/data/spread_subset.h"

namespace moh {

/// A pair as a model reads it: the source sentence and its end; the decoder's first token and the target
/// sentence.
struct MarkedPair {
  std::vector<TokenId> source, target;
};
MarkedPair marked_pair(const TokenPairs& pairs, std::int64_t number, const SentenceMarks& marks);

/// Packed sentence pairs with their targets. In host memory as they are made.
struct PairBatch {
  PackedPairs pairs;             ///< the decoder's input is its first token and then the sentence
  Tensor targets;                ///< [1, T] int64: the sentence and then its end
  std::int64_t num_targets = 0;  ///< T
};

/// The batch of some pairs, in that order.
PairBatch make_pair_batch(const TokenPairs& pairs, std::span<const std::int64_t> numbers,
                          const SentenceMarks& marks);

/// The order in which pairs are packed: the pair of a place.
using PairOrder = std::function<std::int64_t(std::int64_t place)>;

/// Token batches of `count` pairs, packed greedily in an order: each begins with the first pair that the one
/// before has no room for, of `batch_tokens` source tokens and as many target tokens, ends of sentences
/// included. Returns the place with which each begins, and `count`. Every pair must fit in a batch.
std::vector<std::int64_t> pack_token_batches(const TokenPairs& pairs, std::int64_t count,
                                             const PairOrder& order, std::int64_t batch_tokens);

/// The token batches of a training, with random access in constant time. Pairs are packed once, in an order
/// that is a function of the seed; each epoch visits all batches in an order of its own. Sample g, counted
/// through the whole run, is a token batch, and a function of (seed, g): the state of the data order is one
/// number.
class TrainingPairs {
 public:
  /// Throws DataError without pairs.
  TrainingPairs(std::shared_ptr<const TokenPairs> pairs, std::int64_t batch_tokens, std::uint64_t seed);

  std::int64_t batches_per_epoch() const { return static_cast<std::int64_t>(begins_.size()) - 1; }
  /// The pairs of samples [first_sample, first_sample + samples) of the run.
  std::vector<std::int64_t> at(std::int64_t first_sample, std::int64_t samples) const;
  const TokenPairs& pairs() const { return *pairs_; }

 private:
  PairOrder order() const;

  std::shared_ptr<const TokenPairs> pairs_;
  std::uint64_t seed_;
  std::vector<std::int64_t> begins_;  // places
};

/// One pass over held-out pairs, in order; with `max_targets`, over as many that are spread evenly as have
/// about so many targets, the same for any batch size.
class HeldOutPairs {
 public:
  HeldOutPairs(std::shared_ptr<const TokenPairs> pairs, std::int64_t batch_tokens, std::int64_t max_targets);

  /// Batches of the pass.
  std::int64_t size() const { return static_cast<std::int64_t>(begins_.size()) - 1; }
  /// The pairs of batch `index` of [0, size()).
  std::vector<std::int64_t> at(std::int64_t index) const;
  const TokenPairs& pairs() const { return *pairs_; }
  /// Targets of the batches before `index`, those of all of the pass, and of all held-out pairs.
  std::int64_t targets_before(std::int64_t index) const;
  std::int64_t num_targets() const { return targets_before(size()); }
  std::int64_t all_targets() const { return pairs_->all_lengths().target + pairs_->size(); }
  std::int64_t num_pairs() const { return subset_.size(); }

 private:
  std::shared_ptr<const TokenPairs> pairs_;
  SpreadSubset subset_;
  std::vector<std::int64_t> begins_;   // places
  std::vector<std::int64_t> targets_;  // before each batch
};

}  // namespace moh
