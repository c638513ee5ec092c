#include "train/base/jinja/jinja_lexer.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <utility>

#include "train/base/io/printable.h"
#include "train/base/jinja/jinja_template.h"

namespace moh {

namespace {

using Kind = JinjaToken::Kind;

constexpr std::string_view kBlanks = " \t\n\r\f\v";
constexpr std::string_view kTwoByteOperators[] = {"==", "!=", "<=", ">=", "//", "**"};

bool is_name_byte(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_';
}

/// Line ends as \n, and none at the end of the template.
std::string with_plain_lines(std::string_view source) {
  std::string text;
  for (std::size_t i = 0; i < source.size(); ++i) {
    if (source[i] == '\r' && i + 1 < source.size() && source[i + 1] == '\n') continue;
    text += source[i] == '\r' ? '\n' : source[i];
  }
  if (text.ends_with('\n')) text.pop_back();
  return text;
}

void append_utf8(std::string& text, std::uint32_t code) {
  const auto add = [&](std::uint32_t byte) { text += static_cast<char>(byte); };
  if (code < 0x80) return add(code);
  if (code < 0x800) {
    add(0xC0U | (code >> 6U));
  } else {
    if (code < 0x10000) {
      add(0xE0U | (code >> 12U));
    } else {
      add(0xF0U | (code >> 18U));
      add(0x80U | ((code >> 12U) & 0x3FU));
    }
    add(0x80U | ((code >> 6U) & 0x3FU));
  }
  add(0x80U | (code & 0x3FU));
}

class JinjaLexer {
 public:
  JinjaLexer(std::string_view where, std::string_view source)
      : where_(where), source_(with_plain_lines(source)) {}

  std::vector<JinjaToken> tokens() {
    while (at_ < source_.size()) {
      add_text(next_tag());
      if (at_ == source_.size()) break;
      switch (source_[at_ + 1]) {
        case '#':
          skip_comment();
          break;
        case '{':
          read_tag(Kind::kOutputBegin, Kind::kOutputEnd, "}}");
          break;
        default:
          read_tag(Kind::kBlockBegin, Kind::kBlockEnd, "%}");
      }
    }
    add(Kind::kEnd, "");
    return std::move(tokens_);
  }

 private:
  [[noreturn]] void fail(const std::string& fault) const { throw TemplateError(where_, line_, fault); }

  void add(Kind kind, std::string text) { tokens_.push_back({kind, std::move(text), line_}); }

  void advance(std::size_t end) {
    line_ += static_cast<int>(std::count(source_.begin() + static_cast<std::ptrdiff_t>(at_),
                                         source_.begin() + static_cast<std::ptrdiff_t>(end), '\n'));
    at_ = end;
  }

  std::size_t next_tag() const {
    for (std::size_t i = source_.find('{', at_); i != std::string::npos; i = source_.find('{', i + 1)) {
      if (i + 1 < source_.size() && std::string_view("{%#").find(source_[i + 1]) != std::string_view::npos)
        return i;
    }
    return source_.size();
  }

  /// The text before a tag at `end`, without the white space that the tag takes.
  void add_text(std::size_t end) {
    std::string_view text = std::string_view(source_).substr(at_, end - at_);
    const char sign = end + 2 < source_.size() ? source_[end + 2] : '\0';
    if (end < source_.size() && sign == '-') {
      text = text.substr(0, text.find_last_not_of(kBlanks) + 1);
    } else if (end < source_.size() && sign != '+' && source_[end + 1] != '{') {
      const std::size_t line = text.rfind('\n') + 1;  // npos + 1 is 0
      const bool begins_line = line > 0 || at_line_begin_;
      if (begins_line && text.find_first_not_of(kBlanks, line) == std::string_view::npos)
        text = text.substr(0, line);
    }
    if (!text.empty()) add(Kind::kText, std::string(text));
    advance(end);
  }

  /// The end of a tag, with the white space that it takes.
  void end_tag(std::size_t end, char sign, bool trims_line) {
    advance(end);
    std::size_t after = at_;
    if (sign == '-') {
      after = std::min(source_.find_first_not_of(kBlanks, at_), source_.size());
    } else if (sign != '+' && trims_line && at_ < source_.size() && source_[at_] == '\n') {
      ++after;
    }
    at_line_begin_ = after > at_ && source_[after - 1] == '\n';
    advance(after);
  }

  void skip_comment() {
    const std::size_t end = source_.find("#}", at_ + 2);
    if (end == std::string::npos)
      fail("expected the end of the comment, '#}', found the end of the template");
    end_tag(end + 2, end > at_ + 2 ? source_[end - 1] : '\0', true);
  }

