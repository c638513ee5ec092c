#include "train/tasks/language/analyze/analysis_sequences.h"

#include <algorithm>
#include <string>
#include <utility>

#include "core/error.h"

namespace moh {

namespace {

std::int64_t ceil_divide(std::int64_t a, std::int64_t b) {
  return (a + b - 1) / b;
}

void require_at_least(std::string_view what, std::int64_t least, std::int64_t value) {
  if (value >= least) return;
  throw ValueError(
      error_message("analyze", what, "at least " + std::to_string(least), std::to_string(value)));
}

}  // namespace

AnalysisSequences::AnalysisSequences(TokenSourcePtr source, const AnalysisSizes& sizes)
    : source_(std::move(source)), sizes_(sizes) {
  require_at_least("sequence length", 1, sizes.sequence_length);
  require_at_least("batch size", 1, sizes.batch_size);
  require_at_least("tokens of a source", 0, sizes.max_tokens);
  require_at_least("tokens for the similarity of heads", 1, sizes.similarity_tokens);
  const std::int64_t size = source_->size(), length = sizes.sequence_length;
  if (size == 0) throw DataError(error_message("analyze", "text", "at least one token", "none"));
  all_windows_ = size / length;
  const bool everything = sizes.max_tokens == 0 || sizes.max_tokens >= size;
  windows_ = everything ? all_windows_ : std::min(all_windows_, ceil_divide(sizes.max_tokens, length));
  if (everything || windows_ == 0) rest_ = size % length;
  compared_ = std::min(windows_, ceil_divide(sizes.similarity_tokens, length));
}

std::int64_t AnalysisSequences::num_similarity_tokens() const {
  return windows_ > 0 ? compared_ * sizes_.sequence_length : rest_;
}

std::int64_t AnalysisSequences::size() const {
  return ceil_divide(windows_, sizes_.batch_size) + (rest_ > 0 ? 1 : 0);
}

bool AnalysisSequences::compares(std::int64_t window) const {
  return (window + 1) * compared_ / windows_ > window * compared_ / windows_;
}

void AnalysisSequences::copy_window(std::int64_t begin, std::span<std::int64_t> to) const {
  std::vector<TokenId> ids(to.size());
  source_->copy(begin, ids);
  std::ranges::copy(ids, to.begin());
}

AnalysisBatch AnalysisSequences::at(std::int64_t index) const {
  MOH_CHECK(index >= 0 && index < size(), "batch out of range");
  const std::int64_t first = index * sizes_.batch_size, length = sizes_.sequence_length;
  const MemoryPurposeScope purpose(MemoryPurpose::kData);
  AnalysisBatch batch;
  if (first >= windows_) {
    batch.tokens = empty({1, rest_}, DType::kInt64);
    copy_window(all_windows_ * length, batch.tokens.span<std::int64_t>());
    batch.for_similarity = {windows_ == 0};
    return batch;
  }
  const std::int64_t rows = std::min(sizes_.batch_size, windows_ - first);
  batch.tokens = empty({rows, length}, DType::kInt64);
  for (std::int64_t row = 0; row < rows; ++row) {
    const std::int64_t window = first + row;
    copy_window(window * all_windows_ / windows_ * length, batch.tokens.select(row).span<std::int64_t>());
    batch.for_similarity.push_back(compares(window));
  }
  return batch;
}

void count_tokens(const AnalysisSequences& sequences, std::span<std::int64_t> counts) {
  for (std::int64_t i = 0; i < sequences.size(); ++i) {
    const AnalysisBatch batch = sequences.at(i);
    for (const std::int64_t id : batch.tokens.span<std::int64_t>()) {
      if (id < 0 || id >= static_cast<std::int64_t>(counts.size())) {
        throw DataError(error_message("analyze", "token id",
                                      "below the vocabulary's " + std::to_string(counts.size()),
                                      std::to_string(id)));
      }
      ++counts[static_cast<std::size_t>(id)];
    }
  }
}

}  // namespace moh
