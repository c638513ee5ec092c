#include "train/families/translation/translation_weight_names.h"

#include <algorithm>
#include <array>
#include <string>
#include <utility>

#include "models/model.h"
#include "train/base/io/durable_file.h"
#include "train/base/log/format.h"
#include "train/families/language/language_run.h"
#include "train/families/translation/seq2seq_config.h"
#include "train/families/translation/translation_run.h"
#include "train/families/translation/translation_tensors.h"
#include "train/tokenizers/open_tokenizer.h"
#include "train/trainer/config/gate_text.h"
#include "train/trainer/config/within_bounds.h"
#include "train/weights/hf/config_json.h"
#include "train/weights/load_weights.h"
#include "train/weights/weight_writer.h"

namespace moh {

namespace {

constexpr std::array<std::string_view, 2> kModelTypes = {"marian", "fsmt"};

std::string with_prefix(std::string_view name) {
  return std::string(kModelPrefix) + std::string(name);
}

std::string routing_text(const TranslationConfig& c) {
  const std::string gates = gate_text(c.attention_gate);
  if (!c.moh.router->routes()) return "dense" + gates;
  return "MoH with " + format_fixed(100 * activated_heads(routing_of(c)), 1) + "% of the heads" + gates;
}

/// As the model's files say, or its tokenizer and data.decoder_start.
Seq2SeqTokens tokens_of(const TranslationRun& run, const ModelLocation& source, const Companions& beside) {
  const auto generation = beside.find(kGenerationConfig);
  std::optional<Seq2SeqTokens> found;
  if (source.is_hf()) found = read_seq2seq_tokens(source.config);
  if (!found && generation != beside.end()) found = read_seq2seq_tokens(generation->second);
  if (found) return *found;
  const SentenceMarks marks = sentence_marks(run, *tokenizers_of(run).source);
  return {marks.end, marks.decoder_start, marks.decoder_start};
}

/// The tensor of a parameter, under its name or after "model."; null if there is none.
const WeightInfo* find_parameter(const WeightFile& weights, std::string_view name) {
  const WeightInfo* found = weights.find(name);
  return found != nullptr ? found : weights.find(with_prefix(name));
}

/// The embedding of which a further matrix of a vocabulary may be a copy; null for other tensors.
const WeightInfo* original_of(const WeightFile& weights, std::string_view name) {
  const WeightInfo* source = find_parameter(weights, kSourceTable);
  if (name == "shared.weight" || name == kSourceTable || name == kTargetTable) return source;
  if (name != kOutputMatrix && name != "lm_head.weight" && name != "decoder.embed_out") return nullptr;
  const WeightInfo* target = find_parameter(weights, kTargetTable);
  return target != nullptr ? target : source;
}

}  // namespace

std::span<const std::string_view> TranslationWeightNames::model_types() const {
  return kModelTypes;
}

bool TranslationWeightNames::recognises(const ConfigJson& json) const {
  return json.has("model_type") && is_translation_model_type(json.text("model_type"));
}

std::unique_ptr<FamilyConfig> TranslationWeightNames::read_config(
    const std::filesystem::path& config_json) const {
  auto run = std::make_unique<TranslationRun>(read_seq2seq_config(config_json));
  const std::filesystem::path tokenizer = tokenizer_file_in(config_json.parent_path());
  run->data.tokenizer = kOtherTokenizer;
  if (!tokenizer.empty()) run->data.tokenizer = std::filesystem::absolute(tokenizer).lexically_normal();
  // So that a run with this model and default data is valid.
  run->data.max_length = std::min(run->data.max_length, run->model.max_positions);
  return run;
}

std::unique_ptr<FamilyConfig> TranslationWeightNames::model_in(const WeightFile& weights,
                                                               std::vector<std::string>& untold) const {
  TranslationInTensors found = translation_in(weights);
  if (found.model.hidden == 0) return nullptr;
  auto run = std::make_unique<TranslationRun>();
  run->model = std::move(found.model);
  run->data.tokenizer = kOtherTokenizer;
  if (!config::within_bounds(*run)) return nullptr;
  untold = std::move(found.untold);
  return run;
}

void TranslationWeightNames::write_files(const std::filesystem::path& folder, const FamilyConfig& config,
                                         const ModelLocation& source,
                                         std::span<const WeightInfo> tensors) const {
  const TranslationRun& run = translation_run(config);
  const Companions beside = companions(source);
  const Seq2SeqTokens tokens = tokens_of(run, source, beside);
  const std::string text =
      marian_config(folder.string(), run.model, tokens, torch_dtype_name(source, tensors));
  write_file_durably(folder / "config.json", text);
  copy_companions(beside, folder);
}

std::string TranslationWeightNames::exported_name(std::string_view parameter,
                                                  const FamilyConfig& config) const {
  if (parameter == "final_logits_bias") return std::string(parameter);
  const bool one_table = translation_run(config).model.shared_embeddings == SharedEmbeddings::kAll;
  return with_prefix(parameter == kSourceTable && one_table ? "shared.weight" : parameter);
}

std::vector<std::string> TranslationWeightNames::settings_in(const std::filesystem::path& folder) const {
  const std::filesystem::path file = tokenizer_file_in(folder);
  if (file.empty()) return {};
  return {"data.tokenizer=" + std::filesystem::absolute(file).lexically_normal().string()};
}

std::vector<std::string> TranslationWeightNames::other_names(std::string_view parameter) const {
  std::vector<std::string> names = {with_prefix(parameter)};
  const auto add = [&](std::string_view name) {
    names.insert(names.end(), {std::string(name), with_prefix(name)});
  };
  if (parameter == kSourceTable) {
    add("shared.weight");
    add(kTargetTable);
  } else if (parameter == kTargetTable) {
    add(kOutputMatrix);
    names.emplace_back("lm_head.weight");
  } else if (parameter == kOutputMatrix) {
    names.insert(names.end(), {"lm_head.weight", "decoder.embed_out"});
  }
  return names;
}

bool TranslationWeightNames::is_redundant(const WeightFile& weights, const WeightInfo& tensor) const {
  std::string_view name = tensor.name;
  if (name.starts_with(kModelPrefix)) name.remove_prefix(kModelPrefix.size());
  if (name.ends_with("coder.version") || name.ends_with(".embed_positions._float_tensor")) return true;
  if (name.ends_with("coder.embed_positions.weight")) return sinusoids_in(weights, tensor).has_value();
  const WeightInfo* original = original_of(weights, name);
  return original != nullptr && original != &tensor && same_elements(weights, tensor, *original);
}

bool TranslationWeightNames::rows_may_grow(std::string_view parameter) const {
  return parameter == kSourceTable || parameter == kTargetTable || parameter == kOutputMatrix;
}

std::string TranslationWeightNames::describe(const FamilyConfig& config) const {
  const TranslationConfig c = spelt_out(translation_run(config).model);
  std::string text = "transformer, " + std::to_string(c.encoder_layers) + " + " +
                     std::to_string(c.decoder_layers) + " layers of width " + std::to_string(c.hidden) +
                     ", " + std::to_string(c.heads) + " heads of " + std::to_string(c.head_dim);
  if (c.kv_heads != c.heads) text += " (" + std::to_string(c.kv_heads) + " KV heads)";
  text += ", vocabulary " + std::to_string(c.vocab_size);
  if (c.source_vocab_size != c.vocab_size) text += " (source " + std::to_string(c.source_vocab_size) + ")";
  return text + ", " + routing_text(c);
}

}  // namespace moh
