#include "tests/golden/llama_golden.h"

#include <algorithm>

#include "ops/loss/cross_entropy.h"
#include "tests/golden/reference_choice.h"

namespace moh::test {

namespace {

LlamaConfig routed(LlamaConfig config, PerLayer num_shared, PerLayer top_k) {
  config.moh.router = routers::kQueryNorm;
  config.moh.num_shared = std::move(num_shared);
  config.moh.top_k = std::move(top_k);
  config.moh.straight_through = StraightThrough::kNone;
  return config;
}

/// Targets of next-token prediction: labels moved one to the left, the last position ignored.
Tensor shifted(const Tensor& labels) {
  const Tensor targets = full(labels.shape(), -100, DType::kInt64);
  for (std::int64_t b = 0; b < labels.dim(0); ++b) {
    for (std::int64_t t = 0; t + 1 < labels.dim(1); ++t) {
      targets.data<std::int64_t>()[b * labels.dim(1) + t] =
          labels.data<std::int64_t>()[b * labels.dim(1) + t + 1];
    }
  }
  return targets;
}

}  // namespace

LlamaConfig dense_llama(const nlohmann::json& c) {
  LlamaConfig config;
  config.hidden = c.at("hidden_size");
  config.heads = c.at("num_attention_heads");
  config.kv_heads = c.at("num_key_value_heads");
  config.head_dim = c.value("head_dim", config.hidden / config.heads);
  config.rope_theta = c.at("rope_theta");
  config.max_positions = c.at("max_position_embeddings");
  config.layers = c.value("num_hidden_layers", 1);
  config.vocab_size = c.value("vocab_size", config.vocab_size);
  config.intermediate = c.value("intermediate_size", config.intermediate);
  config.norm_eps = c.value("rms_norm_eps", config.norm_eps);
  config.tied_embeddings = c.value("tie_word_embeddings", false);
  return config;
}

LlamaConfig routed_llama(const GoldenCase& golden) {
  const LlamaConfig dense = dense_llama(golden.config());
  std::vector<std::int64_t> num_shared, top_k;
  for (std::int64_t i = 0; i < dense.layers; ++i) {
    const std::string layer = std::to_string(i);
    const HeadCounts counts = head_counts(golden, "inter.attn" + layer, "inter.router" + layer);
    num_shared.push_back(counts.shared);
    top_k.push_back(counts.top_k);
  }
  return routed(dense, num_shared, top_k);
}

LlamaConfig released_llama(LlamaConfig dense) {
  const std::int64_t heads = dense.heads;
  return routed(std::move(dense), heads / 2, heads / 4);
}

Variable next_token_loss(const Variable& logits, const Tensor& labels) {
  const Tensor targets = shifted(labels);
  const auto ids = targets.span<std::int64_t>();
  const auto ignored = std::ranges::count(ids, -100);
  return cross_entropy(logits, targets, {.normalizer = static_cast<double>(std::ssize(ids) - ignored)});
}

}  // namespace moh::test
