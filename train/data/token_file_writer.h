#pragma once

#include <filesystem>
#include <memory>
#include <span>

#include "train/data/token_file_header.h"
#include "train/data/tokenizer.h"

namespace moh {

/// Writes a token file document by document; memory does not grow with the file. The file appears under its
/// name, complete and on the disk, when finish() returns; before that, or when anything fails, what had the
/// name stays. (Not a DurableFile: the counts and the checksum in the header are known last.) Throws
/// StorageError.
class TokenFileWriter {
 public:
  TokenFileWriter(std::filesystem::path path, const Tokenizer& tokenizer);
  /// Removes the unfinished file.
  ~TokenFileWriter();
  TokenFileWriter(const TokenFileWriter&) = delete;
  TokenFileWriter& operator=(const TokenFileWriter&) = delete;

  /// Adds a document after those before. Throws ValueError for an id outside the vocabulary.
  void add_document(std::span<const TokenId> ids);
  /// Publishes the file and returns what its header says. Throws DataError when no document was added.
  TokenFileInfo finish();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace moh
