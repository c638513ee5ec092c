#include "train/families/language/hf/hf_config.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <filesystem>

#include "core/error.h"
#include "core/random.h"
#include "models/find_preset.h"
#include "models/llm/llama_presets.h"
#include "tests/support/message_of.h"
#include "tests/support/temporary_folder.h"

namespace moh {
namespace {

using Catch::Contains;

/// LLaMA 2 7B, as transformers 4.31 wrote it, without the keys in `left_out`, with those of `more` before.
std::string llama2(const std::string& more = "") {
  return "{" + more + R"("architectures": ["LlamaForCausalLM"], "bos_token_id": 1, "eos_token_id": 2,
    "hidden_act": "silu", "hidden_size": 4096, "initializer_range": 0.02, "intermediate_size": 11008,
    "model_type": "llama", "num_attention_heads": 32, "num_hidden_layers": 32, "pretraining_tp": 2,
    "rms_norm_eps": 1e-05, "tie_word_embeddings": false, "torch_dtype": "float16", "use_cache": true,
    "vocab_size": 32000})";
}

LlamaConfig read_llama(const std::string& text) {
  const TemporaryFolder folder;
  return read_hf_config(write_file(folder / "config.json", text));
}

template <class E>
std::string refused_llama(const std::string& text) {
  const TemporaryFolder folder;
  const std::string path = write_file(folder / "config.json", text);
  const std::string message = message_of<E>([&] { read_hf_config(path); });
  REQUIRE(message.starts_with(path + ": "));
  return message.substr(path.size() + 2);
}

/// The message about a LLaMA 2 with this text added.
std::string unsupported(const std::string& more) {
  return refused_llama<ConfigError>(llama2(more));
}
std::string damaged(const std::string& more) {
  return refused_llama<CheckpointError>(llama2(more));
}

LlamaConfig llama2_7b() {
  LlamaConfig model;
  model.vocab_size = 32000;
  model.layers = 32;
  model.hidden = 4096;
  model.intermediate = 11008;
  model.heads = 32;
  model.kv_heads = 32;
  model.head_dim = 128;
  model.max_positions = 2048;
  return model;
}

LlamaConfig preset(std::string_view name) {
  return find_preset(llama_presets(), name)->config;
}

}  // namespace

TEST_CASE("hf config: LLaMA 1, before many of today's keys") {
  LlamaConfig expected = llama2_7b();
  expected.norm_eps = 1e-6;
  const std::string text =
      R"({"architectures": ["LLaMAForCausalLM"], "bos_token_id": 0, "eos_token_id": 1, "hidden_act": "silu",
          "hidden_size": 4096, "intermediate_size": 11008, "initializer_range": 0.02,
          "max_sequence_length": 2048, "model_type": "llama", "num_attention_heads": 32,
          "num_hidden_layers": 32, "pad_token_id": -1, "rms_norm_eps": 1e-06, "torch_dtype": "float16",
          "transformers_version": "4.27.0.dev0", "use_cache": true, "vocab_size": 32000})";
  CHECK(read_llama(text) == expected);
  const TemporaryFolder folder;
  CHECK(read_hf_token_ids(write_file(folder / "config.json", text)) == HfTokenIds{0, {}, {1}});
}

TEST_CASE("hf config: LLaMA 2, and what absent keys mean to transformers") {
  CHECK(read_llama(llama2()) == llama2_7b());
  LlamaConfig expected = llama2_7b();
  expected.norm_eps = 1e-6;
  expected.tied_embeddings = true;
  expected.head_dim = 96;
  expected.init_std = 0.5;
  expected.max_positions = 4096;
  CHECK(read_llama(R"({"hidden_size": 4096, "intermediate_size": 11008, "model_type": "llama", "head_dim": 96,
                 "num_attention_heads": 32, "num_hidden_layers": 32, "vocab_size": 32000, "mlp_bias": false,
                 "tie_word_embeddings": true, "max_position_embeddings": 4096, "initializer_range": 0.5,
                 "rope_scaling": null, "num_key_value_heads": null, "sliding_window": null})") == expected);
}

