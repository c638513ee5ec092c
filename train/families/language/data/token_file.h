#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "train/base/formats/safetensors.h"
#include "train/base/io/checksum.h"
#include "train/families/language/data/token_source.h"

namespace moh {

/// The properties of a token file, from its metadata and the header of its tensor (format:
/// docs/token_files.md).
struct TokenFileInfo {
  std::string tokenizer_name;
  std::int64_t vocab_size = 0;
  std::string tokenizer_hash;  ///< "" for none, as for the checksum
  std::optional<std::int64_t> num_documents, text_bytes;
  std::string checksum;
  std::string source = {};  ///< size and time of the file that it was made of; "" for none
  /// How many tokens are marked as no targets (token_source.h); nothing for a file without marks.
  std::optional<std::int64_t> prompt_tokens = {};
  std::string_view stored_dtype;  ///< of the elements, as named in safetensors
  std::int64_t num_tokens = 0;
};

/// The metadata of a file with these properties.
WeightFile::Metadata metadata_of(const TokenFileInfo& info);
/// The checksum of a file; `elements` must have been updated with all its elements.
std::string token_file_checksum(Checksum& elements, const TokenFileInfo& info);

/// A description in lines: "tokens      1115394 (1 byte each)\n...".
std::string describe(const TokenFileInfo& info);

/// The kind of a file, by its first bytes and, for safetensors, by its metadata.
enum class TokenFileKind {
  kTokens,        ///< a token file
  kOtherTensors,  ///< another safetensors file
  kNone,          ///< something else
};

/// Throws DataError if the file cannot be read, or is a damaged safetensors file.
TokenFileKind token_file_kind(const std::string& path);

/// The ids of a token file, open for reading. They are read with pread() on demand: about a microsecond for a
/// window of 1025 ids. Every id that is read is checked against the vocabulary, so that damage cannot cause
/// out-of-bounds access in the embedding. Throws DataError naming the file.
class TokenFile final : public TokenSource {
 public:
  /// Opens a file and checks its header and size; elements of up to kVerifiedOnOpenBytes are verified as
  /// well.
  static std::shared_ptr<const TokenFile> open(const std::string& path);
  static constexpr std::uint64_t kVerifiedOnOpenBytes = std::uint64_t{256} << 20;

  const TokenFileInfo& info() const { return info_; }

  std::int64_t size() const override { return info_.num_tokens; }
  void copy_marked(std::int64_t begin, std::span<TokenId> ids) const override;

  /// Reads everything and verifies the checksum, if the file has one.
  void verify() const;
  /// Throws, naming both, if the file was made with another tokenizer than `tokenizer`.
  void require_tokenizer(const Tokenizer& tokenizer) const;

 private:
  explicit TokenFile(const std::string& path);

  SafetensorsFile file_;
  TokenFileInfo info_;
};

}  // namespace moh
