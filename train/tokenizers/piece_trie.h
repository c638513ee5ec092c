#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "train/tokenizers/flat_table.h"

namespace moh {

/// A trie of texts with a number each, for matching all texts that begin at one place.
class PieceTrie {
 public:
  PieceTrie() : children_(256) {}

  bool empty() const { return values_.size() == 1; }
  /// `value` is 0 or more.
  void add(std::string_view text, std::int32_t value);
  /// The node that follows `node` by a byte; -1: none. The root is 0.
  std::int32_t child(std::int32_t node, char byte) const {
    return children_.find(node, static_cast<unsigned char>(byte)).first;
  }
  /// The number of the text that ends at a node; -1: none does.
  std::int32_t value(std::int32_t node) const { return values_[static_cast<std::size_t>(node)]; }
  /// Bytes of the longest text that `text` begins with; 0: none.
  std::size_t longest_prefix(std::string_view text) const;

 private:
  PairTable children_;
  std::vector<std::int32_t> values_ = {-1};  // by node
};

}  // namespace moh