TEST_CASE("hf config: LLaMA 3, in the words of transformers 4 and 5") {
  const std::string sizes =
      R"({"architectures": ["LlamaForCausalLM"], "attention_bias": false, "attention_dropout": 0.0,
          "bos_token_id": 128000, "eos_token_id": [128001, 128008], "hidden_act": "silu", "hidden_size": 4096,
          "initializer_range": 0.02, "intermediate_size": 14336, "model_type": "llama",
          "num_attention_heads": 32, "num_hidden_layers": 32, "num_key_value_heads": 8, "pretraining_tp": 1,
          "rms_norm_eps": 1e-05, "tie_word_embeddings": false, "use_cache": true, "vocab_size": 128256, )";
  const LlamaConfig three = preset("llama3_8b");
  CHECK(read_llama(sizes +
                   R"("max_position_embeddings": 8192, "rope_scaling": null, "rope_theta": 500000.0})") ==
        three);
  const std::string five = R"("rope_parameters": {"rope_theta": 500000.0, "rope_type": "default"})";
  CHECK(read_llama(sizes + R"("max_position_embeddings": 8192, )" + five + "}") == three);

  LlamaConfig three_one = three;
  three_one.max_positions = 131072;
  three_one.rope_scaling = {RopeScalingKind::kLlama3, 8, 1, 4, 8192};
  const std::string scaling = R"({"factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
      "original_max_position_embeddings": 8192, "rope_type": "llama3")";
  const std::string more = sizes + R"("max_position_embeddings": 131072, )";
  CHECK(read_llama(more + R"("rope_theta": 500000.0, "rope_scaling": )" + scaling + "}}") == three_one);
  CHECK(read_llama(more + R"("rope_parameters": )" + scaling + R"(, "rope_theta": 500000.0}})") == three_one);
  CHECK(read_llama(more + R"("rope_theta": 500000.0, "rope_scaling": )" + scaling +
                   R"(}, "rope_parameters": )" + scaling + R"(, "rope_theta": 500000.0}})") == three_one);
  CHECK_THAT(refused_llama<ConfigError>(more + R"("rope_theta": 10000.0, "rope_parameters": )" + scaling +
                                        R"(, "rope_theta": 500000.0}})"),
             Contains("rope_parameters: expected the same as rope_theta and rope_scaling say, found "));
  const TemporaryFolder folder;
  CHECK(read_hf_token_ids(write_file(folder / "config.json", more + five + "}")) ==
        HfTokenIds{128000, {}, {128001, 128008}});
}

TEST_CASE("hf config: the context before scaling counts beside the scaling as within it") {
  const std::string key = R"("original_max_position_embeddings": 1024, )";
  const std::string llama3 = R"("factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0)";
  for (const std::string& scaling :
       {R"("rope_type": "llama3", )" + llama3, std::string(R"("type": "yarn", "factor": 4.0)")}) {
    INFO(scaling);
    const auto with = [&](const std::string& inside, const std::string& beside) {
      std::string text = R"("max_position_embeddings": 4096, )";
      text.append(beside).append(R"("rope_scaling": {)").append(inside).append(scaling).append("}, ");
      return llama2(text);
    };
    const LlamaConfig expected = read_llama(with(key, ""));
    CHECK(expected.rope_scaling.original_positions == 1024);
    CHECK(read_llama(with("", key)) == expected);
    CHECK(read_llama(with(key, key)) == expected);
    CHECK_FALSE(read_llama(with("", "")) == expected);
    std::string other = R"("original_max_position_embeddings": 2048, "rope_scaling": {)";
    other.append(key).append(scaling).append("}, ");
    CHECK(unsupported(other) ==
          "rope_scaling.original_max_position_embeddings: expected 2048 as the key of that name beside it, "
          "found 1024");
  }
  const std::string five =
      R"("rope_parameters": {"rope_theta": 10000.0, "rope_type": "llama3", )" + llama3 + "}, ";
  CHECK(read_llama(llama2(key + five)).rope_scaling.original_positions == 1024);
  // transformers takes it for these kinds alone.
  CHECK(read_llama(llama2(key + R"("rope_scaling": {"type": "linear", "factor": 4}, )")) ==
        read_llama(llama2(R"("rope_scaling": {"type": "linear", "factor": 4}, )")));
}

