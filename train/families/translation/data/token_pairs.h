#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "train/base/io/checksum.h"
#include "train/families/language/data/token_source.h"

namespace moh {

/// Tokens of the two sentences of a pair, without those around them.
struct PairLengths {
  std::int64_t source = 0, target = 0;
};

/// The tokens of sentence pairs, in memory: one, two or four bytes each (TokenMemory), and 16 bytes a pair.
/// Immutable and thread-safe.
class TokenPairs {
 public:
  TokenPairs() = default;

  std::int64_t size() const { return static_cast<std::int64_t>(begins_.size() / 2); }
  PairLengths lengths(std::int64_t pair) const;
  /// The sums over all pairs.
  PairLengths all_lengths() const;
  /// Replaces the contents of `source` and `target` by the tokens of a pair.
  void copy(std::int64_t pair, std::vector<TokenId>& source, std::vector<TokenId>& target) const;
  /// "4500000 pairs, 130000000 source and 135000000 target tokens, checksum ...", equal for equal contents.
  std::string describe_contents() const;

 private:
  friend class PairMemory;

  TokenSourcePtr ids_;                 // source, target, source, target ...
  std::vector<std::uint64_t> begins_;  // of each sentence, and the end of the last one
  std::string checksum_;
};

/// Collects pairs.
class PairMemory {
 public:
  explicit PairMemory(std::int64_t vocab_size) : ids_(vocab_size) {}

  void append(std::span<const TokenId> source, std::span<const TokenId> target);
  std::int64_t size() const { return static_cast<std::int64_t>(begins_.size() / 2); }
  TokenPairs finish();

 private:
  TokenMemory ids_;
  std::vector<std::uint64_t> begins_ = {0};
  Checksum checksum_;
};

}  // namespace moh
