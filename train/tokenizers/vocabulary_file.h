#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace moh {

/// Files of vocabularies write the bytes of tokens as text: in base64, or in the alphabet of byte-level
/// tokenizers (Radford et al. 2019, GPT-2), which has a printable character for each of the 256 bytes.
/// Printable characters of Latin-1 stand for themselves, the others, in order, are U+0100, U+0101, ...

/// Base64 with padding (RFC 4648, section 4).
std::string to_base64(std::string_view bytes);

/// The bytes of a text in base64; nothing for another text, and for an empty one.
std::optional<std::string> from_base64(std::string_view text);

/// The byte-level characters of bytes, in UTF-8.
std::string to_byte_level(std::string_view bytes);

/// The bytes of byte-level characters; nothing if one of them stands for no byte.
std::optional<std::string> from_byte_level(std::string_view characters);

/// The largest id in a file with so many tokens. Ids are places in arrays, which a small file must not make
/// large; the gaps of vocabularies in use are small.
constexpr std::int64_t most_id(std::size_t tokens) {
  return 4 * static_cast<std::int64_t>(tokens) + (std::int64_t{1} << 16);
}

}  // namespace moh