TEST_CASE("hf config: linear rope scaling, under both names of its type") {
  for (const char* type : {"type", "rope_type"}) {
    const LlamaConfig model =
        read_llama(llama2(R"("rope_scaling": {")" + std::string(type) + R"(": "linear", "factor": 4}, )"));
    CHECK(model.rope_scaling == RopeScaling{RopeScalingKind::kLinear, 4});
  }
  CHECK(read_llama(llama2(R"("rope_scaling": {"type": "linear", "factor": 1.0}, )")) == llama2_7b());
}

// The model's own configuration says only that it brings code; the preset has what that code fixes.
TEST_CASE("hf config: MoH-LLaMA3-8B as released") {
  const auto text = [](int vocabulary) {
    return R"({"architectures": ["LlamaForCausalLM"], "auto_map": {"AutoModelForCausalLM":
        "modeling_llama.LlamaForCausalLM"}, "hidden_size": 4096, "intermediate_size": 14336,
        "max_position_embeddings": 8192, "model_type": "llama", "num_attention_heads": 32,
        "num_hidden_layers": 32, "num_key_value_heads": 8, "rms_norm_eps": 1e-05, "rope_theta": 500000.0,
        "vocab_size": )" +
           std::to_string(vocabulary) + "}";
  };
  CHECK(read_llama(text(160896)) == preset("moh_llama3_8b"));
  CHECK_THAT(refused_llama<ConfigError>(text(128256)),
             Contains("auto_map: expected none (the model brings code of its own), found ") &&
                 Contains("if that code computes a plain LLaMA, remove the key"));
}

TEST_CASE("hf config: routers with a precision of their own") {
  const auto moh_llama = [](const std::string& more) {
    return R"({"model_type": "moh_llama", "hidden_size": 32, "intermediate_size": 48, "num_attention_heads": 4,
      "num_hidden_layers": 1, "vocab_size": 64, "moh_router": "learned", "moh_shared_heads": 1, "moh_active_heads": 2)" +
           more + "}";
  };
  CHECK(read_llama(moh_llama("")).moh.router_precision == RouterPrecision::kSame);
  CHECK(read_llama(moh_llama(R"(, "moh_router_dtype": "float32")")).moh.router_precision ==
        RouterPrecision::kFloat32);
  CHECK_THAT(refused_llama<ConfigError>(moh_llama(R"(, "moh_router_dtype": "float16")")),
             Contains("moh_router_dtype: expected float32, found"));
}

