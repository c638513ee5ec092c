#include "train/tokenizers/vocabulary_file.h"

#include <array>
#include <cstdint>

#include "train/base/io/printable.h"

namespace moh {

namespace {

constexpr std::string_view kDigits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

}  // namespace

std::string to_base64(std::string_view bytes) {
  std::string text;
  for (std::size_t at = 0; at < bytes.size(); at += 3) {
    const std::string_view part = bytes.substr(at, 3);
    std::uint32_t bits = 0;
    for (std::size_t i = 0; i < 3; ++i)
      bits = bits << 8 | (i < part.size() ? static_cast<unsigned char>(part[i]) : 0U);
    for (std::size_t i = 0; i < 4; ++i) text += i <= part.size() ? kDigits[bits >> (18 - 6 * i) & 63U] : '=';
  }
  return text;
}

std::optional<std::string> from_base64(std::string_view text) {
  if (text.empty() || text.size() % 4 != 0) return std::nullopt;
  const std::size_t padding = text.ends_with("==") ? 2 : text.ends_with('=') ? 1 : 0;
  std::string bytes;
  std::uint32_t bits = 0;
  for (std::size_t i = 0; i + padding < text.size(); ++i) {
    const std::size_t digit = kDigits.find(text[i]);
    if (digit == std::string_view::npos) return std::nullopt;
    bits = bits << 6 | static_cast<std::uint32_t>(digit);
    if (i % 4 > 0) bytes += static_cast<char>(bits >> (6 - 2 * (i % 4)));
  }
  return bytes;
}

namespace {

constexpr bool stands_for_itself(int byte) {
  return (byte >= 0x21 && byte <= 0x7e) || (byte >= 0xa1 && byte != 0xad);
}

constexpr std::uint16_t kNone = 0xffff;

/// Code points by byte, and bytes by code point.
struct Alphabet {
  std::array<std::uint16_t, 256> characters{};
  std::array<std::uint16_t, 512> bytes{};
};

constexpr Alphabet make_alphabet() {
  Alphabet alphabet;
  for (std::uint16_t& byte : alphabet.bytes) byte = kNone;
  int others = 0;
  for (int byte = 0; byte < 256; ++byte) {
    const int character = stands_for_itself(byte) ? byte : 256 + others++;
    alphabet.characters[static_cast<std::size_t>(byte)] = static_cast<std::uint16_t>(character);
    alphabet.bytes[static_cast<std::size_t>(character)] = static_cast<std::uint16_t>(byte);
  }
  return alphabet;
}

constexpr Alphabet kAlphabet = make_alphabet();

}  // namespace

std::string to_byte_level(std::string_view bytes) {
  std::string characters;
  for (const char byte : bytes) {
    const unsigned character = kAlphabet.characters[static_cast<unsigned char>(byte)];
    if (character < 0x80) {
      characters += static_cast<char>(character);
    } else {
      characters += static_cast<char>(0xc0 | (character >> 6));
      characters += static_cast<char>(0x80 | (character & 0x3f));
    }
  }
  return characters;
}

std::optional<std::string> from_byte_level(std::string_view characters) {
  std::string bytes;
  while (!characters.empty()) {
    const std::size_t length = utf8_length(characters);
    const auto byte_at = [&](std::size_t i) { return static_cast<unsigned char>(characters[i]); };
    std::size_t character = 0;
    if (length == 1) character = byte_at(0);
    if (length == 2) character = (byte_at(0) & 0x1fU) << 6 | (byte_at(1) & 0x3fU);
    if (length == 0 || length > 2 || character >= kAlphabet.bytes.size()) return std::nullopt;
    if (kAlphabet.bytes[character] == kNone) return std::nullopt;
    bytes += static_cast<char>(kAlphabet.bytes[character]);
    characters.remove_prefix(length);
  }
  return bytes;
}

}  // namespace moh
