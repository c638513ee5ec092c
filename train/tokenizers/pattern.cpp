#define PCRE2_CODE_UNIT_WIDTH 8
#include "train/tokenizers/pattern.h"

#include <pcre2.h>

#include <cctype>
#include <memory>

#include "core/error.h"
#include "train/base/io/printable.h"

namespace moh {

namespace {

/// White space of Unicode, as in Oniguruma and Rust; PCRE2 counts U+180E, too.
constexpr std::string_view kSpaces =
    "\\x{9}-\\x{d}\\x{20}\\x{85}\\x{a0}\\x{1680}\\x{2000}-\\x{200a}\\x{2028}\\x{2029}\\x{202f}\\x{205f}\\x{"
    "3000}";

/// Backtracking steps of a match: far beyond those of any tokenizer's expression on a word.
constexpr std::uint32_t kMatchLimit = 10'000'000;

[[noreturn]] void refuse_pattern(std::string_view where, std::string_view expression,
                                 std::string_view found) {
  throw DataError(error_message(where, "regular expression '" + printable(expression) + "'",
                                "constructs that all engines understand alike", found,
                                "the tokenizer needs another program, or another expression"));
}

std::string message_of(int code) {
  PCRE2_UCHAR text[256] = {};
  pcre2_get_error_message(code, text, sizeof text);
  return reinterpret_cast<const char*>(text);
}

/// Copies an expression, replacing what PCRE2 understands differently.
class Translation {
 public:
  Translation(std::string_view expression, std::string_view where) : from_(expression), where_(where) {}

  std::string operator()() {
    while (at_ < from_.size()) {
      const char c = from_[at_];
      if (c == '\\') {
        escape(/*in_class=*/false);
      } else if (c == '[') {
        character_class();
      } else if (c == '(') {
        group();
      } else if (c == '{') {
        interval();
      } else if (c == '^' || c == '$') {
        refuse_pattern(where_, from_, std::string(1, c) + ", an anchor");
      } else {
        to_ += c;
        ++at_;
      }
    }
    return std::move(to_);
  }

 private:
  bool next_is(std::string_view text) const { return from_.substr(at_).starts_with(text); }
  void copy(std::size_t count) {
    to_ += from_.substr(at_, count);
    at_ += count;
  }

  void escape(bool in_class) {
    if (at_ + 1 == from_.size()) refuse_pattern(where_, from_, "a backslash at its end");
    const char c = from_[at_ + 1];
    if (c == 's' || c == 'S') {
      if (in_class && c == 'S') refuse_pattern(where_, from_, "\\S in a class");
      if (!in_class) to_ += c == 's' ? "[" : "[^";
      to_ += kSpaces;
      if (!in_class) to_ += ']';
      at_ += 2;
    } else if (c == 'p' || c == 'P') {
      const std::size_t end = next_is(std::string{'\\', c, '{'}) ? from_.find('}', at_) : std::string::npos;
      if (end == std::string::npos) refuse_pattern(where_, from_, "a property without braces");
      copy(end + 1 - at_);
    } else if (c == 'x' && from_.substr(at_ + 2, 1) == "{") {
      const std::size_t end = from_.find('}', at_);
      if (end == std::string::npos) refuse_pattern(where_, from_, "\\x{ without an end");
      copy(end + 1 - at_);
    } else if (std::string_view("rntdD").find(c) != std::string::npos ||
               std::ispunct(static_cast<unsigned char>(c)) != 0) {
      copy(2);
    } else {
      refuse_pattern(where_, from_, printable(from_.substr(at_, 2)));
    }
  }

  void character_class() {
    copy(1);
    if (next_is("^")) copy(1);
    while (at_ < from_.size() && from_[at_] != ']') {
      if (from_[at_] == '\\') {
        escape(/*in_class=*/true);
      } else if (from_[at_] == '[' || next_is("&&")) {
        refuse_pattern(where_, from_, "a class within a class");
      } else {
        copy(1);
      }
    }
    if (at_ == from_.size()) refuse_pattern(where_, from_, "a class without an end");
    copy(1);
  }

