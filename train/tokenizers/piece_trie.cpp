#include "train/tokenizers/piece_trie.h"

#include <algorithm>
#include <deque>
#include <utility>

namespace moh {

/// Places nodes breadth first, so that those near the root, which every text passes, share cache lines.
class PieceTrie::Builder {
 public:
  Builder(std::vector<Piece> pieces, std::vector<Unit>& units) : pieces_(std::move(pieces)), units_(units) {
    std::ranges::sort(pieces_, {}, &Piece::text);
    add_block();
    take(0);
    open_.push_back({0, 0, pieces_.size(), 0});
    for (; !open_.empty(); open_.pop_front()) place_children(open_.front());
  }

 private:
  static constexpr std::size_t kBlock = 256;
  /// Blocks in which children are looked for, the last ones, and units that are tried in each.
  static constexpr std::size_t kBlocksTried = 16, kUnitsTried = 32;

  /// A node, and the pieces [begin, end) whose first `depth` bytes lead to it.
  struct Open {
    std::int32_t node;
    std::size_t begin, end, depth;
  };

  unsigned char byte_of(std::size_t piece, std::size_t depth) const {
    return static_cast<unsigned char>(pieces_[piece].text[depth]);
  }
  bool is_free(std::size_t unit) const { return free_[unit]; }
  void take(std::size_t unit) {
    free_[unit] = false;
    --left_[unit / kBlock];
  }
  void add_block() {
    units_.resize(units_.size() + kBlock);
    free_.resize(units_.size(), true);
    left_.push_back(kBlock);
  }

  void place_children(const Open& open) {
    std::size_t begin = open.begin;
    if (begin < open.end && pieces_[begin].text.size() == open.depth)
      units_[static_cast<std::size_t>(open.node)].value = pieces_[begin++].value;
    bytes_.clear();
    for (std::size_t i = begin; i < open.end; ++i) {
      if (i == begin || byte_of(i, open.depth) != bytes_.back()) bytes_.push_back(byte_of(i, open.depth));
    }
    if (bytes_.empty()) return;
    const std::uint32_t base = find_base();
    units_[static_cast<std::size_t>(open.node)].base = base;
    for (const unsigned char byte : bytes_) {
      const std::uint32_t unit = base ^ byte;
      take(unit);
      units_[unit].parent = open.node;
      const std::size_t from = begin;
      while (begin < open.end && byte_of(begin, open.depth) == byte) ++begin;
      open_.push_back({static_cast<std::int32_t>(unit), from, begin, open.depth + 1});
    }
  }

  /// Where all children of these bytes have a free unit.
  std::uint32_t find_base() {
    const std::size_t blocks = left_.size();
    for (std::size_t block = blocks - std::min(blocks, kBlocksTried); block < blocks; ++block) {
      if (left_[block] < bytes_.size()) continue;
      std::size_t tried = 0;
      for (std::size_t unit = block * kBlock; unit < (block + 1) * kBlock && tried < kUnitsTried; ++unit) {
        if (!is_free(unit)) continue;
        ++tried;
        const auto base = static_cast<std::uint32_t>(unit) ^ bytes_.front();
        if (std::ranges::all_of(bytes_, [&](unsigned char byte) { return is_free(base ^ byte); }))
          return base;
      }
    }
    add_block();
    return static_cast<std::uint32_t>(units_.size() - kBlock);
  }

  std::vector<Piece> pieces_;
  std::vector<Unit>& units_;
  std::vector<bool> free_;
  std::vector<std::size_t> left_;  // free units of each block
  std::deque<Open> open_;
  std::vector<unsigned char> bytes_;  // of the children of a node
};

PieceTrie::PieceTrie(std::vector<Piece> pieces) : empty_(pieces.empty()) {
  Builder(std::move(pieces), units_);
}

std::size_t PieceTrie::longest_prefix(std::string_view text) const {
  std::size_t longest = 0;
  std::int32_t node = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    node = child(node, text[i]);
    if (node < 0) break;
    if (value(node) >= 0) longest = i + 1;
  }
  return longest;
}

}  // namespace moh
