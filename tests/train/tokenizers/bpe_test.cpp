#include "train/tokenizers/bpe.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <map>
#include <random>
#include <string>
#include <vector>

using namespace moh;

namespace {

/// A random encoding over a few bytes, small enough that merges overlap in every way.
BpeTables random_tables(std::mt19937& randomness) {
  BpeTables tables;
  tables.byte_level = true;
  for (TokenId i = 0; i < 4; ++i) tables.tokens.push_back({std::string(1, static_cast<char>('a' + i)), i});
  const auto any = [&] {
    return std::uniform_int_distribution<TokenId>(0, std::ssize(tables.tokens) - 1)(randomness);
  };
  for (int i = 0; i < 30; ++i) {
    const TokenId left = any(), right = any();
    const std::string text = tables.tokens[static_cast<std::size_t>(left)].text +
                             tables.tokens[static_cast<std::size_t>(right)].text;
    const auto same = std::ranges::find(tables.tokens, text, &BpeTables::Token::text);
    const TokenId merged =
        same != tables.tokens.end() ? same->id : static_cast<TokenId>(tables.tokens.size());
    if (same == tables.tokens.end()) tables.tokens.push_back({text, merged});
    const auto is_pair = [&](const BpeTables::Merge& m) { return m.left == left && m.right == right; };
    if (std::ranges::none_of(tables.merges, is_pair)) tables.merges.push_back({left, right, merged});
  }
  std::ranges::shuffle(tables.merges, randomness);
  return tables;
}

/// The definition: merge by merge, from the first in the list, the leftmost pair.
std::vector<TokenId> encoded_by_definition(const BpeTables& tables, const std::string& word) {
  std::vector<TokenId> ids;
  for (const char c : word) ids.push_back(c - 'a');
  for (;;) {
    const BpeTables::Merge* best = nullptr;
    std::size_t place = 0;
    for (const BpeTables::Merge& merge : tables.merges) {
      for (std::size_t i = 0; i + 1 < ids.size() && best == nullptr; ++i) {
        if (ids[i] != merge.left || ids[i + 1] != merge.right) continue;
        best = &merge;
        place = i;
      }
      if (best != nullptr) break;
    }
    if (best == nullptr) return ids;
    ids[place] = best->merged;
    ids.erase(ids.begin() + static_cast<std::ptrdiff_t>(place) + 1);
  }
}

}  // namespace

TEST_CASE("BPE: words of any length are encoded by definition") {
  std::mt19937 randomness(3);
  for (int round = 0; round < 40; ++round) {
    const BpeTables tables = random_tables(randomness);
    const Bpe bpe(tables);
    for (const std::size_t length : {1, 2, 3, 5, 8, 13, 40, 47, 48, 49, 50, 120, 300}) {
      std::string word(length, 'a');
      for (char& c : word) c = static_cast<char>('a' + randomness() % 4);
      std::vector<TokenId> ids;
      bpe.encode(word, ids);
      INFO("round " << round << ", " << word);
      CHECK(ids == encoded_by_definition(tables, word));
    }
  }
}

TEST_CASE("BPE: with ignore_merges a word that is a token is one, however it would be merged") {
  BpeTables tables;
  tables.byte_level = true;
  tables.tokens = {{"a", 0}, {"b", 1}, {"ab", 2}, {"aba", 3}};
  tables.merges = {{1, 0, 3}};  // never makes "aba" of its own bytes
  std::vector<TokenId> ids;
  Bpe(tables).encode("ab", ids);
  CHECK(ids == std::vector<TokenId>{0, 1});
  tables.ignore_merges = true;
  ids.clear();
  Bpe(tables).encode("ab", ids);
  Bpe(tables).encode("aba", ids);
  CHECK(ids == std::vector<TokenId>{2, 3});
}

TEST_CASE("BPE: characters without a token become bytes, the unknown token, or one for a row of them") {
  BpeTables tables;
  tables.tokens = {{"a", 0}, {"?", 1}};
  tables.unknown = 1;
  std::vector<TokenId> ids;
  Bpe(tables).encode("xya", ids);
  CHECK(ids == std::vector<TokenId>{1, 1, 0});
  tables.fuse_unknown = true;
  ids.clear();
  Bpe(tables).encode("xyaz", ids);
  CHECK(ids == std::vector<TokenId>{1, 0, 1});
  for (TokenId byte = 0; byte < 256; ++byte) tables.byte_tokens.push_back(100 + byte);
  ids.clear();
  Bpe(tables).encode("a\u00e9", ids);
  CHECK(ids == std::vector<TokenId>{0, 100 + 0xc3, 100 + 0xa9});
}
