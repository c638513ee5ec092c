#include "train/families/translation/decode/translate_text.h"

#include <algorithm>
#include <numeric>
#include <optional>
#include <string_view>
#include <utility>

#include "core/error.h"
#include "train/families/translation/data/text_lines.h"

namespace moh {

namespace {

/// Lines whose sentences are sorted by length, and whose translations are then passed on.
constexpr std::size_t kWindow = 1024;

void check(const TranslateTextOptions& options) {
  constexpr std::int64_t kMostBeams = 1024, kMostTokens = std::int64_t{1} << 24;
  const auto within = [](const char* option, std::int64_t value, std::int64_t least, std::int64_t most) {
    if (value >= least && value <= most) return;
    throw ConfigError(error_message(option, "", std::to_string(least) + " to " + std::to_string(most),
                                    std::to_string(value)));
  };
  within("--beam", options.search.beam.beams, 1, kMostBeams);
  within("--n-best", options.n_best, 1, options.search.beam.beams);
  within("--max-length", options.search.max_length, 0, kMostTokens);
  within("--batch-tokens", options.batch_tokens, 1, kMostTokens);
}

std::vector<TokenId> encode_line(const TrainedTranslation& model, std::string_view line,
                                 const std::string& where) {
  std::vector<TokenId> ids;
  try {
    model.tokenizers.source->encode(line, ids);
  } catch (const DataError& error) {
    throw DataError(where + ": " + error.what());
  }
  const std::int64_t positions = model.model.config().max_positions;
  if (std::ssize(ids) >= positions)
    throw DataError(error_message(where, "", "at most " + std::to_string(positions) + " tokens with the end",
                                  std::to_string(ids.size() + 1),
                                  "cut it into sentences, as the model has no positions for more"));
  return ids;
}

/// The tokens of each line.
std::vector<std::vector<TokenId>> encode_lines(const TrainedTranslation& model,
                                               std::span<const std::string> lines, const std::string& where) {
  std::vector<std::vector<TokenId>> sentences;
  for (const std::string& line : lines)
    sentences.push_back(
        encode_line(model, one_line(line), where + ":" + std::to_string(sentences.size() + 1)));
  return sentences;
}

TranslatedText text_of(const Hypothesis& hypothesis, const Tokenizer& tokenizer) {
  Utf8Stream stream;
  std::string text;
  for (const TokenId id : hypothesis.tokens) text += stream.push(tokenizer.token_bytes(id));
  text += stream.finish();
  return {one_line(tokenizer.cleaned_up(std::move(text))), hypothesis.tokens, hypothesis.log_probability,
          hypothesis.score};
}

std::vector<TranslatedText> best_texts(std::span<const Hypothesis> hypotheses, const Tokenizer& tokenizer,
                                       std::int64_t n_best) {
  std::vector<TranslatedText> texts;
  for (const Hypothesis& hypothesis : hypotheses.first(std::min(hypotheses.size(), std::size_t(n_best))))
    texts.push_back(text_of(hypothesis, tokenizer));
  return texts;
}

/// The numbers of the sentences of [begin, end) that have text, by length.
std::vector<std::size_t> by_length(std::span<const std::vector<TokenId>> sentences, std::size_t begin,
                                   std::size_t end) {
  std::vector<std::size_t> order;
  for (std::size_t i = begin; i < end; ++i)
    if (!sentences[i].empty()) order.push_back(i);
  std::ranges::stable_sort(order, {}, [&](std::size_t i) { return sentences[i].size(); });
  return order;
}

/// The first sentences of `order` that make a batch of at most so many tokens: one or more.
std::span<const std::size_t> take_batch(std::span<const std::size_t>& order,
                                        std::span<const std::vector<TokenId>> sentences,
                                        std::int64_t batch_tokens) {
  std::size_t count = 0;
  for (std::int64_t tokens = 0; count < order.size(); ++count) {
    tokens += std::ssize(sentences[order[count]]) + 1;
    if (count > 0 && tokens > batch_tokens) break;
  }
  const std::span<const std::size_t> batch = order.first(count);
  order = order.subspan(count);
  return batch;
}

}  // namespace

void translate_text(const TrainedTranslation& model, std::span<const std::string> lines,
                    const std::string& where, const TranslateTextOptions& options,
                    const std::function<void(std::span<const TranslatedText>)>& sink,
                    FunctionRef<void(std::int64_t done)> progress) {
  check(options);
  const std::vector<std::vector<TokenId>> sentences = encode_lines(model, lines, where);
  for (std::size_t begin = 0; begin < lines.size(); begin += kWindow) {
    const std::size_t end = std::min(begin + kWindow, lines.size());
    const std::vector<std::size_t> order = by_length(sentences, begin, end);
    std::vector<std::vector<TranslatedText>> texts(end - begin);
    std::int64_t done = static_cast<std::int64_t>(end - order.size());
    for (std::span<const std::size_t> rest = order; !rest.empty();) {
      const std::span<const std::size_t> batch = take_batch(rest, sentences, options.batch_tokens);
      std::vector<std::vector<TokenId>> sources;
      for (const std::size_t i : batch) sources.push_back(sentences[i]);
      const Tokenizer& tokenizer = *model.tokenizers.target;
      const auto found =
          translate_sentences(model.model, model.marks, tokenizer.vocab_size(), sources, options.search);
      for (std::size_t k = 0; k < batch.size(); ++k)
        texts[batch[k] - begin] = best_texts(found[k], tokenizer, options.n_best);
      progress(done += std::ssize(batch));
    }
    for (const auto& of_line : texts) sink(of_line);
  }
}

}  // namespace moh
