#pragma once

#include "models/llm/llama_config.h"

namespace moh::test {

/// Two layers of width 16 with four query heads in two groups, a vocabulary of 19; as MoH one shared and one
/// or two routed heads.
inline LlamaConfig tiny_llama(RouterKey router = routers::kLearned) {
  LlamaConfig c{.vocab_size = 19,
                .layers = 2,
                .hidden = 16,
                .intermediate = 24,
                .heads = 4,
                .kv_heads = 2,
                .head_dim = 4,
                .max_positions = 16};
  if (router != routers::kNone) c.moh = {.router = router, .num_shared = 1, .top_k = 2};
  return c;
}

}  // namespace moh::test