TEST_CASE("hf config: what moh cannot compute is refused by name") {
  const auto other = [](const std::string& type, const std::string& name) {
    return refused_llama<ConfigError>(R"({"model_type": ")" + type + R"(", "architectures": [")" + name +
                                      R"("]})");
  };
  CHECK(other("gpt2", "GPT2LMHeadModel") ==
        "model_type: expected llama, mistral, qwen2, qwen3 or moh_llama, found gpt2");
  CHECK(other("qwen3_moe", "Qwen3MoeForCausalLM") ==
        "model_type: expected llama, mistral, qwen2, qwen3 or moh_llama, found qwen3_moe; its MLPs are "
        "mixtures "
        "of experts");
  CHECK(other("llama", "LlamaForSequenceClassification") ==
        "architectures: expected LlamaForCausalLM, found [\"LlamaForSequenceClassification\"]");
  CHECK(other("moh_llama", "LlamaForCausalLM") ==
        "architectures: expected MohLlamaForCausalLM, found [\"LlamaForCausalLM\"]");
  CHECK(unsupported(R"("sliding_window": 4096, )") == "sliding_window: expected none, found 4096");
  CHECK_THAT(damaged(R"("layer_types": ["full_attention"], )"),
             Contains("layer_types: expected 32 types, one per layer, found 1"));
  CHECK(unsupported(R"("quantization_config": {"bits": 4}, )") ==
        "quantization_config: expected none, found {\"bits\":4}");
  CHECK(unsupported(R"("partial_rotary_factor": 0.5, )") == "partial_rotary_factor: expected 1, found 0.5");
  // Passed over, each of these would change what the model computes, without a word.
  for (const auto& [given, message] :
       {std::pair{R"("is_causal": false, )", "is_causal: expected true, found false"},
        {R"("logits_scaling": 8.0, )", "logits_scaling: expected 1, found 8.0"},
        {R"("residual_multiplier": 0.2, )", "residual_multiplier: expected 1, found 0.2"},
        {R"("final_logit_softcapping": 30.0, )", "final_logit_softcapping: expected 0, found 30.0"},
        {R"("num_local_experts": 8, )", "num_local_experts: expected 0, found 8"},
        {R"("use_qk_norm": true, )", "use_qk_norm: expected false, found true"},
        {R"("attn_output_gate": true, )", "attn_output_gate: expected false, found true"},
        {R"("headwise_attn_output_gate": true, )", "headwise_attn_output_gate: expected false, found true"},
        {R"("elementwise_attn_output_gate": true, )",
         "elementwise_attn_output_gate: expected false, found true"},
        {R"("rope_interleaved": true, )", "rope_interleaved: expected false, found true"},
        {R"("no_rope_layers": [1, 0], )", "no_rope_layers: expected none, found [1,0]"}}) {
    INFO(given);
    CHECK(unsupported(given) == message);
  }
  CHECK(
      read_llama(llama2(
          R"("is_causal": true, "logit_scale": 1.0, "num_experts": 0, "final_logit_softcapping": null, )")) ==
      llama2_7b());
  CHECK(refused_llama<ConfigError>(R"({"model_type": "llama", "hidden_act": "gelu"})") ==
        "hidden_act: expected silu, found gelu");
  for (const char* type : {"longrope", "su", "mrope"}) {
    INFO(type);
    const std::string found =
        std::string(": expected default, linear, llama3, yarn or dynamic, found ") + type;
    CHECK(unsupported(R"("rope_scaling": {"rope_type": ")" + std::string(type) + R"(", "factor": 2.0}, )") ==
          "rope_scaling.rope_type" + found);
    CHECK(unsupported(R"("rope_scaling": {"type": ")" + std::string(type) + R"(", "factor": 2.0}, )") ==
          "rope_scaling.type" + found);
  }
  CHECK(unsupported(R"("rope_scaling": {"type": "linear", "factor": 2.0, "beta_fast": 3}, )") ==
        "rope_scaling.beta_fast: expected no such key with rope type linear, found 3");
  CHECK_THAT(unsupported(R"("rope_parameters": {"full_attention": {"rope_type": "default"}}, )"),
             Contains("rope_parameters.full_attention: expected no such key with rope type default"));
  CHECK_THAT(unsupported(R"("num_key_value_heads": 5, )"),
             Contains("llama: kv_heads: expected a divisor of heads (32), found 5"));
  CHECK_THAT(unsupported(R"("head_dim": 7, )"), Contains("llama: head_dim: expected an even number"));
}

TEST_CASE("hf config: Mistral, with a sliding window where it hides something") {
  const auto mistral = [](const std::string& more) {
    return R"({"architectures": ["MistralForCausalLM"], "hidden_act": "silu", "hidden_size": 4096,
        "intermediate_size": 14336, "model_type": "mistral", "num_attention_heads": 32,
        "num_hidden_layers": 32, "rms_norm_eps": 1e-05, "rope_theta": 1000000.0, )" +
           more + R"("vocab_size": 32000})";
  };
  LlamaConfig expected = llama2_7b();
  expected.intermediate = 14336;
  expected.kv_heads = 8;
  expected.max_positions = 32768;
  expected.rope_theta = 1e6;
  const std::string positions = R"("max_position_embeddings": 32768, )";
  CHECK(read_llama(mistral(positions + R"("sliding_window": null, )")) == expected);
  CHECK(read_llama(mistral(positions + R"("sliding_window": 32768, "num_key_value_heads": 8, )")) ==
        expected);
  expected.sliding_window = 1024;
  CHECK(read_llama(mistral(positions + R"("sliding_window": 1024, )")) == expected);
  expected.sliding_window = 4096;
  CHECK(read_llama(mistral(positions)) == expected);  // as transformers: 4096 where nothing is said
  const auto types = [&](const std::string& first, int count) {
    std::string list = "\"" + first + "\"";
    for (int i = 1; i < count; ++i) list += ", \"sliding_attention\"";
    return mistral(positions + R"("layer_types": [)" + list + "], ");
  };
  CHECK(read_llama(types("sliding_attention", 32)) == expected);
  // transformers' Mistral does not read the list: all its layers have the window.
  CHECK_THAT(refused_llama<ConfigError>(types("full_attention", 32)),
             Contains("layer_types: expected sliding_attention for all layers"));
  CHECK_THAT(refused_llama<CheckpointError>(types("sliding_attention", 31)),
             Contains("expected 32 types, one per layer"));
  CHECK_THAT(refused_llama<CheckpointError>(mistral(positions + R"("sliding_window": 0, )")),
             Contains("sliding_window"));
  expected.sliding_window = 0;
  // The meaning of absent keys to transformers, and of null where it differs.
  expected.max_positions = 4096;
  CHECK(read_llama(mistral(R"("max_position_embeddings": 4096, )")) == expected);
  expected.max_positions = 131072;
  expected.kv_heads = 32;
  CHECK(read_llama(mistral(R"("sliding_window": null, "num_key_value_heads": null, )")) == expected);
}

