#include "train/families/translation/data/tokenize_pairs.h"

#include <algorithm>
#include <cstddef>
#include <string>
#include <vector>

#include "core/error.h"
#include "core/parallel.h"
#include "train/config/number_text.h"

namespace moh {

namespace {

/// A pair and its tokens, whose memory is used again.
struct EncodedPair {
  TextPair text;
  std::vector<TokenId> source, target;
};

/// Reads up to as many pairs as there is room for; returns their number.
std::size_t read_some(ParallelReader& reader, std::span<EncodedPair> pairs) {
  std::size_t count = 0;
  while (count < pairs.size() && reader.next(pairs[count].text)) ++count;
  return count;
}

/// `first`: the number of the first pair among those that were read, for errors.
void encode(std::span<EncodedPair> pairs, const LanguageTokenizers& tokenizers, std::int64_t first) {
  constexpr std::int64_t kGrain = 64;
  parallel_for(std::ssize(pairs), kGrain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      EncodedPair& pair = pairs[static_cast<std::size_t>(i)];
      pair.source.clear();
      pair.target.clear();
      try {
        tokenizers.source->encode(pair.text.source, pair.source);
        tokenizers.target->encode(pair.text.target, pair.target);
      } catch (const DataError& error) {
        throw DataError("pair " + std::to_string(first + i + 1) + " of those that are kept: " + error.what());
      }
    }
  });
}

bool keeps(const PairFilter& filter, const EncodedPair& pair, DroppedPairs& dropped) {
  const auto [shorter, longer] = std::minmax({std::ssize(pair.source), std::ssize(pair.target)});
  if (longer + 1 > filter.max_length) {
    dropped.add("longer than " + std::to_string(filter.max_length) + " tokens");
    return false;
  }
  if (filter.max_ratio > 0 && static_cast<double>(longer) > filter.max_ratio * static_cast<double>(shorter)) {
    dropped.add("length ratio above " + config::number_text(filter.max_ratio));
    return false;
  }
  return true;
}

}  // namespace

void tokenize_pairs(ParallelReader& reader, const LanguageTokenizers& tokenizers, const PairFilter& filter,
                    DroppedPairs& dropped, FunctionRef<void(const TokenisedPair&)> sink) {
  constexpr std::size_t kPairs = 4096;
  std::vector<EncodedPair> pairs(kPairs);
  std::int64_t done = 0;
  while (const std::size_t count = read_some(reader, pairs)) {
    const std::span<EncodedPair> read = std::span(pairs).first(count);
    encode(read, tokenizers, done);
    for (const EncodedPair& pair : read)
      if (keeps(filter, pair, dropped)) sink({pair.text, pair.source, pair.target});
    done += static_cast<std::int64_t>(count);
  }
}

}  // namespace moh
