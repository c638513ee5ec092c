#include "train/families/language/data/token_batch.h"

#include <algorithm>
#include <string>
#include <utility>

#include "core/dry_run.h"
#include "core/error.h"
#include "core/function_ref.h"
#include "core/random.h"
#include "train/trainer/task/data/index_permutation.h"

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

/// A row of a batch: `targets` targets, at most T, of the window that begins with token `begin`.
struct Window {
  const TokenSource* tokens;
  std::int64_t begin, targets;
};

/// Where documents begin, and which targets count: those that are of the same document as the token before.
void mask_documents(const DocumentMarks& marks, std::span<const TokenId> window, std::int64_t* targets,
                    std::int32_t* starts) {
  marks.write_starts(window.first(window.size() - 1), starts);
  for (std::size_t t = 0; t + 1 < window.size(); ++t) {
    if (marks.begins(window[t], window[t + 1])) targets[t] = kIgnoredTarget;
  }
}

TokenBatch begin_batch(std::int64_t rows, const BatchOptions& options) {
  const MemoryPurposeScope purpose(MemoryPurpose::kData);
  const std::int64_t length = options.sequence_length;
  TokenBatch batch{.tokens = empty({rows, length}, DType::kInt64),
                   .targets = empty({rows, length}, DType::kInt64)};
  if (options.document_mask) batch.document_starts = zeros({rows, length}, DType::kInt32);
  if (dry_run()) batch.num_targets = rows * length;
  return batch;
}

/// Fills a batch with windows. Not parallel: batches are made by a background thread, in which a parallel
/// loop would start a second team of threads.
void fill_batch(TokenBatch& batch, const std::vector<std::int64_t>& token_bytes, const DocumentMarks& marks,
                const BatchOptions& options, FunctionRef<Window(std::int64_t row)> window_of) {
  if (dry_run()) return;
  const std::int64_t rows = batch.tokens.dim(0), length = options.sequence_length;
  std::vector<TokenId> ids(static_cast<std::size_t>(length) + 1);
  for (std::int64_t row = 0; row < rows; ++row) {
    const Window window = window_of(row);
    const std::int64_t count = window.targets;
    const auto read = std::span(ids).first(static_cast<std::size_t>(count) + 1);
    window.tokens->copy_marked(window.begin, read);
    std::int64_t* tokens = batch.tokens.data<std::int64_t>() + row * length;
    std::int64_t* targets = batch.targets.data<std::int64_t>() + row * length;
    std::ranges::transform(read.subspan(1), targets,
                           [](TokenId id) { return is_marked(id) ? kIgnoredTarget : id; });
    std::ranges::transform(read, read.begin(), unmarked);
    std::copy_n(read.begin(), count, tokens);
    // Under a causal mask the tokens after the last target do not affect those before it.
    std::fill(tokens + count, tokens + length, 0);
    std::fill(targets + count, targets + length, kIgnoredTarget);
    if (options.document_mask)
      mask_documents(marks, read, targets, batch.document_starts.data<std::int32_t>() + row * length);
    for (std::int64_t t = 0; t < count; ++t) {
      if (targets[t] == kIgnoredTarget) continue;
      batch.target_bytes += token_bytes[static_cast<std::size_t>(targets[t])];
      ++batch.num_targets;
    }
  }
}

std::vector<double> weights_of(const std::vector<TextSource>& sources) {
  std::vector<double> weights;
  for (const TextSource& source : sources) weights.push_back(source.weight);
  return weights;
}

/// The order of a source's windows. Sources of one size have different ones.
SequenceSampler sampler_of(const TextSource& source, std::size_t number, std::int64_t length,
                           std::uint64_t seed) {
  constexpr std::uint64_t kApart = 0x9E3779B97F4A7C15;
  try {
    return {source.tokens->size(), length, seed + number * kApart};
  } catch (const DataError& error) {
    if (source.name.empty()) throw;
    throw DataError("data.train: source " + source.name + ": " + error.what());
  }
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

TrainingBatches::TrainingBatches(std::vector<TextSource> sources, const Tokenizer& tokenizer,
                                 const BatchOptions& options, std::uint64_t seed)
    : sources_(std::move(sources)),
      token_bytes_(bytes_per_token(tokenizer)),
      options_(options),
      marks_(tokenizer),
      schedule_(weights_of(sources_), seed) {
  for (std::size_t i = 0; i < sources_.size(); ++i)
    samplers_.push_back(sampler_of(sources_[i], i, options.sequence_length, seed));
}

TokenBatch TrainingBatches::begin(std::int64_t batch_size) const {
  return begin_batch(batch_size, options_);
}

TokenBatch TrainingBatches::at(std::int64_t first_sample, std::int64_t batch_size) const {
  TokenBatch batch = begin(batch_size);
  fill(batch, first_sample);
  return batch;
}

void TrainingBatches::fill(TokenBatch& batch, std::int64_t first_sample) const {
  fill_batch(batch, token_bytes_, marks_, options_, [&](std::int64_t row) {
    const auto [source, index] = schedule_.at(first_sample + row);
    return Window{sources_[source].tokens.get(), samplers_[source].window_start(index),
                  options_.sequence_length};
  });
}

EvaluationBatches::EvaluationBatches(TokenSourcePtr source, const Tokenizer& tokenizer,
                                     const BatchOptions& options, std::int64_t batch_size,
                                     std::int64_t max_tokens)
    : source_(std::move(source)),
      token_bytes_(bytes_per_token(tokenizer)),
      options_(options),
      marks_(tokenizer),
      batch_size_(batch_size) {
  const std::int64_t sequence_length = options.sequence_length;
  if (sequence_length < 1 || batch_size < 1) {
    throw ValueError(error_message("evaluation", "sequence length and batch size", "at least 1",
                                   std::to_string(sequence_length) + " and " + std::to_string(batch_size)));
  }
  if (source_->size() < 2) {
    throw DataError(error_message("evaluation", "held-out text", "at least 2 tokens",
                                  std::to_string(source_->size()),
                                  "add more text or hold out a larger share of it"));
  }
  const auto windows_of = [&](std::int64_t tokens) {
    return tokens / sequence_length + (tokens % sequence_length != 0 ? 1 : 0);
  };
  windows_ = SpreadSubset(windows_of(source_->size() - 1), windows_of(max_tokens));
}

std::int64_t EvaluationBatches::size() const {
  return (windows_.size() + batch_size_ - 1) / batch_size_;
}

TokenBatch EvaluationBatches::at(std::int64_t index) const {
  MOH_CHECK(index >= 0 && index < size(), "EvaluationBatches: batch out of range");
  const std::int64_t first = index * batch_size_;
  const std::int64_t rows = std::min(batch_size_, windows_.size() - first);
  TokenBatch batch = begin_batch(rows, options_);
  fill_batch(batch, token_bytes_, marks_, options_, [&](std::int64_t row) {
    const std::int64_t length = options_.sequence_length, begin = windows_.at(first + row) * length;
    return Window{source_.get(), begin, std::min(length, source_->size() - 1 - begin)};
  });
  return batch;
}

}  // namespace moh
