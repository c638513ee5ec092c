#include "models/llm/llama_presets.h"

#include <array>

namespace moh {

namespace {

constexpr std::string_view kPaper =
    "arXiv 2410.11842, table of LLM sizes; vocabulary, norm and RoPE from the counts";
constexpr std::string_view kProposed =
    "arXiv 2410.11842; the split into shared and routed heads is not published";
constexpr std::string_view kFigure =
    "arXiv 2410.11842; split read from its figure 3 (12 routed heads, mean load 2/3)";
constexpr std::string_view kLlama3 = "Llama 3 8B as released";
constexpr std::string_view kStage1 = "arXiv 2410.11842, continue-tuning stage 1 (vocabulary 160,896)";
constexpr std::string_view kFewerHeads =
    "the dense baseline of the moh_ preset of this name: as many query heads as it has active";
constexpr std::string_view kMohLlama3 = "arXiv 2410.11842 and its released inference code";

LlamaConfig llm_s() {
  return {.vocab_size = 65536,
          .layers = 12,
          .hidden = 768,
          .intermediate = 2048,
          .heads = 12,
          .kv_heads = 12,
          .head_dim = 64};
}

LlamaConfig llm_b() {
  return {.vocab_size = 65536,
          .layers = 24,
          .hidden = 1536,
          .intermediate = 4096,
          .heads = 16,
          .kv_heads = 16,
          .head_dim = 96};
}

LlamaConfig llama3_8b(std::int64_t vocab_size) {
  return {.vocab_size = vocab_size,
          .layers = 32,
          .hidden = 4096,
          .intermediate = 14336,
          .heads = 32,
          .kv_heads = 8,
          .head_dim = 128,
          .max_positions = 8192,
          .rope_theta = 500000.0};
}

LlamaConfig routed(LlamaConfig config, RouterKey router, std::int64_t num_shared, std::int64_t top_k) {
  config.moh.router = router;
  config.moh.num_shared = num_shared;
  config.moh.top_k = top_k;
  return config;
}

/// A model with fewer query heads, each as wide as before (SQA, arXiv 2510.01817). Without groups of query
/// heads it has fewer KV heads, too.
LlamaConfig with_heads(LlamaConfig config, std::int64_t heads) {
  if (config.kv_heads == config.heads) config.kv_heads = heads;
  config.heads = heads;
  return config;
}

}  // namespace

std::span<const LlamaPreset> llama_presets() {
  static const std::array<LlamaPreset, 14> presets = {{
      {"llm_s", llm_s(), kPaper},
      {"llm_b", llm_b(), kPaper},
      {"moh_llm_s_75", routed(llm_s(), routers::kLearned, 3, 6), kProposed},
      {"moh_llm_s_50", routed(llm_s(), routers::kLearned, 3, 3), kProposed},
      {"moh_llm_b_75", routed(llm_b(), routers::kLearned, 4, 8), kFigure},
      {"moh_llm_b_50", routed(llm_b(), routers::kLearned, 4, 4), kProposed},
      {"llama3_8b", llama3_8b(128256), kLlama3},
      {"llama3_8b_stage1", llama3_8b(160896), kStage1},
      {"moh_llama3_8b", routed(llama3_8b(160896), routers::kQueryNorm, 16, 8), kMohLlama3},
      {"dense_llm_s_75", with_heads(llm_s(), 9), kFewerHeads},
      {"dense_llm_s_50", with_heads(llm_s(), 6), kFewerHeads},
      {"dense_llm_b_75", with_heads(llm_b(), 12), kFewerHeads},
      {"dense_llm_b_50", with_heads(llm_b(), 8), kFewerHeads},
      {"dense_llama3_8b_75", with_heads(llama3_8b(160896), 24), kFewerHeads},
  }};
  return presets;
}

}  // namespace moh
