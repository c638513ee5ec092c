#include "train/tasks/language/data/byte_tokenizer.h"

#include <xxhash.h>

#include <array>

#include "core/error.h"

namespace moh {

namespace {

constexpr std::array<char, 256> all_bytes() {
  std::array<char, 256> bytes{};
  for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<char>(i);
  return bytes;
}

constexpr std::array<char, 256> kBytes = all_bytes();

}  // namespace

std::uint64_t ByteTokenizer::content_hash() const {
  constexpr std::string_view kRules = "byte: id = byte, vocabulary 256, end of document 0";
  return XXH3_64bits(kRules.data(), kRules.size());
}

void ByteTokenizer::encode(std::string_view text, std::vector<TokenId>& ids) const {
  if (const std::size_t nul = text.find('\0'); nul != std::string_view::npos) {
    throw DataError(error_message("byte tokenizer", "text",
                                  "no NUL byte (its id marks the end of a document)",
                                  "one at byte " + std::to_string(nul)));
  }
  ids.reserve(ids.size() + text.size());
  for (char c : text) ids.push_back(static_cast<unsigned char>(c));
}

std::string_view ByteTokenizer::token_bytes(TokenId id) const {
  if (id < 0 || id >= vocab_size()) {
    throw ValueError(error_message("byte tokenizer", "token id", "0 ... 255", std::to_string(id)));
  }
  if (id == kEndOfDocument) return {};
  return {&kBytes[static_cast<std::size_t>(id)], 1};
}

}  // namespace moh
