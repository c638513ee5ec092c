#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "models/llm/llama.h"

namespace moh {

using Heads = std::vector<std::int64_t>;

/// Moves the heads of q, k, v and o of every layer: head i becomes head orders[layer][i]. Without GQA that
/// changes nothing in what a dense model computes.
inline void move_heads(const Llama& model, const std::vector<Heads>& orders) {
  const std::int64_t width = model.config().head_dim;
  const auto part = [&](const Tensor& rows, std::int64_t head) {
    return rows.slice(head * width, (head + 1) * width);
  };
  const auto move = [&](const Tensor& rows, const Heads& order) {
    const Tensor old = rows.clone();
    for (std::size_t i = 0; i < order.size(); ++i)
      part(rows, order[i]).copy_from(part(old, static_cast<std::int64_t>(i)));
  };
  for (const NamedParameter& p : model.parameters()) {
    for (std::size_t layer = 0; layer < orders.size(); ++layer) {
      const std::string attention = "model.layers." + std::to_string(layer) + ".self_attn.";
      const Tensor weight = p.variable.value();
      for (const char* name : {"q_proj.weight", "k_proj.weight", "v_proj.weight"}) {
        if (p.name == attention + name) move(weight, orders[layer]);
      }
      if (p.name != attention + "o_proj.weight") continue;
      for (std::int64_t row = 0; row < weight.dim(0); ++row) move(weight.select(row), orders[layer]);
    }
  }
}

}  // namespace moh
