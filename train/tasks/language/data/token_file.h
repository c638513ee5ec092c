#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>

#include "core/function_ref.h"
#include "train/tasks/language/data/token_file_info.h"
#include "train/tasks/language/data/token_source.h"

namespace moh {

/// The ids of a token file (token_file_info.h), open for reading. They are read with pread, as they are
/// needed: about a microsecond for a window of 1025 ids. Every id is checked against the vocabulary on its
/// way in, so that no damage reaches the embedding. Throws DataError naming the file.
class TokenFile final : public TokenSource {
 public:
  /// Fills a span with bytes of the elements, from byte `offset` of them on.
  using ReadElements = std::function<void(std::uint64_t offset, std::span<std::byte> to)>;

  /// Opens a file and checks its header and size; elements of up to kVerifiedOnOpenBytes are verified as
  /// well.
  static std::shared_ptr<const TokenFile> open(const std::string& path);
  static constexpr std::uint64_t kVerifiedOnOpenBytes = std::uint64_t{256} << 20;

  /// A file whose elements `read` reads; `path` is for messages.
  TokenFile(std::string path, TokenFileInfo info, ReadElements read);

  const TokenFileInfo& info() const { return info_; }

  std::int64_t size() const override { return info_.num_tokens; }
  void copy(std::int64_t begin, std::span<TokenId> ids) const override;

  /// Hands all elements to `sink` as they are stored, in blocks whose ids have been checked.
  void stream(FunctionRef<void(std::span<const std::byte>)> sink) const;
  /// Reads everything and compares it with the checksum, when the file has one.
  void verify() const;
  /// Throws, naming both, when `tokenizer` is not the one that the file was made with.
  void require_tokenizer(const Tokenizer& tokenizer) const;

 private:
  std::string path_;
  TokenFileInfo info_;
  ReadElements read_;
};

}  // namespace moh