TEST_CASE("hf config: biases of LLaMA") {
  LlamaConfig expected = llama2_7b();
  expected.mlp_bias = true;
  CHECK(read_llama(llama2(R"("mlp_bias": true, )")) == expected);
  expected.qkv_bias = expected.o_bias = true;
  CHECK(read_llama(llama2(R"("mlp_bias": true, "attention_bias": true, )")) == expected);
}

TEST_CASE("hf config: YaRN and dynamic RoPE scaling") {
  const auto scaling = [](const std::string& more) {
    return read_llama(llama2(R"("max_position_embeddings": 4096, "rope_scaling": {)" + more + "}, "));
  };
  RopeScaling yarn{.kind = RopeScalingKind::kYarn, .factor = 4, .original_positions = 4096};
  CHECK(scaling(R"("type": "yarn", "factor": 4.0)").rope_scaling == yarn);
  yarn.original_positions = 1024;
  yarn.beta_fast = 16;
  yarn.truncate = false;
  yarn.attention_factor = (0.1 * std::log(4.0) + 1) / (0.05 * std::log(4.0) + 1);
  const LlamaConfig model = scaling(R"("rope_type": "yarn", "factor": 4.0, "beta_fast": 16, "truncate": false,
      "original_max_position_embeddings": 1024, "mscale": 1.0, "mscale_all_dim": 0.5)");
  CHECK(model.rope_scaling == yarn);
  CHECK(model.max_positions == 4096);
  yarn.attention_factor = 1.5;
  CHECK(scaling(R"("rope_type": "yarn", "factor": 4.0, "beta_fast": 16, "truncate": false,
      "original_max_position_embeddings": 1024, "attention_factor": 1.5)")
            .rope_scaling == yarn);

  const LlamaConfig dynamic = scaling(R"("rope_type": "dynamic", "factor": 2.5)");
  CHECK(dynamic.rope_scaling ==
        RopeScaling{.kind = RopeScalingKind::kDynamic, .factor = 2.5, .original_positions = 4096});
  CHECK(dynamic.max_positions == 10240);
  CHECK(
      unsupported(R"("rope_scaling": {"type": "dynamic", "factor": 2.0,
                       "original_max_position_embeddings": 64}, )") ==
      "rope_scaling.original_max_position_embeddings: expected max_position_embeddings (2048) with rope type "
      "dynamic, found 64");
  CHECK_THAT(unsupported(R"("rope_scaling": {"type": "dynamic", "factor": 2.0, "beta_fast": 4}, )"),
             Contains("rope_scaling.beta_fast: expected no such key with rope type dynamic"));
  CHECK_THAT(damaged(R"("rope_scaling": {"type": "yarn", "factor": 2.0, "beta_slow": 0}, )"),
             Contains("rope_scaling.beta_slow: expected a number above 0"));
}

