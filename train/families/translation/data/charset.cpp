#include "train/families/translation/data/charset.h"

#include <iconv.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cstdint>

#include "train/base/io/printable.h"

namespace moh {

namespace {

// Stateless character sets alone: the name comes from an untrusted file, and the C library has many more.
constexpr std::string_view kBeginnings[] = {"ISO-8859-", "ISO_8859-", "ISO8859-", "KOI8-", "CP",
                                            "WINDOWS-",  "EUC-",      "GB",       "BIG5"};
constexpr std::string_view kNames[] = {"US-ASCII", "ASCII", "SHIFT_JIS", "TIS-620"};

std::string upper_case(std::string_view text) {
  std::string upper(text);
  std::ranges::transform(upper, upper.begin(),
                         [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
  return upper;
}

bool is_allowed(const std::string& name) {
  constexpr std::size_t kLongest = 20;
  const auto is_name_character = [](unsigned char c) { return std::isalnum(c) != 0 || c == '-' || c == '_'; };
  const auto begins = [&](std::string_view beginning) { return name.starts_with(beginning); };
  return name.size() <= kLongest && std::ranges::all_of(name, is_name_character) &&
         (std::ranges::any_of(kBeginnings, begins) || std::ranges::find(kNames, name) != std::end(kNames));
}

}  // namespace

CharsetDecoder::CharsetDecoder(std::string_view charset) {
  const std::string name = upper_case(charset);
  is_utf8_ = name == "UTF-8" || name == "UTF8";
  if (is_utf8_ || !is_allowed(name)) return;
  iconv_t state = iconv_open("UTF-8", name.c_str());
  const auto failed = reinterpret_cast<iconv_t>(std::intptr_t{-1});  // NOLINT: iconv's mark of a failure
  if (state != failed) state_ = state;
}

CharsetDecoder::~CharsetDecoder() {
  if (state_ != nullptr) iconv_close(state_);
}

std::optional<std::string> CharsetDecoder::decode(std::string_view text) const {
  if (is_utf8_) return is_utf8(text) ? std::optional(std::string(text)) : std::nullopt;
  // No character of these sets takes more than four bytes in UTF-8, nor fewer than one here.
  std::string decoded(text.size() * 4, '\0');
  char *from = const_cast<char*>(text.data()), *to = decoded.data();  // NOLINT: iconv does not write to it
  std::size_t from_left = text.size(), to_left = decoded.size();
  iconv(state_, nullptr, nullptr, nullptr, nullptr);
  if (iconv(state_, &from, &from_left, &to, &to_left) != 0 || from_left != 0) return std::nullopt;
  decoded.resize(decoded.size() - to_left);
  return decoded;
}

}  // namespace moh
