#pragma once

#include "train/tasks/language/data/tokenizer.h"

namespace moh {

/// One token per byte: vocabulary 256, no file needed, any UTF-8 text. Byte 0 occurs in no text, so its id
/// marks the end of a document and the vocabulary stays a power of two.
class ByteTokenizer final : public Tokenizer {
 public:
  static constexpr std::string_view kName = "byte";
  static constexpr TokenId kEndOfDocument = 0;

  std::string_view name() const override { return kName; }
  std::int64_t vocab_size() const override { return 256; }
  std::uint64_t content_hash() const override;
  std::optional<TokenId> end_of_document() const override { return kEndOfDocument; }
  /// Throws DataError for a text with a NUL byte.
  void encode(std::string_view text, std::vector<TokenId>& ids) const override;
  std::string_view token_bytes(TokenId id) const override;
};

}  // namespace moh
