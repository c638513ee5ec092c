#include "train/tasks/language/tokenizer_bench.h"

#include <algorithm>
#include <chrono>
#include <memory>
#include <optional>
#include <utility>

#include "core/error.h"
#include "train/math/statistics.h"
#include "train/tasks/language/data/document_reader.h"
#include "train/tasks/language/data/record_text.h"
#include "train/tokenizers/open_tokenizer.h"

namespace moh {

namespace {

struct Text {
  std::string bytes;
  bool begins = true;
};

std::vector<Text> read_texts(const std::string& path, const Tokenizer& tokenizer,
                             const RecordOptions& options) {
  const InputPath input{path, /*named=*/true};
  const RecordReader records(options);
  std::vector<Text> texts;
  try {
    DocumentReader reader(input, tokenizer);
    std::optional<RecordKind> kind;
    for (DocumentPart part; reader.next(part);) {
      if (!kind) kind = records.kind_of(input, part);
      bool begins = part.begins;
      for (TextSegment& segment : records.segments(path, part, *kind))
        texts.push_back({std::move(segment.text), std::exchange(begins, false)});
    }
  } catch (const DocumentReader::Unreadable& why) {
    throw DataError(error_message(path, "", "text", why.found));
  }
  return texts;
}

/// All ids; `ids` keeps its memory between passes.
void encode(const Tokenizer& tokenizer, const std::vector<Text>& texts, std::vector<TokenId>& ids) {
  ids.clear();
  for (const Text& text : texts)
    text.begins ? tokenizer.encode(text.bytes, ids) : tokenizer.encode_rest(text.bytes, ids);
}

void decode(const Tokenizer& tokenizer, const std::vector<TokenId>& ids, std::string& bytes) {
  bytes.clear();
  for (const TokenId id : ids) bytes += tokenizer.token_bytes(id);
}

/// Seconds of each pass, after one that fills caches.
template <class Pass>
std::vector<double> seconds_of(int repeats, Pass pass) {
  using Clock = std::chrono::steady_clock;
  std::vector<double> seconds;
  for (int i = 0; i <= repeats; ++i) {
    const auto begin = Clock::now();
    pass();
    if (i > 0) seconds.push_back(std::chrono::duration<double>(Clock::now() - begin).count());
  }
  return seconds;
}

Row measure(const std::string& path, const Tokenizer& tokenizer, const TokenizerBenchOptions& options) {
  const std::vector<Text> texts = read_texts(path, tokenizer, options.records);
  double megabytes = 0;
  for (const Text& text : texts) megabytes += 1e-6 * static_cast<double>(text.bytes.size());
  std::vector<TokenId> ids;
  std::string bytes;
  const auto encoding = seconds_of(options.repeats, [&] { encode(tokenizer, texts, ids); });
  const auto decoding = seconds_of(options.repeats, [&] { decode(tokenizer, ids, bytes); });
  const auto [fastest, slowest] = std::ranges::minmax(encoding);
  Row row;
  row.add("file", path, {"file", {}, -24});
  row.add("texts", std::ssize(texts), {"texts", {}, 8});
  row.add("megabytes", megabytes, {"MB", Row::fixed(2), 8});
  row.add("tokens", std::ssize(ids), {"tokens", {}, 9});
  row.add("encode_mb_per_s", megabytes / median(encoding), {"encode, MB/s", Row::fixed(2)});
  row.add("spread", (slowest - fastest) / median(encoding), {"spread", Row::percent(1)});
  row.add("decode_mb_per_s", megabytes / median(decoding), {"decode, MB/s", Row::fixed(1)});
  return row;
}

}  // namespace

void run_tokenizer_bench(const TokenizerBenchOptions& options,
                         const std::function<void(const Row&)>& on_row) {
  if (options.repeats < 1) {
    throw ValueError(
        error_message("bench tokenizer", "repeats", "1 or more", std::to_string(options.repeats)));
  }
  const auto tokenizer = open_tokenizer("--tokenizer", options.tokenizer);
  for (const std::string& path : options.inputs) on_row(measure(path, *tokenizer, options));
}

}  // namespace moh
