#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "core/function_ref.h"
#include "train/tasks/data/input_files.h"
#include "train/tokenizers/tokenizer.h"

namespace moh {

/// What is done with the texts of documents (for_each_text).
class TextWork {
 public:
  virtual ~TextWork() = default;

  /// So many texts follow, with numbers from 0 on.
  virtual void begin(std::size_t texts) = 0;
  /// Works on a text; `begins`: a document. Called by all threads, once for each number.
  virtual void run(std::size_t number, std::string_view text, bool begins) = 0;
  /// Passes on the result, in the order of the texts.
  virtual void finish(std::size_t number, bool begins) = 0;
};

/// Passes the texts of a file's documents (DocumentReader) to `work`, on all threads. Where a long text is
/// cut, `tokenizer` decides (find_cut). Otherwise as encode_documents().
bool for_each_text(const InputPath& input, const Tokenizer& tokenizer, const std::string& text_key,
                   SkippedFiles& skipped, TextWork& work, FunctionRef<void(std::uint64_t bytes)> progress);

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
