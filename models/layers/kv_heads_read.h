#pragma once

#include <cstdint>

#include "models/layers/head_routing_options.h"

namespace moh {

/// KV heads of a layer, of `kv_heads`, whose keys and values attention reads for a token in decoding, on
/// average, if each set of routed heads that the router can select is selected equally often: those of a
/// shared head always, those of r of the E routed units of a part, of which K are kept, with the probability
///   1 - C(E - r, K) / C(E, K).
/// All of them in a dense layer.
double kv_heads_read(const HeadRoutingOptions& options, std::int64_t kv_heads);

}  // namespace moh
