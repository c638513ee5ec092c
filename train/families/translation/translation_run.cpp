#include "train/families/translation/translation_run.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "core/error.h"
#include "models/find_preset.h"
#include "models/translation/translation_presets.h"
#include "train/config/problems.h"
#include "train/families/language/language_data.h"
#include "train/families/language/language_run.h"
#include "train/families/language/tokenizer_rows.h"
#include "train/tokenizers/open_tokenizer.h"
#include "train/trainer/config/enum_names.h"
#include "train/trainer/config/run_config.h"

namespace moh {

namespace {

using config::above;
using config::at_least;
using config::Difference;
using config::from_below;
using config::kMaxHeads;
using config::kMaxLayers;
using config::kMaxLength;
using config::kMaxVocab;
using config::kMaxWidth;
using config::Section;

constexpr std::string_view kTokenizerWords[] = {kByteTokenizer, kOtherTokenizer};
constexpr double kMaxRatio = 1000;

/// The run of a language model with its tokenizer, for everything that depends on no more.
LanguageRun run_of_tokens(const TranslationRun& run) {
  LanguageRun text;
  text.preset = run.preset;
  text.model.vocab_size = run.model.vocab_size;
  text.data.tokenizer = run.data.tokenizer;
  text.new_tokenizer = run.new_tokenizer;
  text.trained_tokenizer = run.trained_tokenizer;
  return text;
}

Section moh_section(MohConfig& c) {
  Section s = config::describe(c);
  for (const char* name : {"router", "top_k", "gate_scaling"}) s.properties_of(name).unseen_in_weights();
  for (const char* name : {"straight_through", "router_precision"}) s.properties_of(name).of_training();
  return s;
}

Section data_section(ParallelDataConfig& c) {
  Section s("data", "Parallel text ([translation.md](translation.md#data)).");
  s.field("train", c.train,
          "Sentence pairs to train on: tab-separated text, JSON Lines, message catalogs (`.mo`), or folders "
          "of these. With `train_targets`: text files with a source sentence on each line.");
  s.field("train_targets", c.train_targets,
          "Text files with the translations, line by line, one for each file of `train`.");
  s.field("validation", c.validation,
          "Held-out pairs, given likewise. Empty: a part of the training pairs is held out.");
  s.field("validation_targets", c.validation_targets, "Their translations, as `train_targets`.");
  s.field("validation_fraction", c.validation_fraction, from_below(0, 1),
          "Share of the training pairs that is held out, chosen by the source sentence, so that no sentence "
          "is in both parts. 0: train on everything, without validation.");
  s.field("source_key", c.source_key,
          "Key of the source sentence in JSON Lines; `translation.en` is the key `en` of the object at "
          "`translation`.");
  s.field("target_key", c.target_key, "Key of its translation.");
  s.field("keep_equal", c.keep_equal, "Train on pairs whose two sentences are the same, too.");
  s.field("keep_duplicates", c.keep_duplicates, "Train on a pair as often as it occurs.");
  s.path_or_word(
       "tokenizer", c.tokenizer, kTokenizerWords,
       "How sentences of both languages become tokens: a SentencePiece `.model`, the `tokenizer.json` of "
       "Hugging Face's libraries, the `vocab.json` of a Marian model, or a folder with one, whose vocabulary "
       "`model.vocab_size` follows unless it is given. `byte`: one token per byte. A run with `init.from` "
       "takes the tokenizer of the "
       "checkpoint. `other`: set in converted models that came without a tokenizer; text is refused.")
      .unseen_in_weights();
  s.field("decoder_start", c.decoder_start, at_least(-1).capped(kMaxVocab),
          "Id of the token that the decoder begins with, such as that of padding in Marian's models. -1: the "
          "token that ends sentences, as in fairseq. A run with `init.from` takes that of the checkpoint.")
      .unseen_in_weights();
  s.field("batch_tokens", c.batch_tokens, at_least(1, "tokens").capped(kMaxLength),
          "Sentence pairs are packed into token batches of at most this many source tokens and as many "
          "target tokens, without padding. A micro-batch has `train.batch_size` of them.");
  s.field("max_length", c.max_length, at_least(2, "tokens").capped(kMaxLength),
          "Pairs with more tokens on either side, the end of the sentence included, are left out.");
  s.field("max_ratio", c.max_ratio, at_least(0).capped(kMaxRatio),
          "Training pairs of which one side has more than so many times the tokens of the other are left "
          "out. 0: none.");
  return s;
}

/// Target files go with as many source files.
void check_targets(const char* key, const char* targets_key, std::size_t sources, std::size_t targets,
                   config::Rules& rules) {
  if (targets == 0 || targets == sources) return;
  rules.refuse({targets_key, key}, "a file for each of " + std::string(key) + ", " + std::to_string(sources),
               std::to_string(targets));
}

void check_sizes(const ParallelDataConfig& data, const TranslationConfig& model, config::Rules& rules) {
  const auto at_most = [&](const char* key, std::int64_t bound) {
    if (data.max_length <= bound) return;
    rules.refuse({"data.max_length", key}, "at most " + std::string(key) + " (" + std::to_string(bound) + ")",
                 std::to_string(data.max_length));
  };
  at_most("model.max_positions", model.max_positions);
  at_most("data.batch_tokens", data.batch_tokens);
  if (data.max_ratio != 0 && !(data.max_ratio >= 1))
    rules.refuse({"data.max_ratio"}, "0, or 1 or more", number_text(data.max_ratio));
  if (data.decoder_start >= model.vocab_size)
    rules.refuse({"data.decoder_start", "model.vocab_size"},
                 "below model.vocab_size (" + std::to_string(model.vocab_size) + ")",
                 std::to_string(data.decoder_start));
}

}  // namespace

// The names in YAML of enums that only this family has.
constexpr std::string_view kNormPlaces[] = {"after", "before"};
constexpr std::string_view kPositionKinds[] = {"sinusoidal", "learned"};
constexpr std::string_view kSinusoidKinds[] = {"fairseq", "marian"};
constexpr std::string_view kActivations[] = {"relu", "gelu", "silu"};
constexpr std::string_view kSharedEmbeddings[] = {"all", "decoder", "none"};

std::span<const std::string_view> names_of(NormPlace) {
  return kNormPlaces;
}
std::span<const std::string_view> names_of(PositionKind) {
  return kPositionKinds;
}
std::span<const std::string_view> names_of(SinusoidKind) {
  return kSinusoidKinds;
}
std::span<const std::string_view> names_of(Activation) {
  return kActivations;
}
std::span<const std::string_view> names_of(SharedEmbeddings) {
  return kSharedEmbeddings;
}

void TranslationRun::add_model_fields(TranslationConfig& c, Section& s) {
  s.field("vocab_size", c.vocab_size, at_least(2, "tokens").capped(kMaxVocab),
          "Number of tokens in the vocabulary: rows of the embedding.")
      .differs_freely();
  s.field("source_vocab_size", c.source_vocab_size, at_least(0, "tokens").capped(kMaxVocab),
          "Rows of the encoder's embedding. 0: as many as `vocab_size`.")
      .differs_freely()
      .optional_with_weights();
  s.field("encoder_layers", c.encoder_layers, at_least(1).capped(kMaxLayers),
          "Blocks of the encoder, of self-attention and MLP each.");
  s.field("decoder_layers", c.decoder_layers, at_least(1).capped(kMaxLayers),
          "Blocks of the decoder, of self-attention, attention to the source, and MLP each.");
  s.field("hidden", c.hidden, at_least(1).capped(kMaxWidth), "Width of the residual stream.");
  s.field("intermediate", c.intermediate, at_least(1).capped(kMaxWidth), "Width inside the MLP.");
  s.field("heads", c.heads, at_least(1).capped(kMaxHeads), "Query heads per attention layer.")
      .unseen_in_weights();
  s.field("kv_heads", c.kv_heads, at_least(0).capped(kMaxHeads),
          "Key and value heads, each shared by a group of query heads; 1 is MoA's. 0: as many as `heads`.")
      .optional_with_weights();
  s.field("head_dim", c.head_dim, at_least(0).capped(kMaxWidth),
          "Width of a head; `heads` times it may differ from `hidden`. 0: `hidden` / `heads`.")
      .optional_with_weights();
  s.field("max_positions", c.max_positions, at_least(2, "tokens").capped(kMaxLength),
          "Tokens of the longest sentence, on either side.")
      .differs_freely()
      .optional_with_weights();
  s.field("norm", c.norm,
          "LayerNorm `after` each residual branch is added (Vaswani et al. 2017), or `before` each branch.")
      .unseen_in_weights();
  s.field("positions", c.positions,
          "`sinusoidal`: a function of the position (Vaswani et al. 2017, section 3.5); `learned`.")
      .unseen_in_weights();
  s.field("sinusoids", c.sinusoids,
          "Frequencies of sinusoidal positions in D = `hidden` numbers: 10000^(-i / (D / 2 - 1)) of "
          "`fairseq`, or 10000^(-i / (D / 2)) of `marian`.")
      .unseen_in_weights();
  s.field("position_offset", c.position_offset, at_least(0).capped(kMaxLength),
          "Position of the first token of a sentence: 2 in checkpoints of fairseq.")
      .unseen_in_weights();
  s.field("activation", c.activation, "Between the two matrices of the MLP.").unseen_in_weights();
  s.field("scale_embedding", c.scale_embedding, "Multiply embeddings by sqrt(`hidden`).").unseen_in_weights();
  s.field("shared_embeddings", c.shared_embeddings,
          "One matrix for `all` of the encoder's embedding, the decoder's, and the output; for the "
          "`decoder`'s embedding and the output; or `none`.")
      .optional_with_weights();
  s.field("embedding_norm", c.embedding_norm, "LayerNorm of the embeddings.").optional_with_weights();
  s.field("attention_bias", c.attention_bias, "The four projections of attention add a bias.")
      .optional_with_weights();
  s.field("output_bias", c.output_bias, "The logits have a bias (Marian's `final_logits_bias`).")
      .optional_with_weights();
  s.field("norm_eps", c.norm_eps, above(0), "Added to the variance in LayerNorm.").unseen_in_weights();
  const auto probability = [&](const char* key, double& value, const char* doc) {
    s.field(key, value, from_below(0, 1), doc).differs_freely().of_training().optional_with_weights();
  };
  probability("dropout", c.dropout, "Dropout probability of the embeddings and of each residual branch.");
  probability("attention_dropout", c.attention_dropout, "Dropout probability of the weights of attention.");
  probability("activation_dropout", c.activation_dropout, "Dropout probability inside the MLP.");
  config::add_attention_gate(c.attention_gate, s);
  config::add_recompute(c.recompute, s);
  s.section(moh_section(c.moh));
}

void TranslationRun::describe(Section& root) {
  root.section(model_section(
      "The encoder and the decoder (Transformer), with or without MoH in their self-attention and in the "
      "attention between them. Lists for each layer begin with those of the encoder; each block of the "
      "decoder has two, self-attention and then attention to the source."));
  root.section(data_section(data));
  root.section_named("loss", "How the model is trained.")
      .field("label_smoothing", label_smoothing, from_below(0, 1),
             "Probability that the target distribution gives to all other tokens together, alike "
             "(fairseq's `label_smoothed_cross_entropy`).");
  root.section_named("init").field("new_tokenizer", new_tokenizer,
                                   "Train with the tokens of `data.tokenizer` although those of the "
                                   "checkpoint have, or may have, other meanings.");
  root.section_named("eval").field(
      "max_tokens", evaluated.given, at_least(0, "tokens").capped(config::kMostEvaluated),
      "Evaluate on held-out pairs that are spread evenly, the same in every run, "
      "with about this many target tokens. 0: on all. Not given: on 131072 "
      "during the training, and on all in `moh eval`.");
}

void TranslationRun::check(const RunConfig& run, config::Rules& rules) const {
  ConfigFaults faults("model.");
  moh::check(model, faults);
  rules.refuse(faults);
  check_sizes(data, model, rules);
  check_targets("data.train", "data.train_targets", data.train.size(), data.train_targets.size(), rules);
  check_targets("data.validation", "data.validation_targets", data.validation.size(),
                data.validation_targets.size(), rules);
  config::check(evaluated, "eval.max_tokens", rules);
  constexpr std::int64_t kBytes = 256;
  if (data.tokenizer == kByteTokenizer && model.vocab_size < kBytes)
    rules.refuse({"model.vocab_size", "data.tokenizer"}, "at least 256, the tokens of data.tokenizer: byte",
                 std::to_string(model.vocab_size));
  if (run.cuda_graph)
    rules.refuse({"cuda_graph"},
                 "false with task: translation, whose micro-batches have lengths of their own", "true");
}

void TranslationRun::require_data(config::Rules& rules) const {
  if (data.tokenizer == kOtherTokenizer)
    rules.refuse({"data.tokenizer"},
                 "byte or the path of a tokenizer, as text is turned into tokens for training", "other");
  if (data.train.empty())
    rules.refuse({"data.train"}, "sentence pairs to train on", "no path",
                 "name tab-separated text, JSON Lines or .mo files: data.train=pairs.tsv; or two text files: "
                 "data.train=train.en data.train_targets=train.de");
}

std::vector<std::string> TranslationRun::presets() const {
  return preset_names(translation_presets());
}

TranslationConfig TranslationRun::model_of_preset(std::string_view name) {
  return preset_config(translation_presets(), name);
}

TranslationConfig TranslationRun::normal_form(TranslationConfig c) {
  c = spelt_out(std::move(c));
  c.moh = spelt_out(c.moh, c.attention_layers(), {c.heads, c.kv_heads});
  return c;
}

EvaluationWork TranslationRun::evaluation_work() const {
  if (data.validation.empty() && data.validation_fraction == 0) return {};
  return {evaluated.most_in_training(kUsualEvaluatedTokens)};
}

void TranslationRun::follow_files(FunctionRef<bool(std::string_view key)> is_given,
                                  const FamilyConfig* checkpoint) {
  // With the tokens, so that the decoder begins as it was trained to.
  if (checkpoint != nullptr && !new_tokenizer && !is_given("data.decoder_start"))
    data.decoder_start = of(*checkpoint).data.decoder_start;
  LanguageRun text = run_of_tokens(*this), trained;
  if (checkpoint != nullptr) trained = run_of_tokens(of(*checkpoint));
  text.model.vocab_size = 0;  // so that it is seen whether it follows the tokenizer
  text.follow_files(is_given, checkpoint != nullptr ? &trained : nullptr);
  data.tokenizer = text.data.tokenizer;
  if (text.model.vocab_size == 0) return;
  model.vocab_size = text.model.vocab_size;
  const auto target = open_tokenizer("data.tokenizer", data.tokenizer)->target_side();
  if (target == nullptr || target->vocab_size() == model.vocab_size) return;
  if (!is_given("model.source_vocab_size")) model.source_vocab_size = model.vocab_size;
  model.vocab_size = target->vocab_size();
}

void TranslationRun::remember(std::span<const std::pair<std::string, std::string>> identity) {
  LanguageRun text;
  text.remember(identity);
  trained_tokenizer = text.trained_tokenizer;
}

std::vector<Difference> TranslationRun::disagreements(const FamilyConfig& checkpoint) const {
  std::vector<Difference> found = FamilyRun::disagreements(checkpoint);
  std::ranges::move(run_of_tokens(*this).disagreements(run_of_tokens(of(checkpoint))),
                    std::back_inserter(found));
  return found;
}

std::vector<Difference> TranslationRun::other_results(const FamilyConfig& other) const {
  std::vector<Difference> found = FamilyRun::other_results(other);
  for (Difference& difference : run_of_tokens(*this).other_results(run_of_tokens(of(other))))
    if (difference.key == "data.tokenizer") found.push_back(std::move(difference));
  if (data.decoder_start != of(other).data.decoder_start)
    found.push_back({"data.decoder_start", std::to_string(of(other).data.decoder_start),
                     std::to_string(data.decoder_start), ""});
  return found;
}

LanguageTokenizers tokenizers_of(const TranslationRun& run) {
  const std::string where = "data.tokenizer " + run.data.tokenizer.string();
  const std::int64_t source_rows = spelt_out(run.model).source_vocab_size, rows = run.model.vocab_size;
  std::unique_ptr<const Tokenizer> source = whole_tokenizer_of(run_of_tokens(run));
  std::unique_ptr<const Tokenizer> target = source->target_side();
  if (target == nullptr) {
    const std::shared_ptr<const Tokenizer> both =
        with_rows(std::move(source), std::min(source_rows, rows), where);
    return {both, both};
  }
  const bool same_rows = run.model.source_vocab_size == 0;
  return {with_rows(std::move(source), source_rows, where + ", source language",
                    same_rows ? "model.vocab_size" : "model.source_vocab_size"),
          with_rows(std::move(target), rows, where + ", target language")};
}

SentenceMarks sentence_marks(const TranslationRun& run, const Tokenizer& tokenizer) {
  const std::optional<TokenId> end = tokenizer.end_of_document();
  if (!end)
    throw ConfigError(error_message("data.tokenizer", "", "a tokenizer with a token that ends a text",
                                    describe(tokenizer)));
  return {.end = *end,
          .decoder_start = run.data.decoder_start < 0 ? *end : static_cast<TokenId>(run.data.decoder_start)};
}

const TranslationRun& translation_run(const FamilyConfig& family) {
  return TranslationRun::of(family);
}

const TranslationRun& translation_run(const RunConfig& run) {
  return translation_run(*run.family);
}

}  // namespace moh
