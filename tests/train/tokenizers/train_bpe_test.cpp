#include "train/tokenizers/train_bpe.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <map>
#include <random>
#include <string>
#include <tuple>
#include <vector>

#include "core/error.h"
#include "tests/support/temporary_folder.h"
#include "tests/train/tokenizers/golden.h"
#include "train/tokenizers/tokenizer_json.h"
#include "train/tokenizers/write_tokenizer_json.h"

using namespace moh;
using Catch::Contains;

namespace {

using Pair = std::pair<TokenId, TokenId>;

LearnedBpe learned(const std::vector<WordCount>& words, const BpeTrainerOptions& options) {
  return train_bpe(words, options, [](std::int64_t) {});
}

/// Words over few letters, so that pairs occur equally often and overlap.
std::vector<WordCount> random_words(std::mt19937& randomness, int count) {
  std::vector<WordCount> words;
  for (int i = 0; i < count; ++i) {
    WordCount word{.count = 1 + static_cast<std::int64_t>(randomness() % 4)};
    const std::size_t size = 1 + randomness() % 9;
    for (std::size_t k = 0; k < size; ++k) word.bytes += static_cast<char>('a' + randomness() % 3);
    words.push_back(word);
  }
  return words;
}

/// The pair that is merged next, found by counting all, and its count.
std::pair<Pair, std::int64_t> most_frequent(const std::vector<std::vector<TokenId>>& words,
                                            const std::vector<WordCount>& counts) {
  std::map<Pair, std::int64_t> pairs;
  for (std::size_t w = 0; w < words.size(); ++w) {
    for (std::size_t i = 0; i + 1 < words[w].size(); ++i)
      pairs[{words[w][i], words[w][i + 1]}] += counts[w].count;
  }
  std::pair<Pair, std::int64_t> best{};
  for (const auto& [pair, count] : pairs) {
    if (count > best.second) best = {pair, count};  // of equal ones the first: ids ascend
  }
  return best;
}

void merge(std::vector<TokenId>& word, Pair pair, TokenId merged) {
  std::vector<TokenId> result;
  for (std::size_t i = 0; i < word.size(); ++i) {
    const bool here = i + 1 < word.size() && Pair(word[i], word[i + 1]) == pair;
    result.push_back(here ? merged : word[i]);
    i += here ? 1 : 0;
  }
  word = result;
}

}  // namespace

TEST_CASE("training a BPE: each merge is the most frequent pair, as counting all of them finds it") {
  std::mt19937 randomness(5);
  for (int round = 0; round < 20; ++round) {
    const std::vector<WordCount> words = random_words(randomness, 60);
    const LearnedBpe bpe = learned(words, {.vocab_size = 256 + 40, .min_frequency = 3});
    std::map<std::string, TokenId> ids;
    for (std::size_t id = 0; id < bpe.tokens.size(); ++id) ids[bpe.tokens[id]] = static_cast<TokenId>(id);
    REQUIRE(ids.size() == bpe.tokens.size());
    std::vector<std::vector<TokenId>> symbols;
    for (const WordCount& word : words) {
      symbols.emplace_back();
      for (const char byte : word.bytes) symbols.back().push_back(ids.at(std::string(1, byte)));
    }
    for (const Pair& pair : bpe.merges) {
      const auto [expected, count] = most_frequent(symbols, words);
      REQUIRE(pair == expected);
      CHECK(count >= 3);
      const std::string bytes = bpe.tokens[static_cast<std::size_t>(pair.first)] +
                                bpe.tokens[static_cast<std::size_t>(pair.second)];
      for (std::vector<TokenId>& word : symbols) merge(word, pair, ids.at(bytes));
    }
    if (std::ssize(bpe.tokens) < 256 + 40) CHECK(most_frequent(symbols, words).second < 3);
  }
}

TEST_CASE("training a BPE: the result does not depend on the order of the words") {
  std::mt19937 randomness(6);
  std::vector<WordCount> words = random_words(randomness, 200);
  const LearnedBpe first = learned(words, {.vocab_size = 330});
  std::ranges::shuffle(words, randomness);
  const LearnedBpe second = learned(words, {.vocab_size = 330});
  CHECK(first.tokens == second.tokens);
  CHECK(first.merges == second.merges);
}

TEST_CASE("training a BPE: special tokens come first, then the bytes in the order of their characters") {
  const LearnedBpe bpe = learned({}, {.vocab_size = 258, .special = {"<s>", "</s>"}});
  CHECK(bpe.tokens.size() == 258);
  CHECK(bpe.tokens[0] == "<s>");
  CHECK(bpe.tokens[2] == "!");
  CHECK(bpe.tokens[257] == "\xad");  // U+0143, the last one
  CHECK_THROWS_WITH(learned({}, {.vocab_size = 257, .special = {"<s>", "</s>"}}),
                    Contains("at least 258, the 256 bytes and the special tokens, found 257"));
}

TEST_CASE("training a BPE: what is written is read as a tokenizer") {
  const TemporaryFolder folder;
  const std::vector<WordCount> words = {{"head", 5}, {" head", 9}, {" heads", 3}, {"\xe5\xa4\x9a", 4}};
  for (const WordPattern pattern : {WordPattern::kGpt2, WordPattern::kLlama3}) {
    const LearnedBpe bpe = learned(words, {.vocab_size = 300, .special = {"<|endoftext|>"}});
    write_file(folder / "tokenizer.json", tokenizer_json_of(bpe, 1, pattern));
    const auto tokenizer = read_tokenizer_json(folder / "tokenizer.json");
    CHECK(tokenizer->vocab_size() == std::ssize(bpe.tokens));
    CHECK(tokenizer->end_of_document() == 0);
    const std::vector<TokenId> ids = test::ids_of(*tokenizer, "head heads 12345 \xe5\xa4\x9a\n");
    CHECK(test::decoded(*tokenizer, ids) == "head heads 12345 \xe5\xa4\x9a\n");
    CHECK(bpe.tokens[static_cast<std::size_t>(ids[0])] == "head");
    CHECK(bpe.tokens[static_cast<std::size_t>(ids[1])] == " heads");
  }
}
