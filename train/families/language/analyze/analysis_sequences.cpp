#include "train/families/language/analyze/analysis_sequences.h"

#include <algorithm>
#include <string>
#include <utility>

#include "core/error.h"
#include "train/families/language/analyze/token_table.h"

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

void require_amounts(const AnalyzeOptions& options) {
  require_at_least("tokens of a source", 0, options.max_tokens);
  require_at_least("tokens for the similarity of heads", 1, options.similarity_tokens);
}

AnalysisSequences::AnalysisSequences(TokenSourcePtr tokens, const AnalyzeOptions& options,
                                     std::int32_t number)
    : tokens_(std::move(tokens)),
      number_(number),
      length_(options.sequence_length),
      batch_size_(options.batch_size) {
  require_at_least("sequence length", 1, length_);
  require_at_least("batch size", 1, batch_size_);
  require_amounts(options);
  const std::int64_t size = tokens_->size();
  if (size == 0) throw DataError(error_message("analyze", "text", "at least one token", "none"));
  all_windows_ = size / length_;
  const bool everything = options.max_tokens == 0 || options.max_tokens >= size;
  windows_ = everything ? all_windows_ : std::min(all_windows_, ceil_divide(options.max_tokens, length_));
  if (everything || windows_ == 0) rest_ = size % length_;
  compared_ = std::min(windows_, ceil_divide(options.similarity_tokens, length_));
}

std::int64_t AnalysisSequences::num_similarity_tokens() const {
  return windows_ > 0 ? compared_ * length_ : rest_;
}

std::int64_t AnalysisSequences::size() const {
  return ceil_divide(windows_, batch_size_) + (rest_ > 0 ? 1 : 0);
}

void AnalysisSequences::copy_window(std::int64_t begin, const Tensor& row) const {
  std::vector<TokenId> ids(static_cast<std::size_t>(row.numel()));
  tokens_->copy(begin, ids);
  std::ranges::copy(ids, row.data<std::int64_t>());
}

AnalysisPass AnalysisSequences::at(std::int64_t index) const {
  MOH_CHECK(index >= 0 && index < size(), "batch out of range");
  const std::int64_t first = index * batch_size_;
  const bool is_rest = first >= windows_;
  const std::int64_t rows = is_rest ? 1 : std::min(batch_size_, windows_ - first);
  const MemoryPurposeScope purpose(MemoryPurpose::kData);
  const Tensor ids = empty({rows, is_rest ? rest_ : length_}, DType::kInt64);
  AnalysisPass pass{.inputs = ids, .tokens = {{ids}}};
  pass.sources.assign(static_cast<std::size_t>(ids.numel()), number_);
  if (is_rest) {
    copy_window(all_windows_ * length_, ids);
    pass.for_similarity = {windows_ == 0};
    return pass;
  }
  for (std::int64_t row = 0; row < rows; ++row) {
    const std::int64_t window = first + row;
    copy_window(window * all_windows_ / windows_ * length_, ids.select(row));
    pass.for_similarity.push_back((window + 1) * compared_ / windows_ > window * compared_ / windows_);
  }
  return pass;
}

void count_tokens(const AnalysisSequences& sequences, std::span<std::int64_t> counts) {
  for (std::int64_t i = 0; i < sequences.size(); ++i) {
    const Tensor ids = sequences.at(i).tokens.front().ids;
    count_ids(ids.span<std::int64_t>(), counts);
  }
}

}  // namespace moh
