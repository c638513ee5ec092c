#include "train/families/language/language_run.h"

#include <algorithm>
#include <set>
#include <utility>

#include "models/find_preset.h"
#include "models/llm/llama_presets.h"
#include "train/config/problems.h"
#include "train/tokenizers/open_tokenizer.h"
#include "train/trainer/config/enum_names.h"

namespace moh {

namespace {

using config::above;
using config::above_up_to;
using config::at_least;
using config::describe;
using config::Difference;
using config::from_below;
using config::kMaxHeads;
using config::kMaxLayers;
using config::kMaxLength;
using config::kMaxVocab;
using config::kMaxWidth;
using config::Section;

constexpr std::string_view kTokenizerWords[] = {kByteTokenizer, kOtherTokenizer};
constexpr std::string_view kCacheWords[] = {kDefaultTokenCache};
constexpr std::int64_t kByteVocab = 256;

std::string text(std::int64_t number) {
  return std::to_string(number);
}

Section rope_scaling_section(RopeScaling& c) {
  Section s("rope_scaling",
            "Scaling of the rotary embedding for texts longer than those of the pre-training.");
  s.field("kind", c.kind,
          "`linear`: all wavelengths are multiplied by `factor`. `llama3`: only the long ones, with "
          "interpolation between long and short (LLaMA 3.1). `yarn`: likewise, with larger logits (YaRN). "
          "`dynamic`: sequences longer than `original_positions` get a larger `rope_theta` (dynamic NTK).")
      .unseen_in_weights();
  s.field("factor", c.factor, at_least(1),
          "Factor of the wavelengths; with `dynamic`, how fast `rope_theta` grows.")
      .optional_with_weights();
  s.field("low_freq_factor", c.low_freq_factor, above(0),
          "With `llama3`: wavelengths above `original_positions` / `low_freq_factor` are long.")
      .optional_with_weights();
  s.field(
       "high_freq_factor", c.high_freq_factor, above(0),
       "With `llama3`: wavelengths below `original_positions` / `high_freq_factor` are short, and unchanged.")
      .optional_with_weights();
  s.field("original_positions", c.original_positions, at_least(1, "tokens").capped(kMaxLength),
          "With `llama3`, `yarn` and `dynamic`: context length of the pre-training.")
      .optional_with_weights();
  s.field("beta_fast", c.beta_fast, above(0),
          "With `yarn`: dimensions that turn more often within `original_positions` keep their wavelength.")
      .optional_with_weights();
  s.field("beta_slow", c.beta_slow, above(0),
          "With `yarn`: those that turn less often have it multiplied by `factor`.")
      .optional_with_weights();
  s.field("attention_factor", c.attention_factor, at_least(0),
          "With `yarn`: factor of queries and keys. 0: 0.1 ln(`factor`) + 1.")
      .optional_with_weights();
  s.field("truncate", c.truncate, "With `yarn`: interpolation begins and ends at whole dimensions.")
      .optional_with_weights();
  return s;
}

Section switch_head_section(SwitchHeadConfig& c) {
  Section s("switch_head",
            "Mixtures of experts in the values and outputs of dense attention "
            "(SwitchHead, [baselines.md](baselines.md#switchhead)).");
  s.properties().optional_with_weights();
  s.field("experts", c.experts, at_least(0).capped(kMaxHeads),
          "Projections to values of each KV head, and projections of outputs of each query head, with "
          "sigmoid gates. 0: one of each, without gates.");
  s.field("top_k", c.top_k, at_least(0).capped(kMaxHeads),
          "Experts that a token selects, of each head's values and of each head's outputs; given with "
          "`experts`.");
  return s;
}

Section lora_section(LoraConfig& c) {
  Section s(
      "lora",
      "Low-rank adapters, trained in place of the weights of linear maps, which stay as they are (LoRA, "
      "[continue_tuning.md](continue_tuning.md#lora)). Routers and gates are trained as a whole.");
  s.properties().optional_with_weights();
  s.field(
      "rank", c.rank, at_least(0).capped(kMaxWidth),
      "Rank of the matrices B A that are added to the weights. 0: no adapters, and everything is trained.");
  s.field("alpha", c.alpha, above(0), "The matrices are multiplied by `alpha` / `rank`.");
  s.field("targets", c.targets, "Maps that get adapters. The others of these names stay as they are.");
  s.field("full", c.full,
          "Further parts that are trained as a whole: `norms`, `embeddings` (with the output matrix).")
      .differs_freely()
      .of_training();
  return s;
}

Section moh_section(MohConfig& c) {
  Section s = describe(c);
  s.properties_of("router").unseen_in_weights();
  for (const char* name : {"straight_through", "router_precision"}) s.properties_of(name).of_training();
  return s;
}

Section data_section(TextDataConfig& c) {
  Section s("data", "Training and validation text.");
  s.field("train", c.train,
          "Text, JSON Lines (each also as `.gz` or `.zst`), token files (`moh data tokenize`), or folders of "
          "them. A list of `{name, path, weight}` is a mixture: each row is of one source, and every stretch "
          "of rows has them in proportion to their weights ([data.md](data.md#mixtures)).");
  s.field(
      "validation", c.validation,
      "Held-out text, given likewise, sources without `weight`; each source's loss is reported, too. Empty: "
      "a part of each training file is held out.");
  s.field("validation_fraction", c.validation_fraction, from_below(0, 1),
          "Share of each training file that is held out, at its end. 0: train on everything, without "
          "validation.");
  s.path_or_word(
       "tokenizer", c.tokenizer, kTokenizerWords,
       "How text becomes tokens: the `tokenizer.json` of Hugging Face's libraries, a SentencePiece `.model`, "
       "a `.tiktoken` file, or a folder with one, whose "
       "vocabulary `model.vocab_size` follows unless it is given. `byte`: one token per byte. A run with "
       "`init.from` takes the tokenizer of the checkpoint. `other`: set in converted models that came "
       "without a tokenizer; text is refused.")
      .unseen_in_weights();
  RecordOptions& records = c.text.records;
  s.field("text_key", records.text_key, "Key of the text in JSON Lines. Empty: no records are texts.");
  s.field("prompt_template", records.prompt,
          "For JSON Lines with prompts and responses: the text that the model reads and is not trained to "
          "write. `{key}` stands for a record's text at that key, `{{` and `}}` for braces "
          "([data.md](data.md#prompts-and-responses)).");
  s.field("response_template", records.response,
          "The text after the prompt, which is learned with the end of the text. Empty: no records have "
          "prompts.");
  s.field("message_template", records.message,
          "For JSON Lines with chats, lists of `{role, content}` at the key `messages`: a message, with "
          "`{role}` and `{content}`. Messages of the role `assistant` are learned from their content on. "
          "Empty: no records are chats.");
  s.path_or_word(
       "cache", c.text.cache, kCacheWords,
       "Folder of the token files that are made of texts above 16 MiB, once for each text and tokenizer. "
       "`auto`: `moh/tokens` in the user's cache, `$XDG_CACHE_HOME` or `~/.cache`.")
      .harmless_on_resume();
  s.field("sequence_length", c.sequence_length, at_least(1, "tokens").capped(kMaxLength),
          "Number of tokens of a training sequence.");
  s.field(
      "document_mask", c.document_mask,
      "Tokens attend to those of their own document only, in training and evaluation; the first token of a "
      "document is no target then ([data.md](data.md#documents)).");
  s.field("reset_positions", c.reset_positions,
          "With `document_mask`: rotary positions begin at 0 with each document.");
  return s;
}

Section sample_section(SampleConfig& c) {
  Section s("sample", "A text that the model generates at the end of the training.");
  s.properties().harmless_on_resume();
  s.field("prompt", c.prompt, "Text to continue.");
  s.field("tokens", c.options.tokens, at_least(0, "tokens").capped(kMaxLength),
          "Number of tokens to generate. 0: no sample.");
  s.field("temperature", c.options.pick.temperature, at_least(0),
          "Divides the logits. 0: always the most probable token.");
  s.field("top_k", c.options.pick.top_k, at_least(0, "tokens").capped(kMaxVocab),
          "Sample from this many most probable tokens only. 0: from all.");
  s.field("top_p", c.options.pick.top_p, above_up_to(0, 1),
          "Sample from the smallest set of most probable tokens whose probabilities sum to at least this.");
  return s;
}

/// Sources have names of their own; those to train on have weights.
void check_sources(const std::string& key, const std::vector<DataSource>& sources, bool weighted,
                   config::Rules& rules) {
  if (!is_mixture(sources)) return;
  std::set<std::string> names;
  for (const DataSource& source : sources) {
    if (!names.insert(source.name).second)
      rules.refuse({key}, "sources of different names", source.name + " twice");
    if (weighted == (source.weight > 0)) continue;
    rules.refuse({key},
                 weighted ? "a weight for each source" : "sources without weight: all held-out tokens count",
                 "source " + source.name + (weighted ? " without one" : " with one"));
  }
}

/// Whether text becomes the same ids; files are compared by their contents.
bool same_tokens(const TextDataConfig& a, const TextDataConfig& b) {
  if (a.tokenizer == b.tokenizer) return true;
  if (!has_tokenizer_files(a) || !has_tokenizer_files(b)) return false;
  return open_tokenizer("data.tokenizer", a.tokenizer)->content_hash() ==
         open_tokenizer("data.tokenizer", b.tokenizer)->content_hash();
}

/// "byte", "other", or the path with the tokenizer's size and hash.
std::string shown_tokenizer(const TextDataConfig& data) {
  std::string name = data.tokenizer.string();
  if (!has_tokenizer_files(data)) return name;
  return name + " (" + moh::describe(*open_tokenizer("data.tokenizer", data.tokenizer)) + ")";
}

}  // namespace

void LanguageRun::add_model_fields(LlamaConfig& c, Section& s) {
  s.field("vocab_size", c.vocab_size, at_least(2, "tokens").capped(kMaxVocab),
          "Number of tokens in the vocabulary: rows of the embedding.")
      .differs_freely();
  s.field("layers", c.layers, at_least(1).capped(kMaxLayers),
          "Number of transformer blocks, of attention and MLP each.");
  s.field("hidden", c.hidden, at_least(1).capped(kMaxWidth), "Width of the residual stream.");
  s.field("intermediate", c.intermediate, at_least(1).capped(kMaxWidth), "Width inside the MLP.");
  s.field("heads", c.heads, at_least(1).capped(kMaxHeads), "Query heads per layer.").unseen_in_weights();
  s.field("kv_heads", c.kv_heads, at_least(0).capped(kMaxHeads),
          "Key and value heads, each shared by a group of query heads (GQA). 0: as many as `heads`.")
      .optional_with_weights();
  s.field("head_dim", c.head_dim, at_least(0).capped(kMaxWidth), "Width of a head. 0: `hidden` / `heads`.")
      .optional_with_weights();
  s.field("max_positions", c.max_positions, at_least(1, "tokens").capped(kMaxLength),
          "Maximum context length.")
      .differs_freely()
      .optional_with_weights();
  s.field("norm_eps", c.norm_eps, above(0), "Added to the mean square in RMSNorm.").unseen_in_weights();
  s.field("rope_theta", c.rope_theta, above(0), "Base of the wavelengths of the rotary embedding (RoPE).")
      .unseen_in_weights();
  s.field(
       "sliding_window", c.sliding_window, at_least(0, "tokens").capped(kMaxLength),
       "Tokens that a token attends to, itself and those before it (Mistral); one value, or a list with one "
       "for each layer (Qwen 2). 0: all.")
      .optional_with_weights();
  s.field("tied_embeddings", c.tied_embeddings, "Use the embedding matrix as output matrix, too.")
      .optional_with_weights();
  s.field("qkv_bias", c.qkv_bias, "The projections to queries, keys and values add a bias (Qwen 2).")
      .optional_with_weights();
  s.field("o_bias", c.o_bias, "The output projection of attention adds a bias.").optional_with_weights();
  s.field("mlp_bias", c.mlp_bias, "The projections of the MLP add biases.").optional_with_weights();
  s.field("qk_norm", c.qk_norm,
          "RMSNorm of the queries and keys of each head, before the rotary embedding (Qwen 3).")
      .optional_with_weights();
  config::add_attention_gate(c.attention_gate, s);
  s.field("dropout", c.dropout, from_below(0, 1),
          "Dropout probability of the outputs of the attention and MLP branches in training.")
      .differs_freely()
      .of_training()
      .optional_with_weights();
  s.field("init_std", c.init_std, above(0),
          "Standard deviation of the initial matrices; for the output projections of the blocks it is "
          "divided by sqrt(2 * `layers`).")
      .differs_freely()
      .of_training()
      .optional_with_weights();
  config::add_recompute(c.recompute, s);
  s.section(rope_scaling_section(c.rope_scaling));
  s.section(switch_head_section(c.switch_head));
  s.section(lora_section(c.lora));
  s.section(moh_section(c.moh));
}

void LanguageRun::describe(config::Section& root) {
  root.section(model_section(
      "The decoder: RMSNorm, rotary embedding, SwiGLU (LLaMA and its kin), with or without MoH."));
  root.section(data_section(data));
  root.section_named("init").field(
      "new_tokenizer", new_tokenizer,
      "Train with the tokens of `data.tokenizer` although those of the checkpoint have, or may have, other "
      "meanings: what the model learned about them is lost.");
  root.section_named("eval").field("max_tokens", evaluated.given,
                                   at_least(0, "tokens").capped(config::kMostEvaluated),
                                   "Evaluate on this many tokens of each held-out source: windows of "
                                   "`data.sequence_length` that are spread "
                                   "evenly over it, the same in every run. 0: on all. Not given: on 131072 "
                                   "during the training, and on all "
                                   "in `moh eval`.");
  root.section(sample_section(sample));
}

void LanguageRun::check(const RunConfig&, config::Rules& rules) const {
  ConfigFaults faults("model.");
  moh::check(model, faults);
  rules.refuse(faults);
  if (data.sequence_length > model.max_positions) {
    rules.refuse({"data.sequence_length", "model.max_positions"},
                 "at most model.max_positions (" + text(model.max_positions) + ")",
                 text(data.sequence_length));
  }
  check_sources("data.train", data.train, /*weighted=*/true, rules);
  check_sources("data.validation", data.validation, /*weighted=*/false, rules);
  config::check(evaluated, "eval.max_tokens", rules);
  for (const auto& [key, fault] : template_faults(data.text.records))
    rules.refuse({"data." + std::string(key)}, std::string(kTemplateForm), fault);
  if (data.reset_positions && !data.document_mask) {
    rules.refuse({"data.reset_positions", "data.document_mask"}, "false without data.document_mask", "true");
  }
  if (data.tokenizer == kByteTokenizer && model.vocab_size < kByteVocab) {
    rules.refuse({"model.vocab_size", "data.tokenizer"}, "at least 256, the tokens of data.tokenizer: byte",
                 text(model.vocab_size));
  }
}

EvaluationWork LanguageRun::evaluation_work() const {
  const bool own = !data.validation.empty();
  if (!own && data.validation_fraction == 0) return {};
  const auto sources = std::ssize(own ? data.validation : data.train);
  const std::optional<std::int64_t> most = evaluated.most_in_training(kUsualEvaluatedTokens);
  return {most ? std::optional(*most * sources) : std::nullopt};
}

void LanguageRun::require_data(config::Rules& rules) const {
  if (data.tokenizer == kOtherTokenizer) {
    rules.refuse({"data.tokenizer"},
                 "byte or the path of a tokenizer, as text is turned into tokens for training", "other");
  }
  if (data.train.empty()) {
    rules.refuse({"data.train"}, "text to train on", "no path", "name files or folders: data.train=text.txt");
  }
}

std::vector<std::string> LanguageRun::presets() const {
  return preset_names(llama_presets());
}

LlamaConfig LanguageRun::model_of_preset(std::string_view name) {
  return preset_config(llama_presets(), name);
}

LlamaConfig LanguageRun::normal_form(LlamaConfig c) {
  c = spelt_out(std::move(c));
  c.moh = spelt_out(c.moh, c.layers, {c.heads, c.kv_heads});
  return c;
}

std::vector<config::Difference> LanguageRun::disagreements(const FamilyConfig& checkpoint) const {
  std::vector<Difference> found = FamilyRun::disagreements(checkpoint);
  if (const std::int64_t least = language_run(checkpoint).model.vocab_size; model.vocab_size < least)
    found.push_back({"model.vocab_size", "at least " + text(least), text(model.vocab_size), ""});
  const TextDataConfig& theirs = language_run(checkpoint).data;
  if (new_tokenizer || same_tokens(theirs, data)) return found;
  if (theirs.tokenizer == kOtherTokenizer) {
    if (data.tokenizer == kByteTokenizer)
      found.push_back({"data.tokenizer", "the path of the model's tokenizer, which its folder lacks,", "byte",
                       "init.new_tokenizer: true trains the model on other tokens all the same"});
    return found;  // its tokens are what the user says
  }
  found.push_back({"data.tokenizer", shown_tokenizer(theirs), shown_tokenizer(data),
                   "init.new_tokenizer: true trains the model on other tokens all the same"});
  return found;
}

void LanguageRun::follow_files(FunctionRef<bool(std::string_view key)> is_given,
                               const FamilyConfig* checkpoint) {
  if (checkpoint != nullptr && !new_tokenizer && !is_given("data.tokenizer") &&
      has_tokenizer_files(language_run(*checkpoint).data))
    data.tokenizer = language_run(*checkpoint).data.tokenizer;
  const bool model_is_known = checkpoint != nullptr || preset != kNoPreset || is_given("model.vocab_size");
  if (!model_is_known && has_tokenizer_files(data))
    model.vocab_size = open_tokenizer("data.tokenizer", data.tokenizer)->vocab_size();
}

void LanguageRun::remember(std::span<const std::pair<std::string, std::string>> identity) {
  for (const auto& [name, value] : identity) {
    if (name == kTokenizerHash) trained_tokenizer = value;
  }
}

std::vector<config::Difference> LanguageRun::other_results(const FamilyConfig& other) const {
  const TextDataConfig& theirs = language_run(other).data;
  std::vector<Difference> found = FamilyRun::other_results(other);
  if (!same_tokens(theirs, data))
    found.push_back({"data.tokenizer", shown_tokenizer(theirs), shown_tokenizer(data), ""});
  return found;
}

const char* likely_tokenizer(std::int64_t vocab_size) {
  return vocab_size == kByteVocab ? kByteTokenizer : kOtherTokenizer;
}

bool has_tokenizer_files(const TextDataConfig& data) {
  return data.tokenizer != kByteTokenizer && data.tokenizer != kOtherTokenizer;
}

const LanguageRun& language_run(const FamilyConfig& family) {
  return LanguageRun::of(family);
}

const LanguageRun& language_run(const RunConfig& run) {
  return language_run(*run.family);
}

LanguageRun& language_run(RunConfig& run) {
  return const_cast<LanguageRun&>(language_run(std::as_const(run)));
}

}  // namespace moh
