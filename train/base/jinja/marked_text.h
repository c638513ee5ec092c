#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace moh {

/// The writer of a byte of a rendered text.
enum class TextAuthor : char {
  kTemplate,  ///< a literal of the template, or a variable that counts as one
  kInput      ///< a value that the template was given
};

/// UTF-8 of which each byte has an author, through all that a template does with it.
class MarkedText {
 public:
  MarkedText() = default;
  MarkedText(std::string_view bytes, TextAuthor author) { append(bytes, author); }

  const std::string& bytes() const { return bytes_; }
  std::size_t size() const { return bytes_.size(); }
  bool empty() const { return bytes_.empty(); }
  TextAuthor author(std::size_t at) const { return static_cast<TextAuthor>(authors_[at]); }
  /// Whether the template wrote all bytes of [begin, end).
  bool is_of_template(std::size_t begin, std::size_t end) const;

  void append(std::string_view bytes, TextAuthor author);
  void append(const MarkedText& other) { append(other, 0, other.size()); }
  /// Appends [begin, end) of another text.
  void append(const MarkedText& other, std::size_t begin, std::size_t end);
  /// The bytes [begin, end).
  MarkedText part(std::size_t begin, std::size_t end) const;

 private:
  std::string bytes_, authors_;
};

/// The places where the characters of valid UTF-8 begin, and the text's size.
std::vector<std::size_t> character_places(std::string_view text);

}  // namespace moh
