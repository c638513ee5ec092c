#include "train/tasks/language/data/encode_documents.h"

#include <algorithm>
#include <vector>

#include "core/error.h"
#include "core/parallel.h"
#include "train/tasks/language/data/document_reader.h"

namespace moh {

namespace {

/// Parts that are encoded before more is read.
std::size_t parts_of_batch() {
  return std::max<std::size_t>(16, 2 * static_cast<std::size_t>(num_threads()));
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

  void work_on(const std::string& path, const std::string& text_key, TextWork& work) const {
    work.begin(parts_.size());
    parallel_for(static_cast<std::int64_t>(parts_.size()), 1, [&](std::int64_t begin, std::int64_t end) {
      for (auto i = static_cast<std::size_t>(begin); i < static_cast<std::size_t>(end); ++i) {
        const DocumentPart& part = parts_[i];
        if (part.line > 0)
          work.run(i, text_of_line(path, part, text_key), part.begins);
        else
          work.run(i, part.text, part.begins);
      }
    });
    for (std::size_t i = 0; i < parts_.size(); ++i) work.finish(i, parts_[i].begins);
  }

 private:
  std::vector<DocumentPart> parts_;
};

/// Encodes texts.
class Encoding final : public TextWork {
 public:
  Encoding(const Tokenizer& tokenizer, FunctionRef<void(const EncodedPart&)> sink)
      : tokenizer_(tokenizer), sink_(sink) {}

  void begin(std::size_t texts) override {
    if (ids_.size() < texts) ids_.resize(texts);
  }
  void run(std::size_t number, std::string_view text, bool begins) override {
    ids_[number].clear();
    if (begins)
      tokenizer_.encode(text, ids_[number]);
    else
      tokenizer_.encode_rest(text, ids_[number]);
  }
  void finish(std::size_t number, bool begins) override { sink_({begins, ids_[number]}); }

 private:
  const Tokenizer& tokenizer_;
  FunctionRef<void(const EncodedPart&)> sink_;
  std::vector<std::vector<TokenId>> ids_;
};

/// Calls use() for a reader of the file; false if it has no text.
bool with_reader(const InputPath& input, const Tokenizer& tokenizer, SkippedFiles& skipped,
                 FunctionRef<void(DocumentReader&)> use) {
  const std::string_view format = unreadable_format(input.path);
  if (!format.empty()) {
    pass_over(input, skipped, format, std::string(format) + " by its name", kRecordsFix);
    return false;
  }
  try {
    DocumentReader reader(input, tokenizer);
    use(reader);
    return true;
  } catch (const DocumentReader::Unreadable& why) {
    pass_over(input, skipped, why.reason, why.found);
    return false;
  }
}

/// Other records than documents, such as the metrics.jsonl of a run, are passed over where they lie in a
/// folder with text: JSON Lines whose first line has no text.
void pass_over_other_records(const InputPath& input, const DocumentPart& first, const std::string& text_key) {
  if (input.named || first.line == 0) return;
  try {
    text_of_line(input.path, first, text_key);
  } catch (const DataError&) {
    throw DocumentReader::Unreadable{"JSON Lines without text", ""};
  }
}

}  // namespace

bool for_each_text(const InputPath& input, const Tokenizer& tokenizer, const std::string& text_key,
                   SkippedFiles& skipped, TextWork& work, FunctionRef<void(std::uint64_t bytes)> progress) {
  return with_reader(input, tokenizer, skipped, [&](DocumentReader& reader) {
    std::uint64_t done = 0;
    for (Batch batch; batch.fill(reader); done = reader.position()) {
      if (done == 0) pass_over_other_records(input, batch.first(), text_key);
      batch.work_on(input.path, text_key, work);
      progress(reader.position() - done);
    }
  });
}

bool encode_documents(const InputPath& input, const Tokenizer& tokenizer, const std::string& text_key,
                      SkippedFiles& skipped, FunctionRef<void(const EncodedPart&)> sink,
                      FunctionRef<void(std::uint64_t bytes)> progress) {
  Encoding encoding(tokenizer, sink);
  return for_each_text(input, tokenizer, text_key, skipped, encoding, progress);
}

bool has_text(const InputPath& input, const Tokenizer& tokenizer, const std::string& text_key,
              SkippedFiles& skipped) {
  return with_reader(input, tokenizer, skipped, [&](DocumentReader& reader) {
    bool begun = false;
    for (DocumentPart part; reader.next(part); begun = true) {
      if (!begun) pass_over_other_records(input, part, text_key);
    }
  });
}

}  // namespace moh
