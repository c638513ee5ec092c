#include "train/families/language/language_family.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>

#include "core/error.h"
#include "models/llm/llama.h"
#include "train/base/log/format.h"
#include "train/base/log/logging.h"
#include "train/families/language/analyze/text_analysis.h"
#include "train/families/language/hf/hf_config.h"
#include "train/families/language/hf/hf_export.h"
#include "train/families/language/hf/hf_tokenizer.h"
#include "train/families/language/hf/peft_export.h"
#include "train/families/language/language_data.h"
#include "train/families/language/language_run.h"
#include "train/families/language/language_task.h"
#include "train/tokenizers/open_tokenizer.h"
#include "train/trainer/config/enum_names.h"
#include "train/trainer/config/gate_text.h"
#include "train/trainer/task/stored_precision.h"
#include "train/weights/hf/config_json.h"
#include "train/weights/load_weights.h"
#include "train/weights/meta_weights.h"
#include "train/weights/weight_writer.h"

namespace moh {

namespace {

constexpr std::array<std::string_view, 5> kNamedModelTypes = {"llama", "mistral", "qwen2", "qwen3",
                                                              "moh_llama"};
constexpr std::string_view kEmbedding = "model.embed_tokens.weight", kOutputMatrix = "lm_head.weight";

constexpr const char* kTokenizerFiles[] = {"tokenizer.json", "tokenizer.model", "tokenizer.tiktoken",
                                           "vocab.json"};

/// The tokens that begin and end texts of a tokenizer.
HfTokenIds token_ids_of(const Tokenizer& tokenizer) {
  HfTokenIds ids;
  if (!tokenizer.sequence_start().empty()) ids.bos = tokenizer.sequence_start().front();
  if (tokenizer.end_of_document()) ids.eos = {*tokenizer.end_of_document()};
  return ids;
}

/// As a config.json says, or a file that a checkpoint carries.
HfTokenIds token_ids_of(const ModelLocation& source, const Companions& beside) {
  if (source.is_hf()) return read_hf_token_ids(source.config);
  if (const auto found = beside.find(kGenerationConfig); found != beside.end())
    return read_hf_token_ids(found->second);
  const std::filesystem::path tokenizer = tokenizer_file_in(source.weights);
  return tokenizer.empty() ? HfTokenIds() : token_ids_of(*open_tokenizer("tokenizer", tokenizer));
}

/// The tokens that end a text where the model came from elsewhere. As in transformers, what
/// generation_config.json says goes before config.json.
std::vector<TokenId> ends_of(const ModelLocation& source) {
  const Companions beside = companions(source);
  const auto generation = beside.find(kGenerationConfig);
  HfTokenIds ids;
  if (generation != beside.end()) ids = read_hf_token_ids(generation->second);
  if (ids.eos.empty() && source.is_hf()) ids = read_hf_token_ids(source.config);
  std::vector<TokenId> ends;
  for (const std::int64_t id : ids.eos) ends.push_back(static_cast<TokenId>(id));
  return ends;
}

/// Warns where the ids of config.json and generation_config.json are not those of the tokenizer's bos_token
/// and eos_token: in published folders they differ, and what counts here should be known.
void compare_token_ids(const ModelLocation& source, const Tokenizer& tokenizer) {
  if (!source.is_hf() || tokenizer.files().empty()) return;  // bytes have no roles
  const Companions beside = companions(source);
  HfTokenIds ids = read_hf_token_ids(source.config);
  if (const auto generation = beside.find(kGenerationConfig); generation != beside.end())
    std::ranges::move(read_hf_token_ids(generation->second).eos, std::back_inserter(ids.eos));
  const auto warn = [&](std::string_view key, TokenId expected, std::int64_t found,
                        std::string_view what_counts) {
    log_warning(error_message(source.config.string(), key,
                              std::to_string(expected) + ", the id that the tokenizer has for this token",
                              std::to_string(found), what_counts));
  };
  const std::optional<TokenId> begin = tokenizer.beginning(), end = tokenizer.end_of_document();
  if (begin && ids.bos && *ids.bos != *begin)
    warn("bos_token_id", *begin, *ids.bos, "the tokenizer's counts");
  if (end && !ids.eos.empty() && std::ranges::find(ids.eos, *end) == ids.eos.end())
    warn("eos_token_id", *end, ids.eos.front(), "a text ends at either");
}

/// Whether the tokens of a model that brings no tokenizer are bytes, as those of a run are. One from
/// elsewhere counts as such where there are 256 of them.
bool knows_bytes(const LanguageRun& run, const ModelLocation& source, const Companions& beside) {
  const bool from_elsewhere = source.is_hf() || beside.contains(kGenerationConfig);
  return run.data.tokenizer == kByteTokenizer && (!from_elsewhere || run.model.vocab_size == 256);
}

/// data.tokenizer of a model with a config.json: the tokenizer beside it, if there is one.
std::filesystem::path tokenizer_beside(const std::filesystem::path& config_json, std::int64_t vocab_size) {
  const std::filesystem::path file = tokenizer_file_in(config_json.parent_path());
  if (file.empty()) return likely_tokenizer(vocab_size);
  if (is_byte_tokenizer(file)) return kByteTokenizer;
  return std::filesystem::absolute(file).lexically_normal();
}

/// The model of a folder as Meta published it.
LlamaConfig read_meta_folder(const std::filesystem::path& params_json) {
  const auto weights = open_meta_weights(params_json.parent_path() / "consolidated.00.pth");
  const WeightInfo* const embedding = weights->find(kEmbedding);
  if (embedding == nullptr || embedding->shape.rank() != 2)
    throw CheckpointError(
        error_message(weights->path().string(), "tok_embeddings.weight", "a matrix", "none"));
  LlamaConfig model = read_meta_params(params_json, embedding->shape[0]);
  model.tied_embeddings = weights->find(kOutputMatrix) == nullptr;
  return model;
}

std::string routing_text(const LlamaConfig& c) {
  const std::string gates = gate_text(c.attention_gate);
  if (c.switch_head.used())
    return "dense, " + std::to_string(c.switch_head.top_k) + " of " + std::to_string(c.switch_head.experts) +
           " experts for values and outputs" + gates;
  if (!c.moh.router->routes()) return "dense" + gates;
  return "MoH with " + format_fixed(100 * activated_heads(routing_of(c)), 1) + "% of the heads" + gates;
}

/// LLaMA models as Hugging Face's transformers names them, and MoH-LLaMA as the released code does.
class LanguageWeightNames final : public WeightNames {
 public:
  std::span<const std::string_view> model_types() const override { return kNamedModelTypes; }

