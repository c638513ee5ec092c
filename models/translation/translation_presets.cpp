#include "models/translation/translation_presets.h"

#include <array>

namespace moh {

namespace {

constexpr std::string_view kVaswani = "arXiv 1706.03762, table 3; a joint vocabulary of 32,768 tokens";
constexpr std::string_view kMoa = "arXiv 2210.05144, base: 8 experts of width 128, all of them kept";
constexpr std::string_view kMoh = "arXiv 2410.11842, review; 75% of the heads, the split is not published";

TranslationConfig base() {
  return {.vocab_size = 32768, .attention_dropout = 0, .activation_dropout = 0};
}

TranslationConfig big() {
  TranslationConfig c = base();
  c.hidden = 1024;
  c.intermediate = 4096;
  c.heads = 16;
  c.dropout = 0.3;
  return c;
}

/// MoA: the experts are query heads, with matrices D x d and d x D of their own, which share one key and one
/// value head. The gate of a kept expert is its probability, which is not renormalised; the losses are those
/// of each layer, summed: 0.01 E sum_i P_i f_i, with f as shares of the selections, and 0.001 mean
/// (logsumexp)^2.
TranslationConfig moa_base() {
  TranslationConfig c = base();
  c.heads = 8;
  c.kv_heads = 1;
  c.head_dim = 128;
  c.attention_bias = false;
  c.dropout = 0.2;
  c.attention_dropout = 0.2;
  c.activation_dropout = 0.1;
  c.moh.router = routers::kLearned;
  c.moh.num_shared = 0;
  c.moh.top_k = 8;
  c.moh.gate_scaling = GateScaling::kPaper;
  c.moh.router_init = RouterInit::kZeros;
  c.moh.balance_loss = BalanceLoss::kShares;
  c.moh.balance_layers = BalanceLayers::kSum;
  c.moh.balance_weight = 0.01;
  c.moh.z_loss_weight = 0.001;
  return c;
}

/// Six of eight heads in every attention layer, two of them shared.
TranslationConfig moh_base_75() {
  TranslationConfig c = base();
  c.moh.router = routers::kLearned;
  c.moh.num_shared = 2;
  c.moh.top_k = 4;
  return c;
}

}  // namespace

std::span<const TranslationPreset> translation_presets() {
  static const std::array<TranslationPreset, 4> presets = {{
      {"transformer_base", base(), kVaswani},
      {"transformer_big", big(), kVaswani},
      {"moa_base", moa_base(), kMoa},
      {"moh_base_75", moh_base_75(), kMoh},
  }};
  return presets;
}

}  // namespace moh
