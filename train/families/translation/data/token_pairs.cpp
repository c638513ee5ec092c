#include "train/families/translation/data/token_pairs.h"

#include <cstddef>
#include <utility>

namespace moh {

PairLengths TokenPairs::lengths(std::int64_t pair) const {
  const auto i = 2 * static_cast<std::size_t>(pair);
  return {static_cast<std::int64_t>(begins_[i + 1] - begins_[i]),
          static_cast<std::int64_t>(begins_[i + 2] - begins_[i + 1])};
}

PairLengths TokenPairs::all_lengths() const {
  PairLengths all;
  for (std::int64_t pair = 0; pair < size(); ++pair) {
    const PairLengths each = lengths(pair);
    all.source += each.source;
    all.target += each.target;
  }
  return all;
}

void TokenPairs::copy(std::int64_t pair, std::vector<TokenId>& source, std::vector<TokenId>& target) const {
  const PairLengths count = lengths(pair);
  const auto begin = static_cast<std::int64_t>(begins_[2 * static_cast<std::size_t>(pair)]);
  source.resize(static_cast<std::size_t>(count.source));
  target.resize(static_cast<std::size_t>(count.target));
  ids_->copy(begin, source);
  ids_->copy(begin + count.source, target);
}

std::string TokenPairs::describe_contents() const {
  const PairLengths all = all_lengths();
  return std::to_string(size()) + " pairs, " + std::to_string(all.source) + " source and " +
         std::to_string(all.target) + " target tokens, checksum " + checksum_;
}

void PairMemory::append(std::span<const TokenId> source, std::span<const TokenId> target) {
  for (const std::span<const TokenId> ids : {source, target}) {
    ids_.append(ids);
    begins_.push_back(begins_.back() + ids.size());
    const std::uint64_t length = ids.size();
    checksum_.update(std::as_bytes(std::span(&length, 1)));
    checksum_.update(std::as_bytes(ids));
  }
}

TokenPairs PairMemory::finish() {
  TokenPairs pairs;
  pairs.ids_ = ids_.finish();
  pairs.begins_ = std::move(begins_);
  pairs.checksum_ = checksum_.hex();
  return pairs;
}

}  // namespace moh
