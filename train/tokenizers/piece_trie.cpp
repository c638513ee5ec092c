#include "train/tokenizers/piece_trie.h"

namespace moh {

void PieceTrie::add(std::string_view text, std::int32_t value) {
  std::int32_t node = 0;
  for (const char byte : text) {
    std::int32_t next = child(node, byte);
    if (next < 0) {
      next = static_cast<std::int32_t>(values_.size());
      children_.add(node, static_cast<unsigned char>(byte), {next, 0});
      values_.push_back(-1);
    }
    node = next;
  }
  values_[static_cast<std::size_t>(node)] = value;
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
