#include "train/tasks/language/data/token_batch.h"

#include <algorithm>
#include <string>
#include <utility>

#include "core/dry_run.h"
#include "core/error.h"

namespace moh {

namespace {

std::vector<std::int64_t> bytes_per_token(const Tokenizer& tokenizer) {
  std::vector<std::int64_t> bytes;
  if (dry_run()) return bytes;
  bytes.reserve(static_cast<std::size_t>(tokenizer.vocab_size()));
  for (TokenId id = 0; id < tokenizer.vocab_size(); ++id) {
    bytes.push_back(static_cast<std::int64_t>(tokenizer.token_bytes(id).size()));
  }
  return bytes;
}

/// Fills a batch row by row. Plain loops on purpose: batches are made by a thread of their own, in which a
/// parallel loop would start a second team of threads.
class BatchFiller {
 public:
  BatchFiller(std::int64_t rows, std::int64_t sequence_length)
      : length_(sequence_length), window_(dry_run() ? 0 : static_cast<std::size_t>(sequence_length) + 1) {
    const MemoryPurposeScope purpose(MemoryPurpose::kData);
    batch_.tokens = empty({rows, sequence_length}, DType::kInt64);
    batch_.targets = empty({rows, sequence_length}, DType::kInt64);
  }

  /// Row `row` = the `count` <= T targets from `start` + 1 on and the tokens before them.
  void fill_row(std::int64_t row, const TokenSource& source, std::int64_t start, std::int64_t count,
                const std::vector<std::int64_t>& token_bytes) {
    source.copy(start, std::span(window_).first(static_cast<std::size_t>(count) + 1));
    std::int64_t* tokens = batch_.tokens.data<std::int64_t>() + row * length_;
    std::int64_t* targets = batch_.targets.data<std::int64_t>() + row * length_;
    for (std::int64_t t = 0; t < count; ++t) {
      const auto i = static_cast<std::size_t>(t);
      tokens[t] = window_[i];
      targets[t] = window_[i + 1];
      batch_.target_bytes += token_bytes[static_cast<std::size_t>(window_[i + 1])];
    }
    // Under a causal mask what stands behind the last target changes nothing before it.
    std::fill(tokens + count, tokens + length_, 0);
    std::fill(targets + count, targets + length_, kIgnoredTarget);
    batch_.num_targets += count;
  }

  /// For a dry run: a batch of targets that nobody reads.
  TokenBatch take_unread() {
    batch_.num_targets = batch_.targets.numel();
    return take();
  }
  TokenBatch take() { return std::move(batch_); }

 private:
  std::int64_t length_;
  std::vector<TokenId> window_;
  TokenBatch batch_;
};

}  // namespace

TrainingBatches::TrainingBatches(TokenSourcePtr source, const Tokenizer& tokenizer,
                                 std::int64_t sequence_length, std::uint64_t seed)
    : source_(std::move(source)),
      token_bytes_(bytes_per_token(tokenizer)),
      sampler_(source_->size(), sequence_length, seed) {}

TokenBatch TrainingBatches::at(std::int64_t first_sample, std::int64_t batch_size) const {
  BatchFiller filler(batch_size, sampler_.sequence_length());
  if (dry_run()) return filler.take_unread();
  for (std::int64_t row = 0; row < batch_size; ++row) {
    filler.fill_row(row, *source_, sampler_.window_start(first_sample + row), sampler_.sequence_length(),
                    token_bytes_);
  }
  return filler.take();
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
                                  "bring more text or hold out a larger share of it"));
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
  BatchFiller filler(rows, sequence_length_);
  if (dry_run()) return filler.take_unread();
  for (std::int64_t row = 0; row < rows; ++row) {
    const std::int64_t start = (first + row) * sequence_length_;
    const std::int64_t count = std::min(sequence_length_, source_->size() - 1 - start);
    filler.fill_row(row, *source_, start, count, token_bytes_);
  }
  return filler.take();
}

}  // namespace moh