  bool recognises(const ConfigJson& json) const override {
    if (!json.has("model_type")) return json.has("n_heads") && json.has("n_layers");  // Meta's params.json
    return is_language_model_type(json.text("model_type"));
  }

  std::unique_ptr<FamilyConfig> read_config(const std::filesystem::path& config_json) const override {
    auto run = std::make_unique<LanguageRun>();
    run->model =
        config_json.filename() == kMetaConfig ? read_meta_folder(config_json) : read_hf_config(config_json);
    run->data.tokenizer = tokenizer_beside(config_json, run->model.vocab_size);
    // So that a run with this model and default data is valid.
    run->data.sequence_length = std::min(run->data.sequence_length, run->model.max_positions);
    return run;
  }

  std::unique_ptr<FamilyConfig> config_of(const WeightFile& weights, const FamilyConfig& run) const override {
    auto config = std::make_unique<LanguageRun>(language_run(run));
    const WeightInfo* embedding = weights.find(kEmbedding);
    if (embedding != nullptr && embedding->shape.rank() == 2)
      if (!has_tokenizer_files(config->data)) config->data.tokenizer = likely_tokenizer(embedding->shape[0]);
    return config;
  }

  void write_files(const std::filesystem::path& folder, const FamilyConfig& config,
                   const ModelLocation& source, std::span<const WeightInfo> tensors) const override {
    const LanguageRun& run = language_run(config);
    const Companions beside = companions(source);
    const bool has_tokenizer =
        std::ranges::any_of(kTokenizerFiles, [&](const char* name) { return beside.contains(name); });
    const bool is_of_bytes = !has_tokenizer && knows_bytes(run, source, beside);
    const HfTokenIds ids = is_of_bytes ? byte_token_ids() : token_ids_of(source, beside);
    LlamaConfig model = run.model;
    model.moh.router_precision = router_precision_of(tensors);
    write_hf_model_files(folder, model, torch_dtype_name(source, tensors), ids);
    if (is_of_bytes) {
      write_byte_tokenizer(folder, run.model.max_positions);
    } else if (!has_tokenizer) {
      log_warning("convert: no tokenizer lies beside " + source.weights.string() +
                  ": copy that of the model's tokens (tokenizer.json and its like) into the new folder");
    }
    if (!beside.contains(kGenerationConfig)) write_generation_config(folder, ids);
    copy_companions(beside, folder);
    if (!source.is_hf() && has_tokenizer) complete_tokenizer(folder, ids, run.model.max_positions);
  }

  std::optional<std::string> adapter_name(std::string_view parameter,
                                          const FamilyConfig& config) const override {
    return peft_name(parameter, language_run(config).model);
  }
  void write_adapter_files(const std::filesystem::path& folder, const FamilyConfig& config,
                           std::string_view base, const ModelLocation& source,
                           std::span<const WeightInfo> tensors) const override {
    LlamaConfig model = spelt_out(language_run(config).model);
    model.moh.router_precision = router_precision_of(tensors);
    write_peft_files(folder, model, base, torch_dtype_name(source, tensors));
  }

