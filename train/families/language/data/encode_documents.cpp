#include "train/families/language/data/encode_documents.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "core/error.h"
#include "core/parallel.h"
#include "train/families/language/data/document_reader.h"
#include "train/families/language/data/faulty_line.h"
#include "train/families/language/data/token_source.h"

namespace moh {

namespace {

/// Parts that are encoded before more is read.
std::size_t parts_of_batch() {
  return std::max<std::size_t>(16, 2 * static_cast<std::size_t>(num_threads()));
}

/// The line of a file at which a part's text cannot be encoded: of JSON Lines the part is one.
std::int64_t line_of_fault(const DocumentPart& part, std::span<const TextSegment> text,
                           const Tokenizer& tokenizer) {
  if (part.line > 0) return part.line;
  return part.first_line + (text.empty() ? 0 : faulty_line(text[0].text, tokenizer));
}

/// The ids of a text in segments, of which some are no targets; `begins`: a document.
void encode_text(std::span<const TextSegment> text, bool begins, const Tokenizer& tokenizer,
                 std::vector<TokenId>& ids) {
  ids.clear();
  if (begins) ids = tokenizer.sequence_start();
  if (!text.empty() && !text[0].is_target) std::ranges::transform(ids, ids.begin(), marked);
  for (const TextSegment& segment : text) {
    if (segment.text.empty()) continue;
    const auto before = std::ssize(ids);
    if (std::exchange(begins, false))
      tokenizer.encode(segment.text, ids);
    else
      tokenizer.encode_rest(segment.text, ids);
    if (!segment.is_target)
      std::ranges::transform(ids.begin() + before, ids.end(), ids.begin() + before, marked);
  }
}

/// Parts that are encoded in parallel.
class Batch {
 public:
  /// False if the file has ended and there are none.
  bool fill(DocumentReader& reader) {
    parts_.clear();
    std::size_t bytes = 0;
    for (DocumentPart part; bytes < parts_of_batch() * DocumentReader::kPartBytes && reader.next(part);) {
      bytes += part.text.size();
      parts_.push_back(std::move(part));
    }
    return !parts_.empty();
  }

  const DocumentPart& first() const { return parts_.front(); }

  /// Encodes the parts with all threads and passes them on in order. Errors name the file and the line.
  void encode(const std::string& path, const RecordReader& records, RecordKind kind,
              const Tokenizer& tokenizer, FunctionRef<void(const EncodedPart&)> sink) {
    if (ids_.size() < parts_.size()) ids_.resize(parts_.size());
    parallel_for(static_cast<std::int64_t>(parts_.size()), 1, [&](std::int64_t begin, std::int64_t end) {
      for (auto i = static_cast<std::size_t>(begin); i < static_cast<std::size_t>(end); ++i) {
        const std::vector<TextSegment> text = records.segments(path, parts_[i], kind);
        try {
          encode_text(text, parts_[i].begins, tokenizer, ids_[i]);
        } catch (const DataError& error) {
          throw DataError(path + ":" + std::to_string(line_of_fault(parts_[i], text, tokenizer)) + ": " +
                          error.what());
        }
      }
    });
    for (std::size_t i = 0; i < parts_.size(); ++i) sink({parts_[i].begins, ids_[i]});
  }

 private:
  std::vector<DocumentPart> parts_;
  std::vector<std::vector<TokenId>> ids_;  // of the parts, and of earlier ones
};

/// Advice for a file without text. The names are those of NumPy, llm.c, nanoGPT and Megatron-LM.
std::string_view fix_of(const std::string& path) {
  const std::string_view names_of_ids[] = {".npy", ".bin", ".idx"};
  if (std::ranges::any_of(names_of_ids, [&](std::string_view ending) { return path.ends_with(ending); }))
    return "if it has token ids of another program, make a token file of it with scripts/import_tokens.py "
           "(docs/token_files.md)";
  if (path.ends_with(".parquet")) return "make token files of it with scripts/from_parquet.py (docs/data.md)";
  return unreadable_format(path).empty() ? "" : kRecordsFix;
}

/// Calls use() for a reader of the file; false if it has no text.
bool with_reader(const InputPath& input, const Tokenizer& tokenizer, SkippedFiles& skipped,
                 FunctionRef<void(DocumentReader&)> use) {
  const std::string_view format = unreadable_format(input.path);
  if (!format.empty()) {
    pass_over(input, skipped, format, std::string(format) + " by its name", fix_of(input.path));
    return false;
  }
  try {
    DocumentReader reader(input, tokenizer);
    use(reader);
    return true;
  } catch (const DocumentReader::Unreadable& why) {
    pass_over(input, skipped, why.reason, why.found, fix_of(input.path));
    return false;
  }
}

/// Other records than documents, such as the metrics.jsonl of a run, are passed over where they lie in a
/// folder with text: JSON Lines whose first line has no text.
RecordKind require_kind(const InputPath& input, const RecordReader& records, const RecordOptions& options,
                        const DocumentPart& first) {
  const std::optional<RecordKind> kind = records.kind_of(input, first);
  if (kind) return *kind;
  const bool is_chat = options.message.empty() && first.text.find("\"messages\"") != std::string::npos;
  throw DocumentReader::Unreadable{
      is_chat ? "JSON Lines of chats, without a message_template" : "JSON Lines without text", ""};
}

}  // namespace

bool encode_documents(const InputPath& input, const Tokenizer& tokenizer, const RecordOptions& options,
                      SkippedFiles& skipped, FunctionRef<void(const EncodedPart&)> sink,
                      FunctionRef<void(std::uint64_t bytes)> progress) {
  const RecordReader records(options);
  return with_reader(input, tokenizer, skipped, [&](DocumentReader& reader) {
    std::uint64_t done = 0;
    std::optional<RecordKind> kind;
    for (Batch batch; batch.fill(reader); done = reader.position()) {
      if (!kind) kind = require_kind(input, records, options, batch.first());
      batch.encode(input.path, records, *kind, tokenizer, sink);
      progress(reader.position() - done);
    }
  });
}

std::optional<RecordKind> kind_of_text(const InputPath& input, const Tokenizer& tokenizer,
                                       const RecordOptions& options, SkippedFiles& skipped) {
  const RecordReader records(options);
  std::optional<RecordKind> kind;
  const bool has_text = with_reader(input, tokenizer, skipped, [&](DocumentReader& reader) {
    for (DocumentPart part; reader.next(part);) {
      if (!kind) kind = require_kind(input, records, options, part);
    }
  });
  return has_text ? kind : std::nullopt;
}

bool has_prompts(const InputPath& input, const Tokenizer& tokenizer, const RecordOptions& options) {
  if (!is_json_lines(input.path)) return false;
  const RecordReader records(options);
  SkippedFiles skipped;
  bool found = false;
  with_reader(input, tokenizer, skipped, [&](DocumentReader& reader) {
    DocumentPart first;
    if (reader.next(first)) found = require_kind(input, records, options, first) != RecordKind::kText;
  });
  return found;
}

}  // namespace moh
