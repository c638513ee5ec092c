#include "train/tokenizers/normalizer.h"

#include <utf8proc.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <iterator>
#include <utility>

#include "core/error.h"
#include "train/base/io/printable.h"

namespace moh {

namespace {

utf8proc_option_t options_of(UnicodeForm form) {
  const auto with = [](int options) { return static_cast<utf8proc_option_t>(options); };
  switch (form) {
    case UnicodeForm::kNfc:
      return with(UTF8PROC_STABLE | UTF8PROC_COMPOSE);
    case UnicodeForm::kNfd:
      return with(UTF8PROC_STABLE | UTF8PROC_DECOMPOSE);
    case UnicodeForm::kNfkc:
      return with(UTF8PROC_STABLE | UTF8PROC_COMPOSE | UTF8PROC_COMPAT);
    case UnicodeForm::kNfkd:
      return with(UTF8PROC_STABLE | UTF8PROC_DECOMPOSE | UTF8PROC_COMPAT);
  }
  MOH_CHECK(false, "a form of Unicode");
}

bool is_ascii(std::string_view text) {
  unsigned char all = 0;
  for (const char c : text) all |= static_cast<unsigned char>(c);
  return all < 0x80;
}

struct CodePoints {
  std::int32_t first, last;
};

/// Characters of Unicode 10 to 15 that a normalisation form moves or changes. The library `tokenizers` has
/// the tables of Unicode 9 (found by comparing all code points with its version 0.23), in which they are
/// plain characters, and so they are to models trained with it.
constexpr CodePoints kNewer[] = {
    {0x7fd, 0x7fd},     {0x898, 0x89f},     {0x8ca, 0x8d3},     {0x9fe, 0x9fe},     {0xc3c, 0xc3c},
    {0xd3b, 0xd3c},     {0xeba, 0xeba},     {0x1715, 0x1715},   {0x1abf, 0x1ace},   {0x1df6, 0x1dfa},
    {0x32ff, 0x32ff},   {0xa7f2, 0xa7f4},   {0xa82c, 0xa82c},   {0xab69, 0xab69},   {0x10781, 0x10785},
    {0x10787, 0x107b0}, {0x107b2, 0x107ba}, {0x10d24, 0x10d27}, {0x10eab, 0x10eac}, {0x10efd, 0x10eff},
    {0x10f46, 0x10f50}, {0x10f82, 0x10f85}, {0x11070, 0x11070}, {0x1133b, 0x1133b}, {0x1145e, 0x1145e},
    {0x11839, 0x1183a}, {0x11938, 0x11938}, {0x1193d, 0x1193e}, {0x11943, 0x11943}, {0x119e0, 0x119e0},
    {0x11a34, 0x11a34}, {0x11a47, 0x11a47}, {0x11a99, 0x11a99}, {0x11d42, 0x11d42}, {0x11d44, 0x11d45},
    {0x11d97, 0x11d97}, {0x11f41, 0x11f42}, {0x16ff0, 0x16ff1}, {0x1e030, 0x1e06d}, {0x1e08f, 0x1e08f},
    {0x1e130, 0x1e136}, {0x1e2ae, 0x1e2ae}, {0x1e2ec, 0x1e2ef}, {0x1e4ec, 0x1e4ef}, {0x1f16c, 0x1f16c},
    {0x1fbf0, 0x1fbf9}};

bool is_newer(std::int32_t code_point) {
  const auto* range = std::ranges::lower_bound(kNewer, code_point, {}, &CodePoints::last);
  return range != std::end(kNewer) && range->first <= code_point;
}

/// The bytes before the first newer character.
std::size_t older_part(std::string_view text) {
  std::size_t at = 0;
  while (at < text.size()) {
    utf8proc_int32_t code = 0;
    const utf8proc_ssize_t size =
        utf8proc_iterate(reinterpret_cast<const utf8proc_uint8_t*>(text.data()) + at,
                         static_cast<utf8proc_ssize_t>(text.size() - at), &code);
    if (size <= 0 || is_newer(code)) break;
    at += static_cast<std::size_t>(size);
  }
  return at;
}

class UnicodeNormalizer final : public Normalizer {
 public:
  explicit UnicodeNormalizer(UnicodeForm form) : options_(options_of(form)) {}

  std::string operator()(std::string_view text) const override {
    if (is_ascii(text)) return std::string(text);  // no form changes it
    std::string result;
    while (!text.empty()) {
      const std::size_t size = older_part(text);
      add_normalized(text.substr(0, size), result);
      text.remove_prefix(size);
      const std::size_t newer = text.empty() ? 0 : std::max<std::size_t>(utf8_length(text), 1);
      result += text.substr(0, newer);
      text.remove_prefix(newer);
    }
    return result;
  }

 private:
  void add_normalized(std::string_view text, std::string& result) const {
    if (text.empty()) return;
    utf8proc_uint8_t* changed = nullptr;
    const utf8proc_ssize_t size =
        utf8proc_map(reinterpret_cast<const utf8proc_uint8_t*>(text.data()),
                     static_cast<utf8proc_ssize_t>(text.size()), &changed, options_);
    const std::unique_ptr<utf8proc_uint8_t, decltype(&std::free)> owner(changed, &std::free);
    if (size < 0) {
      throw DataError(
          error_message("tokenizer", "text", "one that can be normalised", utf8proc_errmsg(size)));
    }
    result.append(reinterpret_cast<const char*>(changed), static_cast<std::size_t>(size));
  }

  utf8proc_option_t options_;
};

class PrependNormalizer final : public Normalizer {
 public:
  explicit PrependNormalizer(std::string prefix) : prefix_(std::move(prefix)) {}

  std::string operator()(std::string_view text) const override {
    std::string result;
    if (text.empty()) return result;
    result.reserve(prefix_.size() + text.size());
    result += prefix_;
    result += text;
    return result;
  }
  bool is_of_beginning() const override { return true; }

 private:
  std::string prefix_;
};

class ReplaceNormalizer final : public Normalizer {
 public:
  ReplaceNormalizer(Pattern pattern, std::string content)
      : pattern_(std::move(pattern)), content_(std::move(content)) {}

  std::string operator()(std::string_view text) const override {
    std::string result;
    Pattern::Matches matches(pattern_, text);
    std::size_t copied = 0;
    for (TextRange match; matches.next(match); copied = match.end) {
      result += text.substr(copied, match.begin - copied);
      result += content_;
    }
    result += text.substr(copied);
    return result;
  }

 private:
  Pattern pattern_;
  std::string content_;
};

}  // namespace

std::unique_ptr<const Normalizer> unicode_normalizer(UnicodeForm form) {
  return std::make_unique<UnicodeNormalizer>(form);
}
std::unique_ptr<const Normalizer> prepend_normalizer(std::string prefix) {
  return std::make_unique<PrependNormalizer>(std::move(prefix));
}
std::unique_ptr<const Normalizer> replace_normalizer(Pattern pattern, std::string content) {
  return std::make_unique<ReplaceNormalizer>(std::move(pattern), std::move(content));
}

std::string normalized(const Normalizers& steps, std::string_view text, TextPlace place) {
  std::string result(text);
  for (const auto& step : steps) {
    if (place == TextPlace::kBeginning || !step->is_of_beginning()) result = (*step)(result);
  }
  return result;
}

}  // namespace moh
