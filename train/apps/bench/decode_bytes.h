#pragma once

#include <cstdint>

#include "models/llm/llama.h"

namespace moh {

/// Memory traffic of generating one token of one sequence, in bytes.
struct DecodeBytes {
  double stored = 0;  ///< that a token adds to the KV cache, in all layers; layers with a window drop as many
  double read = 0;    ///< of weights, and of keys and values of the tokens before it
};

/// The traffic of a token after `context` others. All weights are read, but of an embedding that is no output
/// projection one row; keys and values of the KV heads that a selected head uses (kv_heads_read()), or, with
/// routed keys, of the rows that selected heads have, in equal shares of the routed heads.
DecodeBytes decode_bytes(const Llama& model, std::int64_t context);

}  // namespace moh
