#pragma once

#include <memory>
#include <string>

#include "train/data/token_file_header.h"
#include "train/data/token_source.h"
#include "train/io/input_file.h"

namespace moh {

/// A token file (format: token_file_header.h), open for reading.
///
/// Ranges are read with pread instead of through a mapping. A mapped file that another process truncates
/// kills the program with SIGBUS at the next access, and the damage may lie anywhere in between; a read comes
/// back short and becomes an error that names the file. The page cache serves both alike, and reading a
/// window of 1025 ids takes about a microsecond. Every id is checked against the vocabulary on its way in, so
/// that no damage reaches the embedding.
class TokenFile final : public TokenSource {
 public:
  /// Opens a file and checks its header and size; a payload of up to kVerifiedOnOpenBytes is verified as
  /// well. Throws DataError.
  static std::shared_ptr<const TokenFile> open(const std::string& path);
  static constexpr std::int64_t kVerifiedOnOpenBytes = std::int64_t{256} << 20;

  const TokenFileInfo& info() const { return info_; }

  std::int64_t size() const override { return info_.num_tokens; }
  void copy(std::int64_t begin, std::span<TokenId> ids) const override;

  /// Reads everything: throws DataError when the ids do not match their checksum or leave the vocabulary.
  void verify() const;
  /// Throws DataError naming both when `tokenizer` is not the one that the file was made with.
  void require_tokenizer(const Tokenizer& tokenizer) const;

 private:
  explicit TokenFile(const std::string& path);

  InputFile file_;
  TokenFileInfo info_;
};

/// Whether the file starts as a token file does. Throws DataError when it cannot be read.
bool is_token_file(const std::string& path);

/// "tokens 1115394 (2 bytes each)\n...", for people.
std::string describe(const TokenFileInfo& info);

}  // namespace moh
