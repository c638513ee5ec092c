#include "train/tokenizers/tokenizer.h"

#include <xxhash.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <iterator>

#include "core/error.h"
#include "train/base/io/printable.h"
#include "train/tokenizers/added_tokens.h"

namespace moh {

namespace {

constexpr std::array<char, 256> all_bytes() {
  std::array<char, 256> bytes{};
  for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<char>(i);
  return bytes;
}

constexpr std::array<char, 256> kBytes = all_bytes();

constexpr std::string_view kReplacement = "\xEF\xBF\xBD";  // U+FFFD

bool is_safe(std::string_view character) {
  return character == "\n" || character == "\t" || !is_control_character(character);
}

}  // namespace

const std::vector<TokenId>& Tokenizer::sequence_start() const {
  static const std::vector<TokenId> none;
  return none;
}

std::optional<TokenId> Tokenizer::beginning() const {
  return sequence_start().empty() ? std::nullopt : std::optional(sequence_start().front());
}

const std::vector<TokenizerFile>& Tokenizer::files() const {
  static const std::vector<TokenizerFile> none;
  return none;
}

void Tokenizer::encode_trusted(std::string_view text, bool begins, Trusts trusts,
                               std::vector<TokenId>& ids) const {
  std::vector<AddedToken> special;
  for (TokenId id = 0; id < vocab_size(); ++id) {
    if (!special_text(id).empty()) special.push_back({.id = id, .content = std::string(special_text(id))});
  }
  AddedTokens(special).split(
      text,
      [&](const TextOrToken& part) {
        if (part.token)
          ids.push_back(*part.token);
        else if (begins || part.text.data() != text.data())
          encode(part.text, ids);
        else
          encode_rest(part.text, ids);
      },
      [&](const AddedToken&, std::size_t begin, std::size_t end) { return trusts(begin, end); });
}

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
  ids.resize(ids.size() + text.size());
  std::ranges::transform(text, ids.end() - std::ssize(text),
                         [](char c) { return static_cast<unsigned char>(c); });
}

std::string_view ByteTokenizer::token_bytes(TokenId id) const {
  if (id < 0 || id >= vocab_size()) {
    throw ValueError(error_message("byte tokenizer", "token id", "0 ... 255", std::to_string(id)));
  }
  if (id == kEndOfDocument) return {};
  return {&kBytes[static_cast<std::size_t>(id)], 1};
}

std::string_view ByteTokenizer::special_text(TokenId id) const {
  return id == kEndOfDocument ? std::string_view(kBytes.data(), 1) : std::string_view();
}

std::string hash_text(std::uint64_t content_hash) {
  char text[17];
  std::snprintf(text, sizeof text, "%016llx", static_cast<unsigned long long>(content_hash));
  return text;
}

std::string describe(const Tokenizer& tokenizer) {
  return std::string(tokenizer.name()) + ", " + std::to_string(tokenizer.vocab_size()) + " tokens, hash " +
         hash_text(tokenizer.content_hash());
}

std::string with_valid_utf8(std::string_view text) {
  std::string result;
  while (!text.empty()) {
    const Utf8Front front = utf8_front(text);
    const std::size_t size = front.bytes == 0 ? 1 : front.bytes;
    result += front.complete ? text.substr(0, size) : kReplacement;
    text.remove_prefix(size);
  }
  return result;
}

std::string Utf8Stream::push(std::string_view bytes) {
  pending_ += bytes;
  std::string text;
  std::string_view rest = pending_;
  while (!rest.empty()) {
    const Utf8Front front = utf8_front(rest);
    if (!front.complete && front.bytes == rest.size()) break;  // the next piece may complete it
    const std::string_view character = rest.substr(0, front.bytes == 0 ? 1 : front.bytes);
    const bool passes = front.complete && (control_ == ControlCharacters::kKeep || is_safe(character));
    text += passes ? character : kReplacement;
    rest.remove_prefix(character.size());
  }
  pending_ = std::string(rest);
  return text;
}

std::string Utf8Stream::finish() {
  std::string text(pending_.empty() ? std::string_view() : kReplacement);
  pending_.clear();
  return text;
}

}  // namespace moh
