#include "train/tokenizers/pattern.h"

#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "core/error.h"

using namespace moh;
using Catch::Contains;

namespace {

std::vector<std::string> matches_of(std::string_view expression, std::string_view text) {
  const Pattern pattern(expression, "a test");
  Pattern::Matches matches(pattern, text);
  std::vector<std::string> found;
  for (TextRange match; matches.next(match);)
    found.emplace_back(text.substr(match.begin, match.end - match.begin));
  return found;
}

}  // namespace

TEST_CASE("patterns: matches from left to right, by characters") {
  CHECK(matches_of(" ?\\p{L}+|\\p{N}{1,2}", "né 123 x") == std::vector<std::string>{"né", "12", "3", " x"});
  CHECK(matches_of("(?i:'s|'t)", "'S't'x") == std::vector<std::string>{"'S", "'t"});
  CHECK(matches_of("\\s+(?!\\S)|\\s+", "a   b") == std::vector<std::string>{"  ", " "});
  CHECK(matches_of("[^\\s\\p{L}]", "a b+") == std::vector<std::string>{"+"});
  // U+180E is not white space, U+0085 is.
  CHECK(matches_of("\\s", "\u180e\u0085") == std::vector<std::string>{"\u0085"});
  CHECK(matches_of("\\S", "\u180e\u0085") == std::vector<std::string>{"\u180e"});
  // Empty matches, but for those where the last match ended.
  CHECK(matches_of("a*", "baaé") == std::vector<std::string>{"", "aa", ""});
  CHECK(matches_of(quoted_pattern("a.(b"), "axb a.(b") == std::vector<std::string>{"a.(b"});
}

TEST_CASE("patterns: what engines understand differently is refused, and so is what is invalid") {
  for (const std::string expression : {"a$", "\\bword", "\\w+", "(?<name>a)", "(?#x)", "[a[b]]", "[\\S]",
                                       "[a&&b]", "a{1,2}+", "\\h", "(*ACCEPT)", "\\pL", "[a", "a\\"}) {
    INFO(expression);
    CHECK_THROWS_WITH(Pattern(expression, "file: split"),
                      Contains("file: split: regular expression '") && Contains("alike, found "));
  }
  CHECK_THROWS_WITH(Pattern("(a", "file"), Contains("expected a valid one"));
  CHECK_THROWS_WITH(Pattern("\\p{Nothing}", "file"), Contains("expected a valid one"));
}

TEST_CASE("patterns: an expression that takes forever is an error that names it") {
  CHECK_THROWS_WITH(matches_of("(?:a+)+[bc]", std::string(200, 'a')),
                    Contains("'(?:a+)+[bc]': expected to match in reasonable time"));
}
