#include "train/apps/bench/decode_bytes.h"

#include <algorithm>

#include "models/layers/kv_heads_read.h"

namespace moh {

namespace {

double bytes_of_weights(const Llama& model) {
  double bytes = 0;
  for (const NamedParameter& p : model.parameters()) {
    const bool one_row = p.name.ends_with("embed_tokens.weight") && !model.config().tied_embeddings;
    const std::int64_t elements = p.variable.shape().numel() / (one_row ? p.variable.dim(0) : 1);
    bytes += static_cast<double>(elements) * static_cast<double>(dtype_size(p.variable.dtype()));
  }
  return bytes;
}

/// Tokens that a head with this window sees; 0: all.
double seen(std::int64_t context, std::int64_t window) {
  return static_cast<double>(window > 0 ? std::min(context, window) : context);
}

/// Rows of keys, as many of values, that a token of one layer stores and reads.
struct Rows {
  double stored, read;
};

Rows rows_of(const LlamaConfig& config, std::int64_t layer, std::int64_t context) {
  const HeadRoutingOptions routing = routing_of(config, layer);
  const RouterOptions& router = routing.router;
  if (config.moh.routed != RoutedRows::kQueriesKeysValues)
    return {static_cast<double>(config.kv_heads),
            kv_heads_read(routing, config.kv_heads) * seen(context, config.sliding_window.at(layer))};
  const auto shared = static_cast<double>(router.num_shared), kept = static_cast<double>(router.top_k);
  const double share = router.routed() > 0 ? kept / static_cast<double>(router.routed()) : 0;
  return {shared + kept,
          shared * seen(context, config.moh.shared_window) + kept * share * static_cast<double>(context)};
}

}  // namespace

DecodeBytes decode_bytes(const Llama& model, std::int64_t context) {
  const LlamaConfig config = spelt_out(model.config());
  const double row =
      2.0 * static_cast<double>(config.head_dim) * static_cast<double>(dtype_size(model.dtype()));
  DecodeBytes bytes{.stored = 0, .read = bytes_of_weights(model)};
  for (std::int64_t layer = 0; layer < config.layers; ++layer) {
    const Rows rows = rows_of(config, layer, context);
    bytes.stored += row * rows.stored;
    bytes.read += row * rows.read;
  }
  return bytes;
}

}  // namespace moh
