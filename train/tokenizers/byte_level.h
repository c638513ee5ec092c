#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace moh {

/// The alphabet of byte-level tokenizers (Radford et al. 2019, GPT-2): a printable character for each of the
/// 256 bytes, in which their vocabularies are written. Printable characters of Latin-1 stand for themselves,
/// the others, in order, are U+0100, U+0101, ...

/// The characters of bytes, in UTF-8.
std::string to_byte_level(std::string_view bytes);

/// The bytes of characters; nothing if one of them stands for no byte.
std::optional<std::string> from_byte_level(std::string_view characters);

}  // namespace moh