  std::vector<std::string> settings_in(const std::filesystem::path& folder) const override {
    const std::filesystem::path file = tokenizer_file_in(folder);
    if (file.empty() || is_byte_tokenizer(file)) return {};
    return {"data.tokenizer=" + std::filesystem::absolute(file).lexically_normal().string()};
  }

  std::vector<std::pair<std::string, std::string>> carried_files(const ModelLocation& source) const override {
    const Companions beside = companions(source);
    auto files = read_carried(beside);
    if (source.is_hf() && !beside.contains(kGenerationConfig))
      files.emplace_back(kGenerationConfig, generation_config_text(token_ids_of(source, beside)));
    return files;
  }

  /// A tied model may be saved under either name (safetensors' save_model keeps one of them).
  std::vector<std::string> other_names(std::string_view parameter) const override {
    if (parameter != kEmbedding) return {};
    return {std::string(kOutputMatrix)};
  }

  /// Tables of rotary frequencies, which are computed, and an output matrix that equals the tied embedding.
  bool is_redundant(const WeightFile& weights, const WeightInfo& tensor) const override {
    if (tensor.name.ends_with(".rotary_emb.inv_freq")) return true;
    if (tensor.name != kOutputMatrix) return false;
    const WeightInfo* embedding = weights.find(kEmbedding);
    return embedding != nullptr && same_elements(weights, tensor, *embedding);
  }

  bool rows_may_grow(std::string_view parameter) const override {
    return parameter == kEmbedding || parameter == kOutputMatrix;
  }

  std::string describe(const FamilyConfig& config) const override {
    const LlamaConfig c = spelt_out(language_run(config).model);
    std::string text = "LLaMA, " + std::to_string(c.layers) + " layers of width " + std::to_string(c.hidden) +
                       ", " + std::to_string(c.heads) + " heads of " + std::to_string(c.head_dim);
    if (c.kv_heads != c.heads) text += " (" + std::to_string(c.kv_heads) + " KV heads)";
    text += ", vocabulary " + std::to_string(c.vocab_size);
    if (c.tied_embeddings) text += ", tied embeddings";
    for (const auto& [is_there, part] :
         {std::pair{c.qkv_bias, "q, k, v"}, {c.o_bias, "o"}, {c.mlp_bias, "MLP"}})
      if (is_there) text += std::string(", biases of ") + part;
    if (c.qk_norm) text += ", normalised queries and keys";
    if (c.sliding_window != PerLayer()) text += ", sliding windows";
    if (c.lora.used()) text += ", adapters of rank " + std::to_string(c.lora.rank);
    return text + ", " + routing_text(c);
  }
};

class LanguageFamily final : public Family {
 public:
  const FamilyConfig& defaults() const override { return defaults_; }
  const WeightNames& weight_names() const override { return names_; }

  std::shared_ptr<const TaskData> open_data(const RunConfig& run, DataUse use) const override {
    return open_language_data(run, use);
  }
  std::unique_ptr<Model> make_model(const FamilyConfig& config, Placement placement) const override {
    return std::make_unique<Llama>(language_run(config).model, placement);
  }
  std::unique_ptr<Task> make_task(const RunConfig& run, std::shared_ptr<const TaskData> data,
                                  std::unique_ptr<Model> model) const override {
    return std::make_unique<LanguageTask>(run, std::static_pointer_cast<const LanguageData>(std::move(data)),
                                          std::unique_ptr<Llama>(static_cast<Llama*>(model.release())));
  }
  std::unique_ptr<Calibration> make_calibration(const RunConfig& run,
                                                std::shared_ptr<const TaskData> data) const override {
    const auto text = std::static_pointer_cast<const LanguageData>(std::move(data));
    return std::make_unique<LanguageCalibration>(text->train, *text->tokenizer, run);
  }
  AnalysisInputs analysis_inputs(const RunConfig& run, const Model& model,
                                 std::span<const AnalyzedFiles> files,
                                 const AnalyzeOptions& options) const override {
    return analysis_of_files(run, static_cast<const Llama&>(model), files, options);
  }

 private:
  LanguageRun defaults_;
  LanguageWeightNames names_;
};

}  // namespace

const Family& language_family() {
  static const LanguageFamily family;
  return family;
}

LanguageModel as_language_model(const LoadedModel& loaded, std::string_view command) {
  const auto* model = dynamic_cast<const Llama*>(loaded.model.get());
  if (model == nullptr) {
    throw ConfigError(
        error_message(command, "", "a language model", "task: " + std::string(loaded.config.family->task())));
  }
  const LanguageRun& run = language_run(loaded.config);
  LanguageModel language{*model, tokenizer_of(run), {}, run.data.text.records.message};
  const ModelLocation source = locate_model(loaded.path);
  compare_token_ids(source, *language.tokenizer);
  language.ends = ends_of(source);
  return language;
}

}  // namespace moh