TEST_CASE("hf config: Qwen 2 and Qwen 3") {
  const auto qwen = [](const std::string& number, const std::string& more) {
    return R"({"architectures": ["Qwen)" + number + R"(ForCausalLM"], "model_type": "qwen)" + number +
           R"(", "hidden_act": "silu", "hidden_size": 1024, "intermediate_size": 3072,
             "num_attention_heads": 16, "num_hidden_layers": 28, "num_key_value_heads": 8,
             "rms_norm_eps": 1e-06, "rope_theta": 1000000.0, "tie_word_embeddings": true, )" +
           more + R"("vocab_size": 151936})";
  };
  LlamaConfig two{.vocab_size = 151936,
                  .layers = 28,
                  .hidden = 1024,
                  .intermediate = 3072,
                  .heads = 16,
                  .kv_heads = 8,
                  .head_dim = 64,
                  .max_positions = 32768,
                  .norm_eps = 1e-6,
                  .rope_theta = 1e6,
                  .tied_embeddings = true,
                  .qkv_bias = true};
  CHECK(read_llama(
            qwen("2", R"("use_sliding_window": false, "sliding_window": 4096, "max_window_layers": 21, )")) ==
        two);
  CHECK(read_llama(qwen(
            "2", R"("use_sliding_window": true, "sliding_window": 4096, "max_window_layers": 28, )")) == two);
  CHECK(read_llama(qwen(
            "2", R"("use_sliding_window": true, "sliding_window": 32768, "max_window_layers": 1, )")) == two);
  std::vector<std::int64_t> windows(28, 0);
  std::fill(windows.begin() + 21, windows.end(), 4096);
  LlamaConfig last_layers = two;
  last_layers.sliding_window = windows;
  CHECK(read_llama(qwen("2", R"("use_sliding_window": true, "max_window_layers": 21, )")) == last_layers);
  LlamaConfig all_layers = two;
  all_layers.sliding_window = 512;
  CHECK(read_llama(
            qwen("2", R"("use_sliding_window": true, "sliding_window": 512, "max_window_layers": 0, )")) ==
        all_layers);
  CHECK(read_llama(qwen(
            "2", R"("use_sliding_window": true, "sliding_window": null, "max_window_layers": 0, )")) == two);
  CHECK_THAT(refused_llama<ConfigError>(qwen("2", R"("attention_bias": true, )")),
             Contains("attention_bias"));
  CHECK_THAT(refused_llama<ConfigError>(qwen("3", R"("mlp_bias": true, )")), Contains("mlp_bias"));

  LlamaConfig three = two;
  three.qkv_bias = false;
  three.qk_norm = true;
  three.head_dim = 128;
  CHECK(read_llama(qwen("3", R"("head_dim": 128, "attention_bias": false, )")) == three);
  CHECK(read_llama(qwen("3", "")) == three);
  std::string types;
  for (int i = 0; i < 28; ++i) types += std::string(i > 0 ? ", " : "") + "\"full_attention\"";
  CHECK(read_llama(qwen("3", R"("layer_types": [)" + types + "], ")) == three);
  CHECK_THAT(refused_llama<ConfigError>(
                 qwen("3", R"("layer_types": ["sliding_attention")" + types.substr(16) + "], ")),
             Contains("layer_types: expected full_attention for all layers"));
  // A list of layers goes before max_window_layers.
  three.sliding_window = std::vector<std::int64_t>(28, 0);
  three.sliding_window.each[0] = 64;
  CHECK(read_llama(
            qwen("3",
                 R"("use_sliding_window": true, "sliding_window": 64, "max_window_layers": 5, "layer_types":
                       ["sliding_attention")" +
                     types.substr(16) + "], ")) == three);
  CHECK_THAT(
      refused_llama<ConfigError>(qwen("3", R"("use_sliding_window": true, "sliding_window": 64, "layer_types":
                       ["chunked_attention")" + types.substr(16) +
                                               "], ")),
      Contains("layer_types: expected full_attention or sliding_attention"));
  three.sliding_window = 0;
  three.qkv_bias = three.o_bias = true;
  CHECK(read_llama(qwen("3", R"("attention_bias": true, )")) == three);
}

