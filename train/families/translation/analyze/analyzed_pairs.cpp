#include "train/families/translation/analyze/analyzed_pairs.h"

#include <algorithm>
#include <utility>

#include "train/families/language/analyze/analysis_sequences.h"

namespace moh {

namespace {

/// One side of pairs, one sentence after the other.
PassTokens side_of(std::span<const MarkedPair> pairs, std::vector<TokenId> MarkedPair::*side) {
  std::vector<std::int64_t> ids, offsets = {0};
  for (const MarkedPair& pair : pairs) {
    ids.insert(ids.end(), (pair.*side).begin(), (pair.*side).end());
    offsets.push_back(std::ssize(ids));
  }
  return {tensor_of<std::int64_t>({1, std::ssize(ids)}, ids), std::move(offsets)};
}

}  // namespace

Tensor to_inputs(std::span<const MarkedPair> pairs) {
  std::vector<std::int32_t> numbers;
  for (const auto& [source, target] : pairs) {
    numbers.push_back(static_cast<std::int32_t>(source.size()));
    numbers.push_back(static_cast<std::int32_t>(target.size()));
    numbers.insert(numbers.end(), source.begin(), source.end());
    numbers.insert(numbers.end(), target.begin(), target.end());
  }
  return tensor_of<std::int32_t>({std::ssize(numbers)}, numbers);
}

std::vector<SentencePair> pairs_in(const Tensor& inputs) {
  std::vector<SentencePair> pairs;
  for (std::span<const std::int32_t> rest = inputs.span<std::int32_t>(); !rest.empty();) {
    const auto source = static_cast<std::size_t>(rest[0]), target = static_cast<std::size_t>(rest[1]);
    pairs.push_back({rest.subspan(2, source), rest.subspan(2 + source, target)});
    rest = rest.subspan(2 + source + target);
  }
  return pairs;
}

AnalyzedPairs::AnalyzedPairs(std::shared_ptr<const TokenPairs> pairs, const SentenceMarks& marks,
                             std::int64_t batch_tokens, const AnalyzeOptions& options, std::int32_t number)
    : pairs_(std::move(pairs), batch_tokens, options.max_tokens), marks_(marks), number_(number), places_{0} {
  require_amounts(options);
  for (std::int64_t batch = 0; batch < size(); ++batch)
    places_.push_back(places_.back() + std::ssize(pairs_.at(batch)));
  const double share =
      static_cast<double>(options.similarity_tokens) / static_cast<double>(pairs_.num_targets());
  compared_ = share >= 1 ? num_pairs()
                         : std::max<std::int64_t>(
                               1, static_cast<std::int64_t>(share * static_cast<double>(num_pairs())));
}

bool AnalyzedPairs::is_compared(std::int64_t place) const {
  return (place + 1) * compared_ / num_pairs() > place * compared_ / num_pairs();
}

std::int64_t AnalyzedPairs::num_similarity_tokens() const {
  std::int64_t tokens = 0, place = 0;
  for (std::int64_t batch = 0; batch < size(); ++batch) {
    for (const std::int64_t pair : pairs_.at(batch))
      if (is_compared(place++)) tokens += pairs_.pairs().lengths(pair).target + 1;
  }
  return tokens;
}

AnalysisPass AnalyzedPairs::at(std::int64_t index) const {
  const MemoryPurposeScope purpose(MemoryPurpose::kData);
  std::vector<MarkedPair> pairs;
  AnalysisPass pass;
  std::int64_t place = places_[static_cast<std::size_t>(index)];
  for (const std::int64_t number : pairs_.at(index)) {
    pairs.push_back(marked_pair(pairs_.pairs(), number, marks_));
    pass.sources.push_back(number_);
    pass.for_similarity.push_back(is_compared(place++));
  }
  pass.inputs = to_inputs(pairs);
  pass.tokens = {side_of(pairs, &MarkedPair::source), side_of(pairs, &MarkedPair::target)};
  return pass;
}

}  // namespace moh
