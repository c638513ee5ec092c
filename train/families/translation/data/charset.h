#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace moh {

/// Converts text of a character set to UTF-8, by the C library's iconv.
class CharsetDecoder {
 public:
  /// `charset`: a name that a message catalog of GNU gettext may have, in upper or lower case: UTF-8,
  /// US-ASCII, ISO-8859-*, KOI8-*, CP*, WINDOWS-*, EUC-*, GB*, BIG5*, SHIFT_JIS, TIS-620. is_known() is false
  /// for others, and for those that the system lacks.
  explicit CharsetDecoder(std::string_view charset);
  ~CharsetDecoder();
  CharsetDecoder(const CharsetDecoder&) = delete;
  CharsetDecoder& operator=(const CharsetDecoder&) = delete;

  bool is_known() const { return is_utf8_ || state_ != nullptr; }
  /// The text in UTF-8; nothing if it is not text of the character set.
  std::optional<std::string> decode(std::string_view text) const;

 private:
  bool is_utf8_ = false;
  void* state_ = nullptr;  // iconv_t
};

}  // namespace moh