  void group() {
    constexpr std::string_view kKnown[] = {"(?:", "(?i:", "(?!", "(?=", "(?>", "(?<!", "(?<="};
    for (const std::string_view known : kKnown) {
      if (next_is(known)) return copy(known.size());
    }
    if (next_is("(?") || next_is("(*")) refuse_pattern(where_, from_, printable(from_.substr(at_, 4)));
    copy(1);
  }

  /// After an interval, + makes the match possessive in PCRE2, and repeats it in Oniguruma.
  void interval() {
    const std::size_t end = from_.find('}', at_);
    if (end == std::string::npos) refuse_pattern(where_, from_, "{ without an end");
    copy(end + 1 - at_);
    if (next_is("+")) refuse_pattern(where_, from_, "}+");
  }

  std::string_view from_, where_;
  std::size_t at_ = 0;
  std::string to_;
};

}  // namespace

struct Pattern::Code {
  pcre2_code* code = nullptr;
  pcre2_match_context* context = nullptr;

  Code() = default;
  Code(const Code&) = delete;
  Code& operator=(const Code&) = delete;
  ~Code() {
    pcre2_match_context_free(context);
    pcre2_code_free(code);
  }
};

struct Pattern::Matches::State {
  pcre2_match_data* data;
};

Pattern::Pattern(std::string_view expression, std::string_view where)
    : expression_(expression), where_(where), code_(std::make_unique<Code>()) {
  const std::string translated = to_pcre2(expression, where);
  int error = 0;
  std::size_t offset = 0;
  code_->code = pcre2_compile(reinterpret_cast<PCRE2_SPTR>(translated.data()), translated.size(),
                              PCRE2_UTF | PCRE2_UCP | PCRE2_NEVER_BACKSLASH_C, &error, &offset, nullptr);
  if (code_->code == nullptr) {
    throw DataError(error_message(where, "regular expression '" + printable(expression) + "'", "a valid one",
                                  message_of(error)));
  }
  pcre2_jit_compile(code_->code, PCRE2_JIT_COMPLETE);  // without it matches are slower, but the same
  code_->context = pcre2_match_context_create(nullptr);
  if (code_->context == nullptr) throw MemoryError(where_ + ": no memory for a regular expression");
  pcre2_set_match_limit(code_->context, kMatchLimit);
}

Pattern::~Pattern() = default;
Pattern::Pattern(Pattern&&) noexcept = default;

Pattern::Matches::Matches(const Pattern& pattern, std::string_view text)
    : pattern_(pattern), text_(text), state_(nullptr) {
  pcre2_match_data* data = pcre2_match_data_create_from_pattern(pattern.code_->code, nullptr);
  if (data == nullptr) throw MemoryError(pattern.where_ + ": no memory for a regular expression");
  state_ = new State{data};
}

Pattern::Matches::~Matches() {
  pcre2_match_data_free(state_->data);
  delete state_;
}

bool Pattern::Matches::next(TextRange& match) {
  while (from_ <= text_.size()) {
    const int found =
        pcre2_match(pattern_.code_->code, reinterpret_cast<PCRE2_SPTR>(text_.data()), text_.size(), from_,
                    PCRE2_NO_UTF_CHECK, state_->data, pattern_.code_->context);
    if (found == PCRE2_ERROR_NOMATCH) break;
    if (found < 0) {
      throw DataError(error_message(pattern_.where_,
                                    "regular expression '" + printable(pattern_.expression_) + "'",
                                    "to match in reasonable time", message_of(found)));
    }
    const std::size_t* range = pcre2_get_ovector_pointer(state_->data);
    match = {range[0], range[1]};
    from_ = match.end;
    if (match.begin < match.end || last_end_ != match.end) {
      last_end_ = match.end;
      return true;
    }
    // An empty match where the last one ended is none.
    from_ += from_ < text_.size() ? utf8_length(text_.substr(from_)) : 1;
  }
  from_ = text_.size() + 1;
  return false;
}

std::string to_pcre2(std::string_view expression, std::string_view where) {
  return Translation(expression, where)();
}

std::string quoted_pattern(std::string_view text) {
  std::string quoted;
  for (const char c : text) {
    if (std::ispunct(static_cast<unsigned char>(c)) != 0) quoted += '\\';
    quoted += c;
  }
  return quoted;
}

}  // namespace moh
