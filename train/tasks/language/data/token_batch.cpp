#include "train/tasks/language/data/token_batch.h"

#include <algorithm>
#include <string>
#include <utility>

#include "core/dry_run.h"
#include "core/error.h"
#include "core/function_ref.h"
#include "core/random.h"
#include "train/tasks/data/index_permutation.h"

namespace moh {

namespace {

// Random streams of the data order, distinct from those of initialisation and training steps (Generator).
constexpr std::uint64_t kOrderStream = std::uint64_t{1} << 54;
constexpr std::uint64_t kOffsetStream = std::uint64_t{1} << 55;

std::vector<std::int64_t> bytes_per_token(const Tokenizer& tokenizer) {
  std::vector<std::int64_t> bytes;
  if (dry_run()) return bytes;
  bytes.reserve(static_cast<std::size_t>(tokenizer.vocab_size()));
  for (TokenId id = 0; id < tokenizer.vocab_size(); ++id) {
    bytes.push_back(static_cast<std::int64_t>(tokenizer.token_bytes(id).size()));
  }
  return bytes;
}

/// A batch of `rows` windows: window_of(row) returns the first token of a window and its number of targets,
/// at most T. Not parallel: batches are made by a background thread, in which a parallel loop would start a
/// second team of threads.
TokenBatch make_batch(const TokenSource& source, const std::vector<std::int64_t>& token_bytes,
                      std::int64_t rows, std::int64_t length,
                      FunctionRef<std::pair<std::int64_t, std::int64_t>(std::int64_t row)> window_of) {
  const MemoryPurposeScope purpose(MemoryPurpose::kData);
  TokenBatch batch{.tokens = empty({rows, length}, DType::kInt64),
                   .targets = empty({rows, length}, DType::kInt64)};
  if (dry_run()) {
    batch.num_targets = rows * length;
    return batch;
  }
  std::vector<TokenId> window(static_cast<std::size_t>(length) + 1);
  for (std::int64_t row = 0; row < rows; ++row) {
    const auto [begin, count] = window_of(row);
    source.copy(begin, std::span(window).first(static_cast<std::size_t>(count) + 1));
    std::int64_t* tokens = batch.tokens.data<std::int64_t>() + row * length;
    std::int64_t* targets = batch.targets.data<std::int64_t>() + row * length;
    std::copy_n(window.begin(), count, tokens);
    std::copy_n(window.begin() + 1, count, targets);
    for (std::int64_t t = 0; t < count; ++t)
      batch.target_bytes += token_bytes[static_cast<std::size_t>(targets[t])];
    // Under a causal mask the tokens after the last target do not affect those before it.
    std::fill(tokens + count, tokens + length, 0);
    std::fill(targets + count, targets + length, kIgnoredTarget);
    batch.num_targets += count;
  }
  return batch;
}

}  // namespace

SequenceSampler::SequenceSampler(std::int64_t num_tokens, std::int64_t sequence_length, std::uint64_t seed)
    : num_targets_(num_tokens - 1), sequence_length_(sequence_length), seed_(seed) {
  if (sequence_length < 1) {
    throw ValueError(error_message("data", "sequence length", "at least 1", std::to_string(sequence_length)));
  }
  const std::int64_t windows = num_targets_ / sequence_length;
  if (windows < 1) {
    throw DataError(
        error_message("data", "training text",
                      "at least " + std::to_string(sequence_length + 1) + " tokens (sequence length + 1)",
                      std::to_string(num_tokens), "add more text or lower data.sequence_length"));
  }
  windows_per_epoch_ = windows > 1 ? windows - 1 : 1;
}

std::int64_t SequenceSampler::window_start(std::int64_t sample) const {
  MOH_CHECK(sample >= 0, "SequenceSampler: negative sample");
  const auto epoch = static_cast<std::uint64_t>(epoch_of(sample));
  const std::int64_t slack = num_targets_ - windows_per_epoch_ * sequence_length_;
  const auto offset = static_cast<std::int64_t>(
      random_below({seed_, kOffsetStream | epoch}, 0, static_cast<std::uint64_t>(slack) + 1));
  const IndexPermutation order(windows_per_epoch_, {seed_, kOrderStream | epoch});
  return offset + order(sample % windows_per_epoch_) * sequence_length_;
}

TrainingBatches::TrainingBatches(TokenSourcePtr source, const Tokenizer& tokenizer,
                                 std::int64_t sequence_length, std::uint64_t seed)
    : source_(std::move(source)),
      token_bytes_(bytes_per_token(tokenizer)),
      sampler_(source_->size(), sequence_length, seed) {}

TokenBatch TrainingBatches::at(std::int64_t first_sample, std::int64_t batch_size) const {
  const std::int64_t length = sampler_.sequence_length();
  return make_batch(*source_, token_bytes_, batch_size, length, [&](std::int64_t row) {
    return std::pair(sampler_.window_start(first_sample + row), length);
  });
}

EvaluationBatches::EvaluationBatches(TokenSourcePtr source, const Tokenizer& tokenizer,
                                     std::int64_t sequence_length, std::int64_t batch_size)
    : source_(std::move(source)),
      token_bytes_(bytes_per_token(tokenizer)),
      sequence_length_(sequence_length),
      batch_size_(batch_size) {
  if (sequence_length < 1 || batch_size < 1) {
    throw ValueError(error_message("evaluation", "sequence length and batch size", "at least 1",
                                   std::to_string(sequence_length) + " and " + std::to_string(batch_size)));
  }
  if (source_->size() < 2) {
    throw DataError(error_message("evaluation", "held-out text", "at least 2 tokens",
                                  std::to_string(source_->size()),
                                  "add more text or hold out a larger share of it"));
  }
  num_windows_ = (source_->size() - 1 + sequence_length - 1) / sequence_length;
}

std::int64_t EvaluationBatches::size() const {
  return (num_windows_ + batch_size_ - 1) / batch_size_;
}

TokenBatch EvaluationBatches::at(std::int64_t index) const {
  MOH_CHECK(index >= 0 && index < size(), "EvaluationBatches: batch out of range");
  const std::int64_t first = index * batch_size_;
  const std::int64_t rows = std::min(batch_size_, num_windows_ - first);
  return make_batch(*source_, token_bytes_, rows, sequence_length_, [&](std::int64_t row) {
    const std::int64_t begin = (first + row) * sequence_length_;
    return std::pair(begin, std::min(sequence_length_, source_->size() - 1 - begin));
  });
}

}  // namespace moh
