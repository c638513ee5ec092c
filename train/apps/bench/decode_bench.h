#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "core/device.h"
#include "core/dtype.h"
#include "models/llm/llama_config.h"
#include "train/base/measure/row.h"

namespace moh {

/// Options of `moh bench decode`, which measures token-by-token generation after contexts of given lengths.
struct DecodeBenchOptions {
  DecodeBenchOptions() {
    model.vocab_size = 8192;
    model.layers = 6;
    model.hidden = 768;
    model.intermediate = 2048;
    model.heads = model.kv_heads = 12;
    model.head_dim = 64;
  }

  LlamaConfig model;  ///< sizes; max_positions is replaced, and, unless `configured`, the routing
  /// Measure the model as it is routed, in place of `active`, `routers`, `routings` and `routed_keys`.
  bool configured = false;
  Device device = kCpu;
  DType dtype = DType::kFloat32;
  std::int64_t batch = 1;
  std::vector<std::int64_t> contexts = {512, 4096};  ///< tokens in the KV cache before each pass
  std::vector<double> active = {1.0, 0.75, 0.5};     ///< shares of the heads that each token selects
  std::vector<RouterKey> routers = {moh::routers::kLearned, moh::routers::kQueryNorm};
  std::vector<RoutingKey> routings = {moh::routings::kHeads};
  /// Also measure routed heads with keys and values of the selected heads alone (RoutedRows).
  bool routed_keys = false;
  std::int64_t tokens = 4;  ///< generated per pass
  int warmups = 2;          ///< passes of each case before the measured ones
  int repeats = 15;         ///< measured passes of each case, interleaved with those of the others
  std::uint64_t seed = 1;
};

/// Measures a dense model, and a MoH model for each share below 1, unit of routing and router (an eighth of
/// the heads, or fewer if fewer are selected, is shared, the others are routed), or the configured one, which
/// has the last row of each context. They have random weights and
/// share one cache of random keys and values; with routed keys each has a cache of its own, whose routed
/// heads have equal shares of the context. Rows are passed to `on_row` after each context. Throws ValueError
/// naming the option that is out of range.
///
/// Fields of a row: times are medians over the repeats, for one token of each sequence; a spread is (90th -
/// 10th percentile) / median; a ratio is time / time of the dense model: the median over the repeats, in each
/// of which both are timed shortly after each other. `tokens_per_s` counts all sequences, `active` is the
/// share after rounding to a whole number of heads. `attention_ms` is the time of attention to the cache per
/// token, including the building of head lists, from separate passes in which ops are timed.
/// `kv_bytes_per_token` and `read_bytes_per_token` are counted, not measured (decode_bytes()).
void run_decode_bench(const DecodeBenchOptions& options, const std::function<void(const Row&)>& on_row);

}  // namespace moh
