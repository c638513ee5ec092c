#pragma once

#include <cstddef>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "train/base/io/checksum.h"
#include "train/base/io/durable_file.h"
#include "train/families/language/data/token_file.h"
#include "train/families/language/data/token_source.h"

namespace moh {

/// Writes a token file document by document, in constant memory. finish() publishes the file atomically and
/// durably; before that, and after a failure, an existing file of that name is unchanged. Throws
/// StorageError.
class TokenFileWriter {
 public:
  /// `tokenizer` must outlive the writer. `source`: TokenFileInfo::source. `marks`: ids may be marked as no
  /// targets (token_source.h).
  TokenFileWriter(std::filesystem::path path, const Tokenizer& tokenizer, std::string source = {},
                  bool marks = false);

  /// Starts the next document, to which add() appends.
  void begin_document();
  /// Throws ValueError for an id outside the vocabulary.
  void add(std::span<const TokenId> ids);
  /// Publishes the file and returns its properties. Throws DataError if no token was added.
  TokenFileInfo finish();

 private:
  void add(TokenId id);
  void flush();

  const Tokenizer& tokenizer_;
  std::filesystem::path path_;
  DurableFile file_;
  TokenFileInfo info_;
  std::size_t bytes_per_id_;
  std::vector<std::byte> buffer_;
  Checksum checksum_;
};

}  // namespace moh
