#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

namespace moh {

/// A trie of texts with a number each, for matching all texts that begin at one place: a double array (Aoe
/// 1989), in which a step is one load. Immutable and thread-safe.
class PieceTrie {
 public:
  struct Piece {
    std::string_view text;
    std::int32_t value = 0;  ///< 0 or more
  };

  PieceTrie() : PieceTrie(std::vector<Piece>()) {}
  /// Texts differ and are not empty; they need not outlive this call.
  explicit PieceTrie(std::vector<Piece> pieces);

  bool empty() const { return empty_; }
  /// The node that follows `node` by a byte; -1: none. The root is 0.
  std::int32_t child(std::int32_t node, char byte) const {
    const std::uint32_t at = units_[static_cast<std::size_t>(node)].base ^ static_cast<unsigned char>(byte);
    return units_[at].parent == node ? static_cast<std::int32_t>(at) : -1;
  }
  /// The number of the text that ends at a node; -1: none does.
  std::int32_t value(std::int32_t node) const { return units_[static_cast<std::size_t>(node)].value; }
  /// Bytes of the longest text that `text` begins with; 0: none.
  std::size_t longest_prefix(std::string_view text) const;

 private:
  /// The child of a node by a byte is at base ^ byte: always within one block of 256 units.
  struct Unit {
    std::uint32_t base = 0;
    std::int32_t parent = -1;
    std::int32_t value = -1;
  };
  class Builder;

  std::vector<Unit> units_;
  bool empty_;
};

}  // namespace moh
