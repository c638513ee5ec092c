#include "train/families/translation/decode/translate_sentences.h"

#include <algorithm>
#include <string>
#include <utility>

#include "core/error.h"
#include "core/parallel.h"

namespace moh {

namespace {

/// The source sentences as the encoder reads them.
struct Sources {
  std::vector<std::int64_t> ids, lengths;
};
Sources with_ends(std::span<const std::vector<TokenId>> sentences, TokenId end, std::int64_t positions) {
  Sources sources;
  for (const std::vector<TokenId>& sentence : sentences) {
    const std::int64_t length = std::ssize(sentence) + 1;
    if (length > positions)
      throw ValueError(error_message("translate", "source sentence",
                                     "at most " + std::to_string(positions) + " tokens with its end",
                                     std::to_string(length)));
    sources.ids.insert(sources.ids.end(), sentence.begin(), sentence.end());
    sources.ids.push_back(end);
    sources.lengths.push_back(length);
  }
  return sources;
}

Tensor to_tensor(const std::vector<std::int64_t>& numbers, Device device) {
  return tensor_of<std::int64_t>({std::ssize(numbers)}, numbers).to(device);
}

/// The rows of the searches that go on, one search after the other.
struct Rows {
  std::vector<std::int64_t> begins;   // of each search, and the end of the last
  std::vector<std::int64_t> parents;  // the rows of the step before that they continue; none before the first
  std::vector<std::int64_t> tokens;   // their last

  bool empty() const { return tokens.empty(); }
};

/// A row for each search, whose number is that of its sentence.
Rows first_rows(std::span<const BeamSearch> searches, TokenId start) {
  Rows rows;
  for (std::size_t i = 0; i < searches.size(); ++i) {
    rows.begins.push_back(std::ssize(rows.tokens));
    if (!searches[i].is_done()) rows.tokens.push_back(start);
  }
  rows.begins.push_back(std::ssize(rows.tokens));
  return rows;
}

/// `before`: the first row of each search in the step that was made.
Rows next_rows(std::span<const BeamSearch> searches, std::span<const std::int64_t> before) {
  Rows rows;
  for (std::size_t i = 0; i < searches.size(); ++i) {
    rows.begins.push_back(std::ssize(rows.tokens));
    const BeamSearch& search = searches[i];
    for (std::int64_t row = 0; !search.is_done() && row < search.rows(); ++row) {
      rows.parents.push_back(before[i] + search.parent(row));
      rows.tokens.push_back(search.last_token(row));
    }
  }
  rows.begins.push_back(std::ssize(rows.tokens));
  return rows;
}

/// The searches that go on: the sentences of the first rows.
std::vector<std::int64_t> sentences_of(std::span<const BeamSearch> searches) {
  std::vector<std::int64_t> sentences;
  for (std::size_t i = 0; i < searches.size(); ++i)
    if (!searches[i].is_done()) sentences.push_back(static_cast<std::int64_t>(i));
  return sentences;
}

/// Rows that all go on as they are need no copy of their keys and values.
bool is_same_order(std::span<const std::int64_t> parents, std::int64_t rows) {
  if (std::ssize(parents) != rows) return false;
  for (std::int64_t i = 0; i < rows; ++i)
    if (parents[static_cast<std::size_t>(i)] != i) return false;
  return true;
}

/// Makes a step of every search that goes on with its rows of `logits` [R, V].
void advance_all(std::span<BeamSearch> searches, std::span<const std::int64_t> begins, const Tensor& logits) {
  const auto width = static_cast<std::size_t>(logits.dim(1));
  const std::span<const float> all = logits.span<float>();
  parallel_for(std::ssize(searches), 1, [&](std::int64_t begin, std::int64_t end) {
    for (auto i = static_cast<std::size_t>(begin); i < static_cast<std::size_t>(end); ++i) {
      const auto first = static_cast<std::size_t>(begins[i]), last = static_cast<std::size_t>(begins[i + 1]);
      if (first < last) searches[i].advance(all.subspan(first * width, (last - first) * width));
    }
  });
}

/// One search for each sentence.
std::vector<BeamSearch> begin_searches(std::span<const std::int64_t> lengths,
                                       const SearchVocabulary& vocabulary, const TranslateOptions& options,
                                       std::int64_t positions) {
  std::vector<BeamSearch> searches;
  for (const std::int64_t length : lengths) {
    const std::int64_t wanted = options.max_length == 0 ? length + kLengthMargin : options.max_length;
    searches.emplace_back(options.beam, vocabulary, std::min(wanted, positions));
  }
  return searches;
}

/// Steps until every search is done: before the last token of a greatest length, its end, there is none.
void run_searches(const TranslationModel& model, TranslationModel::Memory memory, TokenId start,
                  std::span<BeamSearch> searches) {
  Rows rows = first_rows(searches, start);
  if (rows.empty()) return;
  std::int64_t longest = 0;
  for (const BeamSearch& search : searches) longest = std::max(longest, search.max_length());
  Decoding decoding = model.begin(std::move(memory), sentences_of(searches), longest - 1);
  while (true) {
    const Tensor logits = model.step(to_tensor(rows.tokens, model.device()), decoding).to(kCpu);
    advance_all(searches, rows.begins, logits);
    Rows next = next_rows(searches, rows.begins);
    if (next.empty()) return;
    if (!is_same_order(next.parents, decoding.rows())) decoding.select(next.parents);
    rows = std::move(next);
  }
}

}  // namespace

std::vector<std::vector<Hypothesis>> translate_sentences(const TranslationModel& model,
                                                         const SentenceMarks& marks, std::int64_t vocab_size,
                                                         std::span<const std::vector<TokenId>> sentences,
                                                         const TranslateOptions& options) {
  const std::int64_t positions = model.config().max_positions;
  const Sources sources = with_ends(sentences, marks.end, positions);
  SearchVocabulary vocabulary{.end = marks.end, .tokens = vocab_size};
  if (marks.decoder_start != marks.end) vocabulary.forbidden.push_back(marks.decoder_start);
  std::vector<BeamSearch> searches = begin_searches(sources.lengths, vocabulary, options, positions);
  run_searches(model, model.encode(to_tensor(sources.ids, model.device()), sources.lengths),
               marks.decoder_start, searches);
  std::vector<std::vector<Hypothesis>> translations;
  for (const BeamSearch& search : searches) translations.push_back(search.finished());
  return translations;
}

}  // namespace moh
