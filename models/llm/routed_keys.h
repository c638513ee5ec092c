#pragma once

#include <cstdint>
#include <vector>

#include "models/forward_context.h"
#include "models/layers/head_routing.h"
#include "models/layers/rms_norm.h"
#include "models/llm/kv_cache.h"
#include "models/llm/llama_config.h"
#include "ops/moh/head_sequences.h"
#include "ops/rope/rope.h"

namespace moh {

/// Attention of a LLaMA layer in which keys and values of a token exist in its selected heads alone
/// (RoutedRows::kQueriesKeysValues; NAMOH, arXiv 2609.38832): head h is causal attention over the sequence of
/// the tokens that selected it. Shapes: B sequences, T tokens, H heads, d head width.
class RoutedKeys {
 public:
  RoutedKeys(const LlamaConfig& config, std::int64_t layer, Device device);

  /// Queries, keys and values of the selected pairs, [B, T, H, d], before norm and rotary embedding; other
  /// pairs are not read. The norms are of heads, or null.
  struct Heads {
    Variable q, k, v;
    const RmsNorm* q_norm = nullptr;
    const RmsNorm* k_norm = nullptr;
  };
  /// The heads' outputs times their gates, [B, T, H, d], zeros for the others. The table's rows are from
  /// position 0 on.
  Variable forward(const Heads& heads, const RopeTable& table, const HeadChoice& choice,
                   const ForwardContext& context) const;
  /// forward() without gradients for T tokens that continue those in a cache of B H heads, and are appended
  /// to it. `table`: with positions in the head rows from 0 on, else those of the T tokens. On a GPU each
  /// call waits for the lists.
  Tensor decode(const Heads& heads, const RopeTable& table, const Tensor& gates, const HeadLists& lists,
                LayerCache& cache) const;

  /// The table that decode() takes for tokens [begin, begin + count) of those that `table` was made for.
  RopeTable rows_of_piece(const RopeTable& table, std::int64_t begin, std::int64_t count) const {
    return positions_in_head_ ? table : table.rows(begin, count);
  }

  /// Tokens that a row of each head sees, itself included; 0: all.
  const std::vector<std::int64_t>& windows() const { return windows_; }

 private:
  Variable rotated(const Variable& x, const RmsNorm* norm, const RopeTable& table,
                   const HeadSequences& sequences) const;
  /// Keys that a row sees on average, if routed heads are selected equally often.
  double mean_visible(std::int64_t tokens, std::int64_t computed_heads) const;

  bool positions_in_head_;
  std::int64_t num_shared_, shared_window_;
  std::vector<std::int64_t> windows_;
  Tensor windows_on_device_;  ///< [H] int32; undefined without a window
};

}  // namespace moh
