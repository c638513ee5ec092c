#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace moh {

/// Bytes of the text that replacing may make of another: a task file is untrusted.
inline constexpr std::size_t kMostTextBytes = std::size_t{64} << 20;

/// A regular expression over UTF-8 text, as Python's module `re` understands it where PCRE2 agrees: \w, \s
/// and \d are Unicode's. For task files, which are untrusted: an expression is at most 4 KiB long, and a
/// search that takes more steps than any sensible one ends with an error. Thread-safe.
class TextRegex {
 public:
  /// Throws ConfigError, naming `where`, for an invalid expression.
  TextRegex(std::string_view expression, std::string_view where);
  ~TextRegex();
  TextRegex(TextRegex&&) noexcept;

  /// Whether the text has a match. This and the others throw DataError for a search that takes too long.
  bool matches(std::string_view text) const;
  /// Of each match, from left to right: the match; with groups in the expression, the texts of all groups,
  /// empty for those that took no part. As re.findall.
  std::vector<std::vector<std::string>> find_all(std::string_view text) const;
  /// The text with each match replaced by `with`, in which $1 is the first group and $$ a $. Throws
  /// DataError for a result of more than kMostTextBytes.
  std::string replaced(std::string_view text, std::string_view with) const;

 private:
  struct Code;
  /// Calls visit(begin and end of match and groups, as PCRE2 has them) for each match.
  template <class Visit>
  void each_match(std::string_view text, const Visit& visit) const;

  std::unique_ptr<Code> code_;
};

}  // namespace moh
