#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "core/function_ref.h"
#include "train/families/language/data/record_text.h"
#include "train/tokenizers/tokenizer.h"
#include "train/trainer/task/data/input_files.h"

namespace moh {

/// The ids of a part of a document, marked where they are no targets (token_source.h). A document begins with
/// those of Tokenizer::sequence_start().
struct EncodedPart {
  bool begins = false;  ///< a document
  std::span<const TokenId> ids;
};

/// Encodes the documents of a file (DocumentReader) with all threads, and passes on their parts in order; the
/// ids do not depend on the number of threads. Segments are encoded one by one, as when a prompt is given to
/// a model and its response generated. `progress` hears of the bytes of the file as they are done. A file
/// without text (also JSON Lines whose first line has none) is added to `skipped`, and the result is false,
/// unless the user named it; `sink` may have got parts by then. Memory: some 2 MiB of text and its ids, and
/// 256 KiB per thread above 8, whatever the file's size. Throws DataError.
bool encode_documents(const InputPath& input, const Tokenizer& tokenizer, const RecordOptions& records,
                      SkippedFiles& skipped, FunctionRef<void(const EncodedPart&)> sink,
                      FunctionRef<void(std::uint64_t bytes)> progress);

/// The kind of a file's records; text for other files than JSON Lines. Nothing if it has no text, which is
/// found by reading all of it; otherwise as encode_documents().
std::optional<RecordKind> kind_of_text(const InputPath& input, const Tokenizer& tokenizer,
                                       const RecordOptions& records, SkippedFiles& skipped);
/// Whether some tokens of a file are no targets, by its first record.
bool has_prompts(const InputPath& input, const Tokenizer& tokenizer, const RecordOptions& records);

}  // namespace moh
