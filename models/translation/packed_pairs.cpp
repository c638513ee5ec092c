#include "models/translation/packed_pairs.h"

#include <algorithm>
#include <string>
#include <vector>

#include "core/dry_run.h"
#include "core/error.h"

namespace moh {

namespace {

/// Lengths of sentences as what each of their tokens needs.
struct Sentences {
  Tensor positions;     ///< [N] int64
  Tensor starts, ends;  ///< [1, N] int32
  std::int64_t longest = 0;
};

std::int64_t sum_of(std::span<const std::int64_t> lengths) {
  std::int64_t sum = 0;
  for (const std::int64_t length : lengths) sum += length;
  return sum;
}

/// Keys that a token sees on average, where each of the `tokens` of sentence i sees keys(i) of them.
template <class Keys>
double mean_keys(std::span<const std::int64_t> tokens, const Keys& keys) {
  double pairs = 0;
  for (std::size_t i = 0; i < tokens.size(); ++i) pairs += static_cast<double>(tokens[i]) * keys(i);
  return pairs / static_cast<double>(sum_of(tokens));
}

void require_sentences(std::string_view what, std::span<const std::int64_t> lengths) {
  const auto refuse = [&](const std::string& expected, const std::string& found) {
    throw ValueError(error_message("translation", what, expected, found));
  };
  if (lengths.empty()) refuse("one sentence or more", "none");
  for (std::size_t i = 0; i < lengths.size(); ++i) {
    if (lengths[i] < 1)
      refuse("sentences of one token or more",
             std::to_string(lengths[i]) + " in sentence " + std::to_string(i));
  }
}

Sentences sentences_of(std::span<const std::int64_t> lengths) {
  const std::int64_t tokens = sum_of(lengths);
  Sentences all{empty({tokens}, DType::kInt64), empty({1, tokens}, DType::kInt32),
                empty({1, tokens}, DType::kInt32), std::ranges::max(lengths)};
  if (dry_run()) return all;
  std::int64_t t = 0;
  for (const std::int64_t length : lengths) {
    const std::int64_t start = t, end = t + length;
    for (; t < end; ++t) {
      all.positions.data<std::int64_t>()[t] = t - start;
      all.starts.data<std::int32_t>()[t] = static_cast<std::int32_t>(start);
      all.ends.data<std::int32_t>()[t] = static_cast<std::int32_t>(end);
    }
  }
  return all;
}

/// Ranges of the source sentences for the tokens of the target, [1, T] each.
void add_memory_ranges(PackedPairs& pairs, std::span<const SentencePair> from) {
  const std::int64_t tokens = pairs.target.numel();
  pairs.memory_starts = empty({1, tokens}, DType::kInt32);
  pairs.memory_ends = empty({1, tokens}, DType::kInt32);
  if (dry_run()) return;
  std::int64_t t = 0, start = 0;
  for (const SentencePair& pair : from) {
    const std::int64_t end = start + static_cast<std::int64_t>(pair.source.size());
    for (std::size_t i = 0; i < pair.target.size(); ++i, ++t) {
      pairs.memory_starts.data<std::int32_t>()[t] = static_cast<std::int32_t>(start);
      pairs.memory_ends.data<std::int32_t>()[t] = static_cast<std::int32_t>(end);
    }
    start = end;
  }
}

Tensor on(const Tensor& tensor, Device device) {
  return tensor.defined() ? tensor.to(device) : Tensor();
}

}  // namespace

PackedPairs PackedPairs::to(Device device) const {
  PackedPairs moved = *this;
  for (Tensor* tensor :
       {&moved.source, &moved.target, &moved.source_positions, &moved.target_positions, &moved.source_starts,
        &moved.source_ends, &moved.target_starts, &moved.memory_starts, &moved.memory_ends})
    *tensor = on(*tensor, device);
  return moved;
}

PackedPairs pack_pairs(std::span<const SentencePair> pairs) {
  std::vector<std::int64_t> source, target, of_source, of_target;
  for (const SentencePair& pair : pairs) {
    source.insert(source.end(), pair.source.begin(), pair.source.end());
    target.insert(target.end(), pair.target.begin(), pair.target.end());
    of_source.push_back(static_cast<std::int64_t>(pair.source.size()));
    of_target.push_back(static_cast<std::int64_t>(pair.target.size()));
  }
  require_sentences("target", of_target);
  PackedPairs packed =
      pack_sources(tensor_of<std::int64_t>({static_cast<std::int64_t>(source.size())}, source), of_source);
  packed.target = tensor_of<std::int64_t>({static_cast<std::int64_t>(target.size())}, target);
  const Sentences sentences = sentences_of(of_target);
  packed.target_positions = sentences.positions;
  packed.target_starts = sentences.starts;
  packed.longest_target = sentences.longest;
  packed.mean_target =
      mean_keys(of_target, [&](std::size_t i) { return static_cast<double>(of_target[i] + 1) / 2; });
  packed.mean_memory = mean_keys(of_target, [&](std::size_t i) { return static_cast<double>(of_source[i]); });
  add_memory_ranges(packed, pairs);
  return packed;
}

PackedPairs pack_sources(const Tensor& tokens, std::span<const std::int64_t> lengths) {
  require_sentences("source", lengths);
  if (tokens.shape() != Shape{sum_of(lengths)})
    throw ShapeError(error_message("translation", "source",
                                   "tokens [" + std::to_string(sum_of(lengths)) + "], as the lengths say",
                                   to_string(tokens.shape())));
  const Sentences sentences = sentences_of(lengths);
  PackedPairs packed;
  packed.source = tokens;
  packed.source_positions = sentences.positions;
  packed.source_starts = sentences.starts;
  packed.source_ends = sentences.ends;
  packed.longest_source = sentences.longest;
  packed.mean_source = mean_keys(lengths, [&](std::size_t i) { return static_cast<double>(lengths[i]); });
  return packed;
}

}  // namespace moh
