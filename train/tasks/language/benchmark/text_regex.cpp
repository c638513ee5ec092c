#define PCRE2_CODE_UNIT_WIDTH 8
#include "train/tasks/language/benchmark/text_regex.h"

#include <pcre2.h>

#include <array>
#include <cctype>
#include <utility>

#include "core/error.h"
#include "train/io/printable.h"

namespace moh {

namespace {

constexpr std::size_t kMostBytes = 4096;
/// Backtracking steps of a search, and kibibytes that they may take.
constexpr std::uint32_t kMostSteps = 1'000'000, kMostMemory = 64 << 10;

struct FreeMatch {
  void operator()(pcre2_match_data* data) const { pcre2_match_data_free(data); }
};

}  // namespace

struct TextRegex::Code {
  std::string expression;
  pcre2_code* code = nullptr;
  pcre2_match_context* context = nullptr;

  ~Code() {
    pcre2_code_free(code);
    pcre2_match_context_free(context);
  }
};

TextRegex::TextRegex(std::string_view expression, std::string_view where) : code_(std::make_unique<Code>()) {
  const auto refuse = [&](const std::string& found) {
    throw ConfigError(error_message(where, "regular expression '" + printable(expression, 60) + "'",
                                    "a valid one of at most " + std::to_string(kMostBytes) + " bytes",
                                    found));
  };
  if (expression.size() > kMostBytes) refuse(std::to_string(expression.size()) + " bytes");
  code_->expression = expression;
  int error = 0;
  PCRE2_SIZE at = 0;
  code_->code = pcre2_compile(reinterpret_cast<PCRE2_SPTR>(expression.data()), expression.size(),
                              PCRE2_UTF | PCRE2_UCP | PCRE2_NEVER_BACKSLASH_C, &error, &at, nullptr);
  if (code_->code == nullptr) {
    std::array<PCRE2_UCHAR, 256> text{};
    pcre2_get_error_message(error, text.data(), text.size());
    refuse(std::string(reinterpret_cast<const char*>(text.data())) + " at byte " + std::to_string(at));
  }
  code_->context = pcre2_match_context_create(nullptr);
  if (code_->context == nullptr) throw MemoryError("regular expression: no memory");
  pcre2_set_match_limit(code_->context, kMostSteps);
  pcre2_set_heap_limit(code_->context, kMostMemory);
}

TextRegex::~TextRegex() = default;
TextRegex::TextRegex(TextRegex&&) noexcept = default;

template <class Visit>
void TextRegex::each_match(std::string_view text, const Visit& visit) const {
  const std::unique_ptr<pcre2_match_data, FreeMatch> data(
      pcre2_match_data_create_from_pattern(code_->code, nullptr));
  if (data == nullptr) throw MemoryError("regular expression: no memory");
  std::size_t from = 0;
  std::uint32_t options = 0, checked = 0;
  while (from <= text.size()) {
    const int count = pcre2_match(code_->code, reinterpret_cast<PCRE2_SPTR>(text.data()), text.size(), from,
                                  options | checked, data.get(), code_->context);
    if (count == PCRE2_ERROR_NOMATCH && options == 0) return;
    if (count == PCRE2_ERROR_NOMATCH) {  // nothing but the empty match that was found before
      from += from < text.size() ? first_character(text.substr(from)).size() : 1;
      options = 0;
      continue;
    }
    if (count < 0) {
      throw DataError(error_message(
          "regular expression '" + printable(code_->expression, 60) + "'", "search",
          "one of at most " + std::to_string(kMostSteps) + " steps over UTF-8",
          "PCRE2's error " + std::to_string(count) + " in '" + printable(text.substr(from), 60) + "'"));
    }
    checked = PCRE2_NO_UTF_CHECK;  // by the first search
    const PCRE2_SIZE* found = pcre2_get_ovector_pointer(data.get());
    if (!visit(found, pcre2_get_ovector_count(data.get()))) return;
    // After an empty match, one in the same place that is not empty, as in Python since 3.7.
    options = found[0] == found[1] ? PCRE2_NOTEMPTY_ATSTART | PCRE2_ANCHORED : 0;
    from = found[1];
  }
}

namespace {

std::string group_of(std::string_view text, const PCRE2_SIZE* found, std::size_t group) {
  const PCRE2_SIZE begin = found[2 * group], end = found[2 * group + 1];
  return begin == PCRE2_UNSET || end < begin ? "" : std::string(text.substr(begin, end - begin));
}

}  // namespace

bool TextRegex::matches(std::string_view text) const {
  bool found = false;
  each_match(text, [&](const PCRE2_SIZE*, std::size_t) {
    found = true;
    return false;
  });
  return found;
}

std::vector<std::vector<std::string>> TextRegex::find_all(std::string_view text) const {
  std::vector<std::vector<std::string>> matches;
  each_match(text, [&](const PCRE2_SIZE* found, std::size_t groups) {
    std::vector<std::string>& match = matches.emplace_back();
    for (std::size_t g = groups > 1 ? 1 : 0; g < groups; ++g) match.push_back(group_of(text, found, g));
    return true;
  });
  return matches;
}

std::string TextRegex::replaced(std::string_view text, std::string_view with) const {
  std::string result;
  std::size_t done = 0;
  each_match(text, [&](const PCRE2_SIZE* found, std::size_t groups) {
    if (result.size() > kMostTextBytes)
      throw DataError(error_message("regular expression '" + printable(code_->expression, 60) + "'", "result",
                                    "at most " + std::to_string(kMostTextBytes) + " bytes", "more"));
    result += text.substr(done, found[0] - std::min<std::size_t>(done, found[0]));
    for (std::size_t i = 0; i < with.size(); ++i) {
      const char next = i + 1 < with.size() ? with[i + 1] : '\0';
      if (with[i] != '$' || (next != '$' && std::isdigit(static_cast<unsigned char>(next)) == 0)) {
        result += with[i];
        continue;
      }
      ++i;
      const auto group = static_cast<std::size_t>(next - '0');
      if (next == '$')
        result += '$';
      else if (group < groups)
        result += group_of(text, found, group);
    }
    done = std::max<std::size_t>(done, found[1]);
    return true;
  });
  return result.append(text.substr(done));
}

}  // namespace moh
