#include "train/tasks/language/score/text_requests.h"

#include <catch2/catch.hpp>

#include "core/error.h"
#include "train/tasks/language/score/python_text.h"

using namespace moh;

namespace {

/// Bytes, but "ab" is one token (256), and texts begin with 257 if `with_start`; no token ends documents
/// without `with_end`.
class PairTokenizer : public Tokenizer {
 public:
  explicit PairTokenizer(bool with_start, bool with_end = true) : with_end_(with_end) {
    if (with_start) start_ = {257};
  }
  std::string_view name() const override { return "pairs"; }
  std::int64_t vocab_size() const override { return 258; }
  std::uint64_t content_hash() const override { return 0; }
  std::optional<TokenId> end_of_document() const override {
    return with_end_ ? std::optional<TokenId>(0) : std::nullopt;
  }
  const std::vector<TokenId>& sequence_start() const override { return start_; }
  void encode(std::string_view text, std::vector<TokenId>& ids) const override {
    for (std::size_t i = 0; i < text.size(); ++i) {
      const bool pair = text.substr(i, 2) == "ab";
      ids.push_back(pair ? 256 : static_cast<unsigned char>(text[i]));
      i += pair ? 1 : 0;
    }
  }
  std::string_view token_bytes(TokenId) const override { return "?"; }

 private:
  bool with_end_;
  std::vector<TokenId> start_;
};

/// Bytes with a bos_token that no text begins with.
class WithBos final : public PairTokenizer {
 public:
  using PairTokenizer::PairTokenizer;
  std::optional<TokenId> beginning() const override { return 300; }
};

using Ids = std::vector<TokenId>;

void check_pair(const Tokenizer& tokenizer, std::string_view context, std::string_view continuation,
                const Ids& expected_context, const Ids& expected_continuation) {
  const ScoreRequest found = encode_pair(tokenizer, context, continuation);
  CHECK(found.context == expected_context);
  CHECK(found.continuation == expected_continuation);
}

}  // namespace

TEST_CASE("score: bos_token stands before a text that nothing precedes, where texts do not begin with it") {
  const WithBos tokenizer(false), without_end(false, false);
  CHECK(prefix_token(tokenizer) == 300);
  CHECK(prefix_token(without_end) == 300);
  CHECK(prefix_token(PairTokenizer(true)) == 257);
  CHECK(prefix_token(PairTokenizer(false)) == 0);
  CHECK_THROWS_AS(prefix_token(PairTokenizer(false, false)), DataError);
  check_pair(tokenizer, "", "xy", {300}, {'x', 'y'});
  check_pair(tokenizer, "x", "y", {'x'}, {'y'});
  const auto windows = encode_windows(tokenizer, "xyz", 8);
  REQUIRE(windows.size() == 1);
  CHECK(windows[0].context == Ids{300});
  CHECK(windows[0].continuation == Ids{'x', 'y', 'z'});
}

TEST_CASE("score: context and continuation are encoded together, and cut where the context alone ends") {
  const PairTokenizer plain(false), starts(true);
  check_pair(plain, "xy", " z", {'x', 'y'}, {' ', 'z'});
  check_pair(starts, "xy", " z", {257, 'x', 'y'}, {' ', 'z'});
  // A token across the cut: the context has as many tokens as it has alone.
  check_pair(plain, "xa", "bz", {'x', 'a'}, {'z'});
  // White space at the end of a context belongs to the continuation.
  check_pair(plain, "xy \n", "z", {'x', 'y'}, {' ', '\n', 'z'});
  check_pair(plain, "x\xe3\x80\x80", "z", {'x'}, {0xe3, 0x80, 0x80, 'z'});  // an ideographic space
}

