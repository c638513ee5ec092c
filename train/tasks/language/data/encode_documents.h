#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "core/function_ref.h"
#include "train/tasks/data/input_files.h"
#include "train/tokenizers/tokenizer.h"

namespace moh {

/// The ids of a part of a document.
struct EncodedPart {
  bool begins = false;  ///< a document
  std::span<const TokenId> ids;
};

/// Encodes the documents of a file (DocumentReader) with all threads, and passes on their parts in order; the
/// ids do not depend on the number of threads. `text_key` is that of JSON Lines. `progress` hears of the
/// bytes of the file as they are done. A file without text (also JSON Lines whose first line has none) is
/// added to `skipped`, and the result is false, unless the user named it; `sink` may have got parts by then.
/// Memory: some 2 MiB of text and its ids, and 256 KiB per thread above 8, whatever the file's size. Throws
/// DataError.
bool encode_documents(const InputPath& input, const Tokenizer& tokenizer, const std::string& text_key,
                      SkippedFiles& skipped, FunctionRef<void(const EncodedPart&)> sink,
                      FunctionRef<void(std::uint64_t bytes)> progress);

/// Whether a file has text, which is found by reading all of it; otherwise as encode_documents().
bool has_text(const InputPath& input, const Tokenizer& tokenizer, const std::string& text_key,
              SkippedFiles& skipped);

}  // namespace moh
