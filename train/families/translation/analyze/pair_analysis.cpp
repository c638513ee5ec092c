#include "train/families/translation/analyze/pair_analysis.h"

#include <algorithm>
#include <utility>

#include "train/families/language/analyze/token_table.h"
#include "train/families/translation/analyze/analyzed_pairs.h"
#include "train/families/translation/data/text_lines.h"
#include "train/families/translation/decode/translate_sentences.h"
#include "train/families/translation/translation_data.h"
#include "train/trainer/config/run_config.h"

namespace moh {

namespace {

/// The sides of AnalyzedModel::sides.
constexpr std::size_t kSource = 0, kTarget = 1;

/// The kinds of attention by layer (TranslationConfig::moh).
std::vector<AnalyzedLayer> layers_of(const TranslationConfig& c) {
  std::vector<AnalyzedLayer> layers;
  for (std::int64_t i = 0; i < c.encoder_layers; ++i) layers.push_back({"encoder self", i});
  for (std::int64_t i = 0; i < c.decoder_layers; ++i) {
    layers.push_back({"decoder self", i});
    layers.push_back({"decoder cross", i});
  }
  return layers;
}

AnalyzedModel sizes_of(const TranslationConfig& c) {
  return {.layers = c.attention_layers(),
          .hidden = c.hidden,
          .heads = c.heads,
          .kv_heads = c.kv_heads,
          .head_dim = c.head_dim,
          .layer_kinds = layers_of(c),
          .sides = {"source", "target"},
          .vocab_size = std::max(c.source_vocab_size, c.vocab_size)};
}

/// A source sentence and its greedy translation, as the model reads them.
void add_text(AnalysisInputs& inputs, const TranslationModel& model, const LanguageTokenizers& tokenizers,
              const SentenceMarks& marks, const std::string& text) {
  MarkedPair pair;
  tokenizers.source->encode(one_line(text), pair.source);
  if (pair.source.empty()) return;
  pair.target = translate_sentences(model, marks, tokenizers.target->vocab_size(), std::span(&pair.source, 1),
                                    {.beam = {.beams = 1}})
                    .front()
                    .front()
                    .tokens;
  pair.source.push_back(marks.end);
  pair.target.insert(pair.target.begin(), marks.decoder_start);
  inputs.text = to_inputs(std::span(&pair, 1));
  for (const TokenId id : pair.source)
    inputs.text_tokens.push_back({{.id = id, .text = shown_text(*tokenizers.source, id)}, kSource});
  for (const TokenId id : pair.target)
    inputs.text_tokens.push_back({{.id = id, .text = shown_text(*tokenizers.target, id)}, kTarget});
}

/// The held-out pairs of a run, with a note of what they are in `contents`.
std::vector<NamedPairs> open_sources(const RunConfig& run, std::span<const AnalyzedFiles> files,
                                     std::vector<std::pair<std::string, std::string>>& contents) {
  std::vector<NamedPairs> sources;
  if (files.empty()) {
    const auto data = open_translation_data(run, DataUse::kEvaluation);
    contents = data->contents;
    return {{"validation", data->validation}};
  }
  for (const AnalyzedFiles& each : files) {
    RunConfig held_out = run;
    ParallelDataConfig& data = dynamic_cast<TranslationRun&>(*held_out.family).data;
    data.validation = {each.paths.begin(), each.paths.end()};
    data.validation_targets.clear();
    sources.push_back({each.name, open_translation_data(held_out, DataUse::kEvaluation)->validation});
    contents.emplace_back(each.name, sources.back().pairs->describe_contents());
  }
  return sources;
}

}  // namespace

AnalysisInputs analysis_of_pairs(const TranslationModel& model, const LanguageTokenizers& tokenizers,
                                 const SentenceMarks& marks, const std::vector<NamedPairs>& sources,
                                 std::int64_t batch_tokens, const AnalyzeOptions& options) {
  AnalysisInputs inputs{.options = options,
                        .model = sizes_of(model.config()),
                        .tokenizer = std::string(tokenizers.source->name()),
                        .unit = "sentence pairs"};
  std::vector<std::int64_t> counts(static_cast<std::size_t>(inputs.model.vocab_size));
  const bool one_vocabulary = model.config().source_vocab_size == model.config().vocab_size;
  const std::int64_t share = std::ssize(sources);
  AnalyzeOptions of_source = options;
  of_source.similarity_tokens = (options.similarity_tokens + share - 1) / share;
  std::vector<AnalyzedPairs> opened;  // one source after the other
  for (const NamedPairs& source : sources) {
    const AnalyzedPairs& pairs = opened.emplace_back(source.pairs, marks, batch_tokens, of_source,
                                                     static_cast<std::int32_t>(opened.size()));
    for (std::int64_t i = 0; i < pairs.size(); ++i) {
      const auto sides = pairs.at(i).tokens;
      if (one_vocabulary) count_ids(sides[kSource].ids.span<std::int64_t>(), counts);
      count_ids(sides[kTarget].ids.span<std::int64_t>(), counts);
    }
    inputs.sources.push_back({source.name, pairs.num_pairs(), pairs.num_available()});
    inputs.similarity_tokens += pairs.num_similarity_tokens();
    inputs.num_passes += pairs.size();
  }
  inputs.token_table = token_table(*tokenizers.target, options, counts);
  add_text(inputs, model, tokenizers, marks, options.text);
  inputs.pass = [opened](std::int64_t index) {
    std::size_t source = 0;
    for (; index >= opened.at(source).size(); ++source) index -= opened[source].size();
    return opened[source].at(index);
  };
  inputs.forward = [&model](const Tensor& pairs, const ForwardContext& context) {
    model.forward(pack_pairs(pairs_in(pairs)).to(model.device()), context);
  };
  return inputs;
}

AnalysisInputs analysis_of_pairs(const RunConfig& run, const TranslationModel& model,
                                 std::span<const AnalyzedFiles> files, const AnalyzeOptions& options) {
  const TranslationRun& own = translation_run(run);
  const LanguageTokenizers tokenizers = tokenizers_of(own);
  std::vector<std::pair<std::string, std::string>> contents;
  const std::vector<NamedPairs> sources = open_sources(run, files, contents);
  AnalysisInputs inputs = analysis_of_pairs(model, tokenizers, sentence_marks(own, *tokenizers.source),
                                            sources, own.data.batch_tokens, options);
  inputs.contents = std::move(contents);
  return inputs;
}

}  // namespace moh
