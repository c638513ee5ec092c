#include "train/families/translation/seq2seq_config.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <span>
#include <utility>
#include <vector>

#include "core/error.h"
#include "train/base/io/printable.h"
#include "train/config/fields.h"
#include "train/weights/hf/config_json.h"

namespace moh {

namespace {

using config::kMaxHeads;
using config::kMaxLayers;
using config::kMaxLength;
using config::kMaxVocab;
using config::kMaxWidth;

constexpr std::string_view kMarian = "marian", kFsmt = "fsmt";

/// Why models of these types compute something else.
constexpr std::pair<std::string_view, std::string_view> kUnlike[] = {
    {"bart", "its embeddings are normalised and its positions learned in tables of its own form"},
    {"m2m_100", "its norms come first and its languages are tokens"},
    {"mbart", "its norms come first and its languages are tokens"},
    {"pegasus", "it has norms of its own at the ends"},
    {"t5", "its positions are biases of the scores, its norms RMSNorm"},
};

/// The value of two keys that moh has one of: for encoder and decoder.
std::int64_t both(const ConfigJson& json, std::string_view encoder, std::string_view decoder, double most) {
  const std::int64_t value = json.integer(encoder, 1, most), other = json.integer(decoder, 1, most);
  if (value != other)
    json.unsupported(decoder, std::string(encoder) + " (" + std::to_string(value) + ")",
                     std::to_string(other));
  return value;
}

Activation activation_of(const ConfigJson& json, std::string otherwise) {
  constexpr std::pair<std::string_view, Activation> kNames[] = {{"relu", Activation::kRelu},
                                                                {"gelu", Activation::kGelu},
                                                                {"silu", Activation::kSilu},
                                                                {"swish", Activation::kSilu}};
  const std::string text = json.text_or("activation_function", std::move(otherwise));
  const auto found = std::ranges::find(kNames, text, [](const auto& each) { return each.first; });
  if (found == std::ranges::end(kNames))
    json.unsupported("activation_function", "relu, gelu, silu or swish", printable(text));
  return found->second;
}

double probability(const ConfigJson& json, std::string_view key, double otherwise) {
  const double value = json.number_or(key, otherwise);
  if (!(value >= 0 && value < 1)) json.damaged(key, "0 or more, below 1", json.shown(key));
  return value;
}

/// The sizes, which both types have under the same keys.
TranslationConfig read_sizes(const ConfigJson& json) {
  TranslationConfig c;
  c.encoder_layers = json.integer("encoder_layers", 1, kMaxLayers);
  c.decoder_layers = json.integer("decoder_layers", 1, kMaxLayers);
  c.hidden = json.integer("d_model", 1, kMaxWidth);
  c.intermediate = both(json, "encoder_ffn_dim", "decoder_ffn_dim", kMaxWidth);
  c.heads = both(json, "encoder_attention_heads", "decoder_attention_heads", kMaxHeads);
  if (json.has("max_position_embeddings"))
    c.max_positions = json.integer("max_position_embeddings", 1, kMaxLength);
  c.dropout = probability(json, "dropout", 0.1);
  c.attention_dropout = probability(json, "attention_dropout", 0);
  c.activation_dropout = probability(json, "activation_dropout", 0);
  return c;
}

TranslationConfig read_marian(const ConfigJson& json) {
  TranslationConfig c = read_sizes(json);
  c.vocab_size = json.integer("vocab_size", 2, kMaxVocab);
  if (!json.truth_or("share_encoder_decoder_embeddings", true)) {
    c.source_vocab_size = c.vocab_size;
    if (json.has("decoder_vocab_size")) c.vocab_size = json.integer("decoder_vocab_size", 2, kMaxVocab);
    c.shared_embeddings = SharedEmbeddings::kDecoder;
  }
  if (!json.truth_or("tie_word_embeddings", true))
    json.unsupported("tie_word_embeddings", "true", "false", "the output matrix of Marian is an embedding");
  c.activation = activation_of(json, "gelu");
  c.scale_embedding = json.truth_or("scale_embedding", false);
  c.sinusoids = SinusoidKind::kMarian;
  c.output_bias = true;
  return c;
}

TranslationConfig read_fsmt(const ConfigJson& json) {
  TranslationConfig c = read_sizes(json);
  c.vocab_size = json.integer("tgt_vocab_size", 2, kMaxVocab);
  c.source_vocab_size = json.integer("src_vocab_size", 2, kMaxVocab);
  const bool one_table = json.truth_or("tie_word_embeddings", false);
  c.shared_embeddings = one_table ? SharedEmbeddings::kAll : SharedEmbeddings::kDecoder;
  c.activation = activation_of(json, "relu");
  c.scale_embedding = json.truth_or("scale_embedding", true);
  const std::int64_t pad = json.has("pad_token_id") ? json.integer("pad_token_id", 0, kMaxVocab) : 1;
  c.position_offset = pad + 1;  // fairseq counts from the place of padding
  return c;
}

TranslationConfig read_model(const ConfigJson& json) {
  const std::string type = json.text("model_type");
  if (type == kMarian) return read_marian(json);
  if (type == kFsmt) return read_fsmt(json);
  const auto other = std::ranges::find(kUnlike, type, [](const auto& each) { return each.first; });
  json.unsupported("model_type", "marian or fsmt", printable(type),
                   other == std::ranges::end(kUnlike) ? "" : other->second);
}

void require_supported(const TranslationConfig& model, const std::filesystem::path& described_by) {
  ConfigFaults faults;
  check(model, faults);
  try {
    faults.throw_first("translation");
  } catch (const ValueError& error) {
    throw ConfigError(described_by.string() + ": " + error.what());
  }
}

/// A property of a model that MarianMTModel does not have.
struct Obstacle {
  bool is_there;
  std::string_view key, expected, found;
};

void require_marian(std::string_view where, const TranslationConfig& c) {
  const std::int64_t head_dim = spelt_out(c).head_dim;
  const Obstacle obstacles[] = {
      {c.moh.router->routes(), "model.moh.router", "none", c.moh.router->name},
      {spelt_out(c).kv_heads != c.heads, "model.kv_heads", "as many as model.heads", "others"},
      {head_dim * c.heads != c.hidden, "model.head_dim", "model.hidden / model.heads", "another"},
      {c.attention_gate != AttentionGate::kNone, "model.attention_gate", "none", "a gate"},
      {!c.attention_bias, "model.attention_bias", "true", "false"},
      {c.norm != NormPlace::kAfter, "model.norm", "after", "before"},
      {c.norm_eps != TranslationConfig().norm_eps, "model.norm_eps", "1e-5", "another"},
      {c.embedding_norm, "model.embedding_norm", "false", "true"},
      {c.positions != PositionKind::kSinusoidal, "model.positions", "sinusoidal", "learned"},
      {c.sinusoids != SinusoidKind::kMarian, "model.sinusoids", "marian", "fairseq"},
      {c.position_offset != 0, "model.position_offset", "0", "another"},
      {c.shared_embeddings == SharedEmbeddings::kNone, "model.shared_embeddings", "all or decoder", "none"},
      {!c.output_bias, "model.output_bias", "true", "false"}};
  for (const Obstacle& obstacle : obstacles) {
    if (!obstacle.is_there) continue;
    throw ConfigError(error_message(where, "format hf: " + std::string(obstacle.key),
                                    std::string(obstacle.expected) + " in a MarianMTModel of transformers",
                                    obstacle.found, "convert to safetensors: names are those of fairseq"));
  }
}

std::string_view name_of(Activation activation) {
  constexpr std::string_view kNames[] = {"relu", "gelu", "silu"};
  return kNames[static_cast<std::size_t>(activation)];
}

}  // namespace

bool is_translation_model_type(std::string_view type) {
  return type == kMarian || type == kFsmt ||
         std::ranges::any_of(kUnlike, [&](const auto& each) { return each.first == type; });
}

TranslationRun read_seq2seq_config(const std::filesystem::path& config_json) {
  const ConfigJson json(config_json);
  TranslationRun run;
  run.model = read_model(json);
  require_supported(run.model, config_json);
  if (json.has("decoder_start_token_id"))
    run.data.decoder_start =
        json.integer("decoder_start_token_id", 0, static_cast<double>(run.model.vocab_size - 1));
  return run;
}

std::optional<Seq2SeqTokens> read_seq2seq_tokens(const std::filesystem::path& path) {
  const ConfigJson json(path);
  for (const char* key : {"eos_token_id", "decoder_start_token_id", "pad_token_id"}) {
    if (!json.has(key) || json.is_list(key)) return std::nullopt;
  }
  const auto id = [&](std::string_view key) { return json.integer(key, 0, kMaxVocab); };
  return Seq2SeqTokens{id("eos_token_id"), id("decoder_start_token_id"), id("pad_token_id")};
}

std::string marian_config(std::string_view where, const TranslationConfig& c, const Seq2SeqTokens& tokens,
                          std::string_view dtype) {
  require_marian(where, c);
  const bool one_table = c.shared_embeddings == SharedEmbeddings::kAll;
  nlohmann::ordered_json json = {{"architectures", {"MarianMTModel"}},
                                 {"model_type", kMarian},
                                 {"is_encoder_decoder", true},
                                 {"vocab_size", spelt_out(c).source_vocab_size},
                                 {"decoder_vocab_size", c.vocab_size},
                                 {"share_encoder_decoder_embeddings", one_table},
                                 {"tie_word_embeddings", true},
                                 {"d_model", c.hidden},
                                 {"num_hidden_layers", c.encoder_layers},
                                 {"max_position_embeddings", c.max_positions},
                                 {"activation_function", name_of(c.activation)},
                                 {"scale_embedding", c.scale_embedding},
                                 {"dropout", c.dropout},
                                 {"attention_dropout", c.attention_dropout},
                                 {"activation_dropout", c.activation_dropout}};
  for (const std::string side : {"encoder", "decoder"}) {
    json[side + "_layers"] = side == "encoder" ? c.encoder_layers : c.decoder_layers;
    json[side + "_ffn_dim"] = c.intermediate;
    json[side + "_attention_heads"] = c.heads;
  }
  json["eos_token_id"] = json["forced_eos_token_id"] = tokens.end;
  json["decoder_start_token_id"] = tokens.decoder_start;
  json["pad_token_id"] = tokens.pad;
  json["dtype"] = json["torch_dtype"] = dtype;
  return json.dump(2) + "\n";
}

}  // namespace moh
