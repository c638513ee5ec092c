#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "train/base/formats/byte_stream.h"
#include "train/tokenizers/tokenizer.h"
#include "train/trainer/task/data/input_files.h"

namespace moh {

/// A part of a document, as it lies in a file.
struct DocumentPart {
  std::string text;
  bool begins = true;           ///< a document
  std::int64_t line = 0;        ///< of JSON Lines: `text` is that line; 0: `text` is text
  std::int64_t first_line = 1;  ///< of the file, that `text` begins in
};

/// Reads the documents of a file: plain text is one, JSON Lines (.jsonl, .ndjson) have one per line. Either
/// may be compressed (.gz, .zst). Long texts come in parts that can be encoded one by one (find_cut). Memory:
/// one part.
class DocumentReader {
 public:
  /// Bytes of a part, where the text can be cut there.
  static constexpr std::size_t kPartBytes = std::size_t{128} << 10;
  /// The largest line of JSON Lines.
  static constexpr std::size_t kMaxLineBytes = std::size_t{256} << 20;

  /// Throws DataError if the file cannot be read. `tokenizer` must outlive this object.
  DocumentReader(const InputPath& input, const Tokenizer& tokenizer);

  /// The next part; false at the end. Throws DataError, and for what is no text Unreadable.
  bool next(DocumentPart& part);
  /// Bytes of the file that have been read.
  std::uint64_t position() const { return stream_->position(); }

  /// Why a file has no text.
  struct Unreadable {
    std::string_view reason;
    std::string found;
  };

 private:
  /// Reads until `wanted` bytes are there or the file ends.
  void fill(std::size_t wanted);
  bool next_text(DocumentPart& part);
  /// Where the buffer is cut; errors name the file and the line.
  std::size_t cut_of_buffer() const;
  bool next_line(DocumentPart& part);

  InputPath input_;
  const Tokenizer& tokenizer_;
  std::unique_ptr<ByteStream> stream_;
  bool is_lines_;
  std::string buffer_;
  std::size_t begin_ = 0;  // of what has not been passed on
  bool ended_ = false, begun_ = false;
  std::int64_t line_ = 0;  // of JSON Lines the last one; of text those that ended
};

/// Whether a file is JSON Lines by its name, compressed or not.
bool is_json_lines(const std::string& path);

/// Why a file is not text by its name; "" if it may be.
std::string_view unreadable_format(const std::string& path);

}  // namespace moh
