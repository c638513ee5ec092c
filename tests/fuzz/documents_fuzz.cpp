#include <algorithm>

#include "core/error.h"
#include "tests/fuzz/memory_file.h"
#include "train/families/language/data/document_reader.h"
#include "train/families/language/data/record_text.h"
#include "train/tokenizers/open_tokenizer.h"

namespace {

/// Enough for what a corpus holds; a few bytes of an archive can stand for gigabytes.
constexpr std::size_t kMostText = std::size_t{1} << 20;

/// Each line of a text as one of JSON Lines, of its kind and of every other.
void read_lines(const std::string& text) {
  static const moh::RecordReader records({.message = "<{role}>{content}"});
  std::int64_t number = 0;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    const moh::DocumentPart line{text.substr(begin, end - begin), true, ++number};
    for (const auto kind : {moh::RecordKind::kText, moh::RecordKind::kPrompt, moh::RecordKind::kChat}) {
      try {
        moh::DocumentPart part = line;
        records.segments("fuzz", part, kind);
      } catch (const moh::DataError&) {
      }
    }
    try {
      records.kind_of({"fuzz", true}, line);
    } catch (const moh::DataError&) {
    }
    begin = end + 1;
  }
}

}  // namespace

/// A text, plain or compressed, in parts, and then as JSON Lines.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const auto tokenizer = moh::open_tokenizer("fuzz", "byte");
  const moh::test::MemoryFile memory(data, size);
  std::string text;
  try {
    moh::DocumentReader reader({memory.path(), true}, *tokenizer);
    moh::DocumentPart part;
    while (text.size() < kMostText && reader.next(part)) {
      if (part.begins != text.empty() || part.text.empty() || reader.position() > size) __builtin_trap();
      text += part.text;
    }
  } catch (const moh::DataError&) {
  } catch (const moh::DocumentReader::Unreadable&) {
  }
  read_lines(text);
  return 0;
}
