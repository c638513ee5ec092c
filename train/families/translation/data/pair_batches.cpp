#include "train/families/translation/data/pair_batches.h"

#include <algorithm>
#include <utility>

#include "core/dry_run.h"
#include "core/error.h"
#include "core/random.h"
#include "train/trainer/task/data/index_permutation.h"

namespace moh {

namespace {

// Random streams of the order of the data, distinct from those of initialisation and steps (Generator).
constexpr std::uint64_t kPackingStream = std::uint64_t{1} << 54;
constexpr std::uint64_t kEpochStream = std::uint64_t{1} << 55;

/// Tokens of a pair in a batch, with the ends of its sentences.
PairLengths packed_lengths(const TokenPairs& pairs, std::int64_t pair) {
  const PairLengths lengths = pairs.lengths(pair);
  return {lengths.source + 1, lengths.target + 1};
}

std::int64_t pairs_for(const TokenPairs& pairs, std::int64_t all_targets, std::int64_t max_targets) {
  if (max_targets <= 0 || max_targets >= all_targets) return 0;
  const double share = static_cast<double>(max_targets) / static_cast<double>(all_targets);
  return std::max<std::int64_t>(1, static_cast<std::int64_t>(share * static_cast<double>(pairs.size())));
}

}  // namespace

MarkedPair marked_pair(const TokenPairs& pairs, std::int64_t number, const SentenceMarks& marks) {
  MarkedPair pair;
  pairs.copy(number, pair.source, pair.target);
  pair.source.push_back(marks.end);
  pair.target.insert(pair.target.begin(), marks.decoder_start);
  return pair;
}

PairBatch make_pair_batch(const TokenPairs& pairs, std::span<const std::int64_t> numbers,
                          const SentenceMarks& marks) {
  const MemoryPurposeScope purpose(MemoryPurpose::kData);
  std::vector<MarkedPair> sentences(numbers.size());
  std::vector<SentencePair> packed;
  PairBatch batch;
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    const auto& [source, target] = sentences[i] = marked_pair(pairs, numbers[i], marks);
    batch.num_targets += std::ssize(target);
    packed.push_back({source, target});
  }
  batch.pairs = pack_pairs(packed);
  batch.targets = empty({1, batch.num_targets}, DType::kInt64);
  if (dry_run()) return batch;
  std::int64_t* to = batch.targets.data<std::int64_t>();
  for (const MarkedPair& each : sentences) {
    to = std::copy(each.target.begin() + 1, each.target.end(), to);
    *to++ = marks.end;
  }
  return batch;
}

std::vector<std::int64_t> pack_token_batches(const TokenPairs& pairs, std::int64_t count,
                                             const PairOrder& order, std::int64_t batch_tokens) {
  std::vector<std::int64_t> begins;
  PairLengths sum{batch_tokens, batch_tokens};  // no room: the first pair begins a batch
  for (std::int64_t place = 0; place < count; ++place) {
    const PairLengths each = packed_lengths(pairs, order(place));
    MOH_CHECK(std::max(each.source, each.target) <= batch_tokens, "a pair fits in a token batch");
    if (sum.source + each.source > batch_tokens || sum.target + each.target > batch_tokens) {
      begins.push_back(place);
      sum = {};
    }
    sum.source += each.source;
    sum.target += each.target;
  }
  begins.push_back(count);
  return begins;
}

TrainingPairs::TrainingPairs(std::shared_ptr<const TokenPairs> pairs, std::int64_t batch_tokens,
                             std::uint64_t seed)
    : pairs_(std::move(pairs)), seed_(seed) {
  if (pairs_->size() == 0)
    throw DataError(error_message("data.train", "sentence pairs", "at least 1", "none"));
  begins_ = pack_token_batches(*pairs_, pairs_->size(), order(), batch_tokens);
}

PairOrder TrainingPairs::order() const {
  return IndexPermutation(pairs_->size(), {seed_, kPackingStream});
}

std::vector<std::int64_t> TrainingPairs::at(std::int64_t first_sample, std::int64_t samples) const {
  const PairOrder pair_at = order();
  std::vector<std::int64_t> numbers;
  for (std::int64_t sample = first_sample; sample < first_sample + samples; ++sample) {
    const auto epoch = static_cast<std::uint64_t>(sample / batches_per_epoch());
    const IndexPermutation batch_at(batches_per_epoch(), {seed_, kEpochStream | epoch});
    const auto batch = static_cast<std::size_t>(batch_at(sample % batches_per_epoch()));
    for (std::int64_t place = begins_[batch]; place < begins_[batch + 1]; ++place)
      numbers.push_back(pair_at(place));
  }
  return numbers;
}

HeldOutPairs::HeldOutPairs(std::shared_ptr<const TokenPairs> pairs, std::int64_t batch_tokens,
                           std::int64_t max_targets)
    : pairs_(std::move(pairs)), subset_(pairs_->size(), pairs_for(*pairs_, all_targets(), max_targets)) {
  const PairOrder order = [this](std::int64_t place) { return subset_.at(place); };
  begins_ = pack_token_batches(*pairs_, subset_.size(), order, batch_tokens);
  targets_ = {0};
  for (std::size_t batch = 0; batch + 1 < begins_.size(); ++batch) {
    std::int64_t targets = targets_.back();
    for (std::int64_t place = begins_[batch]; place < begins_[batch + 1]; ++place)
      targets += packed_lengths(*pairs_, subset_.at(place)).target;
    targets_.push_back(targets);
  }
}

std::vector<std::int64_t> HeldOutPairs::at(std::int64_t index) const {
  std::vector<std::int64_t> numbers;
  const auto batch = static_cast<std::size_t>(index);
  for (std::int64_t place = begins_[batch]; place < begins_[batch + 1]; ++place)
    numbers.push_back(subset_.at(place));
  return numbers;
}

std::int64_t HeldOutPairs::targets_before(std::int64_t index) const {
  return targets_[static_cast<std::size_t>(index)];
}

}  // namespace moh
