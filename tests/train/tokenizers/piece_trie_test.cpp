#include "train/tokenizers/piece_trie.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <map>
#include <random>
#include <string>
#include <vector>

using namespace moh;

namespace {

/// Each text's number, by following its bytes.
std::int32_t number_of(const PieceTrie& trie, std::string_view text) {
  std::int32_t node = 0;
  for (const char byte : text) {
    node = trie.child(node, byte);
    if (node < 0) return -1;
  }
  return trie.value(node);
}

/// `count` texts of up to `longest` of the first `alphabet` bytes, and numbers.
std::map<std::string, std::int32_t> random_texts(std::size_t count, std::size_t longest, unsigned alphabet) {
  std::mt19937 random(7);
  std::map<std::string, std::int32_t> texts;
  while (texts.size() < count) {
    std::string text(1 + random() % longest, '\0');
    for (char& byte : text) byte = static_cast<char>(random() % alphabet);
    texts.emplace(text, static_cast<std::int32_t>(texts.size()));
  }
  return texts;
}

}  // namespace

TEST_CASE("PieceTrie: finds exactly the texts that it was made of") {
  for (const unsigned alphabet : {2U, 5U, 130U, 256U}) {
    const auto texts = random_texts(alphabet == 2 ? 900 : 5000, 9, alphabet);
    std::vector<PieceTrie::Piece> pieces;
    for (const auto& [text, number] : texts) pieces.push_back({text, number});
    std::ranges::reverse(pieces);
    const PieceTrie trie(pieces);
    CHECK_FALSE(trie.empty());
    bool all = true;
    for (const auto& [text, number] : texts) {
      all = all && number_of(trie, text) == number;
      for (const std::string& other : {text.substr(1), text + '\x01', text.substr(0, text.size() - 1)}) {
        const auto found = texts.find(other);
        all = all && number_of(trie, other) == (found == texts.end() ? -1 : found->second);
      }
    }
    CHECK(all);
  }
}

TEST_CASE("PieceTrie: the longest text at a place, and none in an empty trie") {
  const PieceTrie trie({{"ab", 0}, {"abcd", 1}, {"b", 2}});
  CHECK(trie.longest_prefix("abcde") == 4);
  CHECK(trie.longest_prefix("abcx") == 2);
  CHECK(trie.longest_prefix("a") == 0);
  CHECK(trie.longest_prefix("") == 0);
  const PieceTrie none;
  CHECK(none.empty());
  CHECK(none.longest_prefix("ab") == 0);
  CHECK(none.value(0) == -1);
}