  void read_tag(Kind begin, Kind end, std::string_view closing) {
    add(begin, "");
    std::size_t first = at_ + 2;
    if (first < source_.size() &&
        (source_[first] == '-' || (source_[first] == '+' && begin == Kind::kBlockBegin)))
      ++first;
    advance(first);
    open_ = 0;
    while (true) {
      advance(std::min(source_.find_first_not_of(kBlanks, at_), source_.size()));
      if (at_ == source_.size())
        fail("expected '" + std::string(closing) + "', found the end of the template");
      const bool signs = source_[at_] == '-' || (source_[at_] == '+' && begin == Kind::kBlockBegin);
      const std::size_t close = at_ + (signs ? 1 : 0);
      if (open_ == 0 && source_.compare(close, 2, closing) == 0) {
        add(end, "");
        return end_tag(close + 2, signs ? source_[at_] : '\0', begin == Kind::kBlockBegin);
      }
      read_token();
    }
  }

  void read_token() {
    const char c = source_[at_];
    if (c == '"' || c == '\'') return read_string(c);
    if (std::isdigit(static_cast<unsigned char>(c)) != 0) return read_number();
    if (is_name_byte(c)) {
      std::size_t end = at_;
      while (end < source_.size() && is_name_byte(source_[end])) ++end;
      return take(Kind::kName, end);
    }
    const bool is_two = std::ranges::count(kTwoByteOperators, std::string_view(source_).substr(at_, 2)) > 0;
    if (!is_two && std::string_view("+-*/%~<>=()[]{}.,:|").find(c) == std::string_view::npos)
      fail("expected an expression, found '" +
           printable(first_character(std::string_view(source_).substr(at_))) + "'");
    if (!is_two && std::string_view("([{").find(c) != std::string_view::npos) ++open_;
    if (!is_two && std::string_view(")]}").find(c) != std::string_view::npos && open_ > 0) --open_;
    take(Kind::kOperator, at_ + (is_two ? 2 : 1));
  }

  void take(Kind kind, std::size_t end) {
    add(kind, source_.substr(at_, end - at_));
    advance(end);
  }

  void read_number() {
    std::size_t end = at_;
    const auto skip_digits = [&] {
      while (end < source_.size() && std::isdigit(static_cast<unsigned char>(source_[end])) != 0) ++end;
    };
    skip_digits();
    const bool is_float = end + 1 < source_.size() && source_[end] == '.' &&
                          std::isdigit(static_cast<unsigned char>(source_[end + 1])) != 0;
    if (is_float) {
      ++end;
      skip_digits();
    }
    take(is_float ? Kind::kFloat : Kind::kInteger, end);
  }

  void read_string(char quote) {
    std::string value;
    std::size_t i = at_ + 1;
    while (i < source_.size() && source_[i] != quote) {
      if (source_[i] == '\\' && i + 1 < source_.size()) {
        i = read_escape(i + 1, value);
      } else {
        value += source_[i++];
      }
    }
    if (i >= source_.size())
      fail("expected the end of a text, " + std::string(1, quote) + ", found the end of the template");
    add(Kind::kString, std::move(value));
    advance(i + 1);
  }

  /// Reads the escape behind a backslash, as in Python; returns the place behind it.
  std::size_t read_escape(std::size_t at, std::string& value) const {
    constexpr std::string_view kNames = "ntr0abfv\\'\"", kValues("\n\t\r\0\a\b\f\v\\'\"", 11);
    const char c = source_[at];
    if (const std::size_t found = kNames.find(c); found != std::string_view::npos) {
      value += kValues[found];
      return at + 1;
    }
    if (c == '\n') return at + 1;
    const std::size_t digits = c == 'x' ? 2 : c == 'u' ? 4 : c == 'U' ? 8 : 0;
    if (digits == 0) {
      value += '\\';
      return at;
    }
    std::uint32_t code = 0;
    const char* const begin = source_.data() + std::min(at + 1, source_.size());
    const char* const end = source_.data() + std::min(at + 1 + digits, source_.size());
    const auto [stop, error] = std::from_chars(begin, end, code, 16);
    const bool is_surrogate = code >= 0xD800 && code < 0xE000;
    if (error != std::errc() || stop != begin + digits || code > 0x10FFFF || is_surrogate)
      fail("expected a code point of " + std::to_string(digits) + " hexadecimal digits after '\\" + c + "'");
    append_utf8(value, code);
    return at + 1 + digits;
  }

  const std::string_view where_;
  const std::string source_;
  std::size_t at_ = 0;
  int line_ = 1, open_ = 0;
  bool at_line_begin_ = true;
  std::vector<JinjaToken> tokens_;
};

}  // namespace

std::vector<JinjaToken> jinja_tokens(std::string_view where, std::string_view source) {
  return JinjaLexer(where, source).tokens();
}

}  // namespace moh
