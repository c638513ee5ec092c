#include "train/base/io/json_fault.h"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <cstdlib>
#include <vector>

#include "train/base/io/printable.h"

namespace moh {

namespace {

constexpr std::size_t kMostJsonNesting = 512, kShownBytes = 20;

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

bool is_of_word(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '+' || c == '-' || c == '.';
}

/// Advice on what to write in place of a word that JSON does not have.
std::string_view fix_of_word(std::string_view word) {
  if (word == "True" || word == "False") return "JSON writes true and false";
  if (word == "None" || word == "undefined" || word == "NULL") return "JSON writes null";
  std::string lower;
  for (const char c : word) lower += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  if (lower.find("nan") != std::string::npos || lower.find("inf") != std::string::npos)
    return "JSON has no such number; write null";
  return "";
}

/// Reads a text by the grammar of JSON until something is wrong.
class Scanner {
 public:
  explicit Scanner(std::string_view text) : text_(text) {
    if (text_.starts_with("\xEF\xBB\xBF")) at_ = 3;
  }

  JsonFault operator()() {
    if (value(0)) {
      skip_space();
      if (at_ < text_.size()) fail("the end of the text", "more: " + next_word());
    }
    if (fault_.found.empty()) fault_.found = "nothing wrong";
    return fault_;
  }

 private:
  bool ended() const { return at_ >= text_.size(); }
  char peek() const { return ended() ? '\0' : text_[at_]; }
  void skip_space() { at_ = std::min(text_.find_first_not_of(" \t\r\n", at_), text_.size()); }

  /// Notes the fault at the current place; false.
  bool fail(std::string_view expected, std::string_view found, std::string_view fix = "") {
    const std::string_view before = text_.substr(0, at_);
    const std::size_t line_begin = before.rfind('\n') + 1;  // npos + 1 is 0
    fault_.line = 1 + static_cast<std::size_t>(std::ranges::count(before, '\n'));
    const auto begins_character = [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; };
    fault_.column =
        1 + static_cast<std::size_t>(std::ranges::count_if(before.substr(line_begin), begins_character));
    fault_.found = std::string(found) + where_in_tree();
    if (!expected.empty()) fault_.found += " (expected " + std::string(expected) + ")";
    fault_.fix = fix;
    return false;
  }
  /// Names what stands at the current place.
  bool fail_here(std::string_view expected, std::string_view fix = "") {
    return ended() ? fail(expected, "the end of the text", "it is cut off")
                   : fail(expected, next_word(), fix);
  }

  /// " at the key messages[0].content", or "".
  std::string where_in_tree() const {
    std::string path;
    for (const std::string& step : path_)
      path += (path.empty() || step.starts_with('[') ? "" : ".") + printable(step);
    return path.empty() ? "" : " at the key " + path;
  }

  /// The word or the character at the current place.
  std::string next_word() const {
    std::size_t end = at_;
    while (end < text_.size() && is_of_word(text_[end])) ++end;
    if (end > at_) return printable(text_.substr(at_, std::min(end - at_, kShownBytes)));
    return "'" + printable(first_character(text_.substr(at_))) + "'";
  }

  bool value(std::size_t depth) {
    skip_space();
    if (depth > kMostJsonNesting) return fail("at most 512 levels of nesting", "more");
    switch (peek()) {
      case '{':
        return members(depth);
      case '[':
        return items(depth);
      case '"': {
        std::string ignored;
        return text(ignored);
      }
      default:
        return is_digit(peek()) || peek() == '-' ? number() : word();
    }
  }

  bool word() {
    for (const std::string_view literal : {"true", "false", "null"}) {
      const std::string_view rest = text_.substr(at_);
      if (!rest.starts_with(literal)) continue;
      if (rest.size() > literal.size() && is_of_word(rest[literal.size()])) break;
      at_ += literal.size();
      return true;
    }
    if (peek() == '\'') return fail_here("a value", "JSON writes texts in double quotes");
    const std::string_view fix = fix_of_word(next_word());
    return fail_here(fix.empty() ? "a value" : "", fix);
  }

  bool digits() {
    const std::size_t begin = at_;
    while (is_digit(peek())) ++at_;
    return at_ > begin;
  }

  bool number() {
    const std::size_t begin = at_;
    const auto wrong = [&](std::string_view fix) {
      at_ = begin;
      return fail("a number of JSON", next_word(), fix);
    };
    if (peek() == '-') ++at_;
    const bool is_zero = peek() == '0';
    if (!digits()) {
      at_ = begin;
      return word();
    }
    if (is_zero && at_ - begin > (text_[begin] == '-' ? 2U : 1U)) return wrong("no zeros at the front");
    if (peek() == '.') {
      ++at_;
      if (!digits()) return wrong("a digit after the point");
    }
    if (peek() == 'e' || peek() == 'E') {
      ++at_;
      if (peek() == '+' || peek() == '-') ++at_;
      if (!digits()) return wrong("a digit after the e");
    }
    if (!ended() && is_of_word(peek())) return wrong("");
    const std::string digits_of_it(text_.substr(begin, at_ - begin));
    return std::isfinite(std::strtod(digits_of_it.c_str(), nullptr)) || wrong("it is too large");
  }