TEST_CASE("hf config: hostile and damaged files are refused") {
  const std::string digits(400, '9');
  CHECK_THAT(refused_llama<CheckpointError>(""), Contains("expected JSON in UTF-8"));
  CHECK_THAT(refused_llama<CheckpointError>("[1]"), Contains("expected a JSON object, found an array"));
  CHECK_THAT(refused_llama<CheckpointError>(llama2() + "x"), Contains("expected JSON in UTF-8"));
  CHECK_THAT(refused_llama<CheckpointError>(llama2() + std::string(1, '\0')), Contains("a NUL byte"));
  CHECK_THAT(refused_llama<CheckpointError>("{\"\xff\": 1}"), Contains("expected JSON in UTF-8"));
  CHECK_THAT(refused_llama<CheckpointError>(std::string(2 << 20, ' ')), Contains("found"));
  CHECK(refused_llama<CheckpointError>("{\"a\":" + std::string(100000, '[')) ==
        "expected at most 16 levels, found more");
  CHECK(damaged(R"("vocab_size": 5, )") == "vocab_size: expected this key once, found it twice");
  CHECK(damaged(R"("a": {"b": 1, "c": {"b": 1}, "b": 2}, )") == "b: expected this key once, found it twice");
  CHECK_THAT(damaged(R"("head_dim": )" + digits + ", "), Contains("expected JSON in UTF-8"));  // no double
  CHECK(damaged(R"("head_dim": 18446744073709551615, )") ==
        "head_dim: expected a whole number from 1 to 1048576, found 18446744073709551615");
  CHECK_THAT(damaged(R"("head_dim": 1e3, )"),
             Contains("head_dim: expected a whole number from 1 to 1048576"));
  CHECK_THAT(damaged(R"("head_dim": -4, )"), Contains("found -4"));
  CHECK_THAT(damaged(R"("head_dim": "128", )"), Contains("found \"128\""));
  CHECK_THAT(damaged(R"("rope_theta": "x", )"), Contains("rope_theta: expected a number, found \"x\""));
  CHECK_THAT(damaged(R"("rope_theta": 0, )"), Contains("rope_theta: expected a number above 0, found 0"));
  CHECK_THAT(damaged(R"("attention_bias": 1, )"),
             Contains("attention_bias: expected true or false, found 1"));
  CHECK_THAT(damaged(R"("rope_scaling": [], )"), Contains("rope_scaling: expected an object, found []"));
  CHECK_THAT(damaged(R"("rope_scaling": {"type": "linear"}, )"),
             Contains("rope_scaling.factor: expected a number, found nothing"));
  CHECK_THAT(damaged(R"("rope_scaling": {"type": "linear", "factor": 0.5}, )"),
             Contains("rope_scaling.factor: expected 1 or more, found 0.5"));
  CHECK(refused_llama<CheckpointError>(R"({"model_type": "llama"})") ==
        "vocab_size: expected a whole number, found nothing");
  CHECK(refused_llama<CheckpointError>("{}") == "model_type: expected a text, found nothing");
  CHECK_THAT(refused_llama<CheckpointError>(R"({"model_type": "llama", "architectures": {}})"),
             Contains("architectures: expected a list of texts, found {}"));
  CHECK_THROWS_AS(read_hf_config("/nowhere/config.json"), CheckpointError);
}

TEST_CASE("hf config: a file changed at random is read or refused, and nothing else happens") {
  const std::string whole = llama2(
      R"("rope_scaling": {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0},
         "moh_shared_heads": [1, 2], "auto_map": {"AutoConfig": "a.B"}, )");
  constexpr RandomKey kKey{33, 1};
  constexpr std::string_view kPieces[] = {"{",  "}", "[",  "]",    ",",       ":",
                                          "\"", "-", "e9", "null", "\\u0000", "\xff"};
  const TemporaryFolder folder;
  constexpr int kChanges = 1000;
  int num_read = 0, num_refused = 0;
  for (std::uint64_t i = 0; i < std::uint64_t{kChanges}; ++i) {
    const auto random = [&](std::uint64_t what, std::size_t below) {
      return static_cast<std::size_t>(random_below(kKey, 4 * i + what, below));
    };
    std::string text = whole;
    const std::size_t place = random(0, text.size());
    switch (random(1, 4)) {
      case 0:
        text[place] = static_cast<char>(random(2, 256));
        break;
      case 1:
        text.resize(place);
        break;
      case 2:
        text.erase(place, random(2, 20));
        break;
      default:
        text.insert(place, kPieces[random(2, std::size(kPieces))]);
    }
    std::filesystem::remove(folder / "config.json");  // ext4 syncs a file that is made empty and written anew
    const std::string path = write_file(folder / "config.json", text);
    try {
      read_hf_config(path);
      ++num_read;
    } catch (const ConfigError& error) {
      CHECK_THAT(error.what(), Catch::StartsWith(path + ": "));
      ++num_refused;
    } catch (const CheckpointError& error) {
      CHECK_THAT(error.what(), Catch::StartsWith(path + ": "));
      ++num_refused;
    }
  }
  CHECK(num_read + num_refused == kChanges);
  CHECK(num_refused > kChanges / 2);
}

}  // namespace moh
