#pragma once

#include <cstddef>
#include <filesystem>
#include <span>
#include <vector>

#include "train/io/checksum.h"
#include "train/io/durable_file.h"
#include "train/tasks/language/data/token_file.h"
#include "train/tasks/language/data/token_source.h"

namespace moh {

/// Writes a token file document by document; memory does not grow with the file. The file appears under its
/// name, complete and on the disk, when finish() returns; before that, or when anything fails, what had the
/// name stays. Throws StorageError.
class TokenFileWriter {
 public:
  /// `tokenizer` must live as long as the writer.
  TokenFileWriter(std::filesystem::path path, const Tokenizer& tokenizer);

  /// Begins a document after those before, which add() fills.
  void begin_document() { begin_documents(1); }
  /// Throws ValueError for an id outside the vocabulary.
  void add(std::span<const TokenId> ids);
  /// Adds ids that stand for `num_documents` documents, the end-of-document ids between these among them.
  void add_documents(const TokenSource& tokens, std::int64_t num_documents);
  /// Publishes the file and returns what it says of itself. Throws DataError when no token was added.
  TokenFileInfo finish();

 private:
  void begin_documents(std::int64_t count);
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