  /// The number of four hexadecimal digits after \u; -1 for something else.
  int hex_at(std::size_t at) const {
    const std::string_view hex = text_.substr(std::min(at, text_.size()), 4);
    const auto is_hex = [](char c) { return std::isxdigit(static_cast<unsigned char>(c)) != 0; };
    if (hex.size() < 4 || !std::ranges::all_of(hex, is_hex)) return -1;
    return static_cast<int>(std::strtol(std::string(hex).c_str(), nullptr, 16));
  }

  bool escape(std::string& read) {
    constexpr std::string_view kShort = "\"\\/bfnrt";
    const char kind = at_ + 1 < text_.size() ? text_[at_ + 1] : '\0';
    if (kShort.find(kind) != std::string_view::npos && kind != '\0') {
      read += kind;
      at_ += 2;
      return true;
    }
    if (kind != 'u')
      return fail("an escape of JSON", "'" + printable(text_.substr(at_, 2)) + "'", "a backslash is \\\\");
    const int code = hex_at(at_ + 2);
    if (code < 0)
      return fail("four hexadecimal digits after \\u", "'" + printable(text_.substr(at_, 6)) + "'");
    const bool is_high = code >= 0xD800 && code < 0xDC00, is_low = code >= 0xDC00 && code < 0xE000;
    const int other =
        is_high && text_.substr(std::min(at_ + 6, text_.size()), 2) == "\\u" ? hex_at(at_ + 8) : -1;
    if (is_low || (is_high && (other < 0xDC00 || other >= 0xE000))) {
      return fail("", "a lone surrogate" + where_in_tree_once() + ", " + printable(text_.substr(at_, 6)),
                  "it is half of a character: the text was cut within it");
    }
    read += text_.substr(at_, is_high ? 12 : 6);
    at_ += is_high ? 12 : 6;
    return true;
  }

  /// where_in_tree(), which fail() then does not add.
  std::string where_in_tree_once() {
    std::string where = where_in_tree();
    path_.clear();
    return where;
  }

  /// A text in quotes; `read` is what it says, for keys.
  bool text(std::string& read) {
    for (++at_; peek() != '"';) {
      if (ended()) return fail("a \" at the end of a text", "the end of the text", "it is cut off");
      const auto byte = static_cast<unsigned char>(peek());
      if (byte < 0x20) return fail_control(byte);
      if (byte == '\\') {
        if (!escape(read)) return false;
        continue;
      }
      const Utf8Front front = utf8_front(text_.substr(at_));
      if (front.bytes == 0 || !front.complete)
        return fail("UTF-8", "the byte 0x" + hex_digits({&text_[at_], 1}));
      read += text_.substr(at_, front.bytes);
      at_ += front.bytes;
    }
    ++at_;
    return true;
  }

  bool fail_control(unsigned char byte) {
    const std::string_view fix = byte == '\t'   ? "write \\t"
                                 : byte == '\n' ? "write \\n"
                                 : byte == '\r' ? "write \\r"
                                                : "write \\u and four digits";
    return fail("", "the raw control character U+00" + hex_digits({&text_[at_], 1}), fix);
  }

  bool members(std::size_t depth) {
    ++at_;
    skip_space();
    if (peek() == '}') return ++at_, true;
    while (true) {
      skip_space();
      if (peek() == '}') return fail("a key after the comma", "'}'");
      if (peek() != '"') return fail_here("a key in double quotes");
      std::string key;
      if (!text(key)) return false;
      skip_space();
      if (peek() != ':') return fail_here("':' after the key " + printable(key));
      ++at_;
      path_.push_back(std::move(key));
      if (!value(depth + 1)) return false;
      path_.pop_back();
      skip_space();
      if (peek() == '}') return ++at_, true;
      if (peek() != ',') return fail_here("',' or '}'");
      ++at_;
    }
  }

  bool items(std::size_t depth) {
    ++at_;
    skip_space();
    if (peek() == ']') return ++at_, true;
    for (std::size_t number = 0;; ++number) {
      path_.push_back("[" + std::to_string(number) + "]");
      skip_space();
      if (peek() == ']') return fail("an item after the comma", "']'");
      if (!value(depth + 1)) return false;
      path_.pop_back();
      skip_space();
      if (peek() == ']') return ++at_, true;
      if (peek() != ',') return fail_here("',' or ']'");
      ++at_;
    }
  }

  std::string_view text_;
  std::size_t at_ = 0;
  std::vector<std::string> path_;  // keys, and "[0]" for items
  JsonFault fault_;
};

}  // namespace

std::string JsonFault::words(bool one_line) const {
  const std::string text = "column " + std::to_string(column) + ": " + found;
  return one_line ? text : "line " + std::to_string(line) + ", " + text;
}

JsonFault find_json_fault(std::string_view text) {
  return Scanner(text)();
}

}  // namespace moh
