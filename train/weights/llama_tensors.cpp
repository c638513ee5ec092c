#include "train/weights/llama_tensors.h"

#include <string>

namespace moh {

std::vector<TensorSpec> llama_tensors(const LlamaConfig& c, DType dtype) {
  std::vector<TensorSpec> tensors;
  const auto add = [&](const std::string& name, const Shape& shape) {
    const DType of_router = router_dtype(c.moh.router_precision, dtype);
    const std::string full = name + ".weight";
    tensors.push_back({full, shape, is_router_weight(full) ? of_router : dtype});
  };
  add("model.embed_tokens", {c.vocab_size, c.hidden});
  for (std::int64_t i = 0; i < c.layers; ++i) {
    const std::string layer = "model.layers." + std::to_string(i) + ".", attention = layer + "self_attn.";
    add(layer + "input_layernorm", {c.hidden});
    add(attention + "q_proj", {c.heads * c.head_dim, c.hidden});
    add(attention + "k_proj", {c.kv_heads * c.head_dim, c.hidden});
    add(attention + "v_proj", {c.kv_heads * c.head_dim, c.hidden});
    add(attention + "o_proj", {c.hidden, c.heads * c.head_dim});
    if (c.moh.router == RouterKind::kLearned) {
      const RouterWidths widths = router_widths(routing_of(c, i).router);
      if (widths.routed > 0) add(attention + "wg", {widths.routed, c.hidden});
      if (widths.type > 0) add(attention + "wg_0", {widths.type, c.hidden});
      if (widths.shared > 0) add(attention + "wg_1", {widths.shared, c.hidden});
    }
    add(layer + "post_attention_layernorm", {c.hidden});
    add(layer + "mlp.gate_proj", {c.intermediate, c.hidden});
    add(layer + "mlp.up_proj", {c.intermediate, c.hidden});
    add(layer + "mlp.down_proj", {c.hidden, c.intermediate});
  }
  add("model.norm", {c.hidden});
  if (!c.tied_embeddings) add("lm_head", {c.vocab_size, c.hidden});
  return tensors;
}

}  // namespace moh
