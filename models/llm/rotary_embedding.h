#pragma once

#include <cstdint>
#include <memory>

#include "models/llm/llama_config.h"
#include "models/module.h"
#include "ops/rope/rope.h"

namespace moh {

/// The rotary embedding of a model: one table for all positions whose angles do not depend on the length of
/// the sequence, and with RopeScalingKind::kDynamic a table for each longer sequence. Copies share them.
class RotaryEmbedding {
 public:
  /// `config` as spelt_out() returns it.
  RotaryEmbedding(const LlamaConfig& config, Placement placement);

  /// The rows for `count` tokens from position `first` on, of a sequence that ends with them. Keys in a cache
  /// keep the angles of the sequence as it was, as in Hugging Face's transformers. Throws ValueError beyond
  /// max_positions.
  RopeTable rows(std::int64_t first, std::int64_t count) const;

 private:
  RopeTable table_of(std::int64_t first, std::int64_t count) const;

  LlamaConfig config_;
  Placement placement_;
  RopeTable table_;
  /// The table of the longer sequence that was asked for last: a training asks for one length again and
  /// again.
  struct Longest;
  std::shared_ptr<Longest> longest_;
};

}  // namespace moh