TEST_CASE("score: without a context stands the token that texts begin with, or that ends documents") {
  check_pair(PairTokenizer(true), "", "xy", {257}, {'x', 'y'});
  check_pair(PairTokenizer(false), "", "xy", {0}, {'x', 'y'});
  check_pair(PairTokenizer(false), " ", "xy", {0}, {' ', 'x', 'y'});
  // A continuation that begins with that token has it once.
  check_pair(PairTokenizer(false), "", std::string_view("\0xy", 3), {0}, {'x', 'y'});
  CHECK_THROWS_WITH(
      encode_pair(PairTokenizer(false, false), "", "xy"),
      Catch::Contains(
          "pairs: expected a token that texts begin with, a bos_token, or one that ends documents"));
  CHECK_NOTHROW(encode_pair(PairTokenizer(false, false), "x", "y"));
}

TEST_CASE("score: a continuation without a token of its own is refused") {
  const PairTokenizer tokenizer(false);
  CHECK_THROWS_WITH(encode_pair(tokenizer, "x", ""),
                    Catch::Contains("continuation: expected a token or more"));
  CHECK_THROWS_AS(encode_pair(tokenizer, "xa", "b"), DataError);
  CHECK_THROWS_AS(encode_pair(tokenizer, "", ""), DataError);
}

TEST_CASE("score: windows score each token once, the last one after all that fits before it") {
  const PairTokenizer tokenizer(false), starts(true);
  const auto windows = [&](const Tokenizer& of, std::string_view text) {
    std::vector<std::pair<Ids, Ids>> pairs;
    for (ScoreRequest& window : encode_windows(of, text, 4)) {
      CHECK(window.context.size() + window.continuation.size() - 1 <= 4);
      pairs.emplace_back(window.context, window.continuation);
    }
    return pairs;
  };
  using Pairs = std::vector<std::pair<Ids, Ids>>;
  // As get_rolling_token_windows and make_disjoint_window of lm-evaluation-harness 0.4.13 give them.
  CHECK(windows(tokenizer, "0") == Pairs{{{0}, {'0'}}});
  CHECK(windows(tokenizer, "0123") == Pairs{{{0}, {'0', '1', '2', '3'}}});
  CHECK(windows(tokenizer, "01234") == Pairs{{{0}, {'0', '1', '2', '3'}}, {{'0', '1', '2', '3'}, {'4'}}});
  CHECK(windows(tokenizer, "0123456789") ==
        Pairs{{{0}, {'0', '1', '2', '3'}}, {{'3'}, {'4', '5', '6', '7'}}, {{'5', '6', '7'}, {'8', '9'}}});
  // The harness has the first token predicted, too.
  CHECK(windows(starts, "01") == Pairs{{{257}, {257, '0', '1'}}});
  CHECK_THROWS_WITH(encode_windows(tokenizer, "", 4), Catch::Contains("text: expected a token or more"));
}

TEST_CASE("score: texts are stripped, counted and capitalised as by Python") {
  CHECK(python_strip(" \t\n\x1f x y \xc2\xa0\xe3\x80\x80") == "x y");
  CHECK(python_lstrip("\xe1\x9a\x80x ") == "x ");
  CHECK(python_rstrip(" x\xe2\x80\xa8\r") == " x");
  CHECK(python_strip(" \n ").empty());
  CHECK(python_strip("\xe1\xa0\x8ex") == "\xe1\xa0\x8ex");  // U+180E is no space
  CHECK(python_capitalize("hELLO World") == "Hello world");
  CHECK(python_capitalize("\xc3\xa9T\xc3\x89") == "\xc3\x89t\xc3\xa9");
  CHECK(python_capitalize("").empty());
  CHECK(python_lower("\xce\x91\xce\xa3\xce\x9f") == "\xce\xb1\xcf\x83\xce\xbf");
  CHECK(python_length("a\xc3\xa9\xe6\xb3\x95\xf0\x9f\x98\x80") == 4);
  for (const auto& [text, words] : std::vector<std::pair<std::string, std::int64_t>>{{"", 1},
                                                                                     {"a", 1},
                                                                                     {" a", 2},
                                                                                     {" a  b\n", 4},
                                                                                     {"a\xe3\x80\x80"
                                                                                      "b",
                                                                                      2}})
    CHECK(count_split_words(text) == words);
}
