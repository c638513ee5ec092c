#include "train/tasks/language/data/tokenizer.h"

#include <cstdio>

#include "core/error.h"
#include "train/tasks/language/data/byte_tokenizer.h"

namespace moh {

std::string decode(const Tokenizer& tokenizer, std::span<const TokenId> ids) {
  std::string text;
  for (TokenId id : ids) text += tokenizer.token_bytes(id);
  return text;
}

std::string hash_text(std::uint64_t content_hash) {
  char text[17];
  std::snprintf(text, sizeof text, "%016llx", static_cast<unsigned long long>(content_hash));
  return text;
}

std::unique_ptr<const Tokenizer> make_tokenizer(std::string_view name) {
  if (name == ByteTokenizer::kName) return std::make_unique<ByteTokenizer>();
  throw ConfigError(error_message("tokenizer", "name", "byte", "'" + std::string(name) + "'"));
}

}  // namespace moh
