#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

namespace moh {

/// A part of a text, in bytes.
struct TextRange {
  std::size_t begin = 0, end = 0;

  bool operator==(const TextRange&) const = default;
};

/// A regular expression of a tokenizer's file, compiled to machine code by PCRE2. Immutable and thread-safe.
///
/// The expressions of `tokenizers` are written for Oniguruma. Where the two engines differ, the constructor
/// translates (white space: U+180E is none) or refuses; on what is left they agree for every code point.
class Pattern {
 public:
  /// Throws DataError, naming `where`, for an expression that is invalid or that other engines would
  /// understand differently.
  Pattern(std::string_view expression, std::string_view where);
  ~Pattern();
  Pattern(Pattern&&) noexcept;

  /// The expression as given.
  const std::string& expression() const { return expression_; }

  /// The matches in a text, from left to right. A Matches is for one thread.
  class Matches {
   public:
    /// `text` is valid UTF-8 and, like the pattern, must outlive this object.
    Matches(const Pattern& pattern, std::string_view text);
    ~Matches();
    Matches(const Matches&) = delete;
    Matches& operator=(const Matches&) = delete;

    /// The next match; false at the end. Throws DataError, naming the expression, if a match takes more steps
    /// than any sensible one.
    bool next(TextRange& match);

   private:
    struct State;
    const Pattern& pattern_;
    std::string_view text_;
    std::size_t from_ = 0;
    std::size_t last_end_ = std::string::npos;  // of the last match
    State* state_;
  };

 private:
  struct Code;
  std::string expression_, where_;
  std::unique_ptr<Code> code_;
};

/// The expression in PCRE2's syntax, for Pattern. Throws DataError, naming `where`, for what engines
/// understand differently.
std::string to_pcre2(std::string_view expression, std::string_view where);

/// A text in which every character stands for itself as an expression.
std::string quoted_pattern(std::string_view text);

}  // namespace moh
