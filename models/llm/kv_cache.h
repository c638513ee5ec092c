#pragma once

#include <cstdint>
#include <vector>

#include "core/tensor.h"

namespace moh {

/// Keys and values of one layer for the tokens so far, of all KV heads: other tokens may yet select any head.
struct LayerCache {
  Tensor k, v;              ///< [B, G, capacity, d]: what attention to one head reads lies together
  std::int64_t length = 0;  ///< tokens that are filled in

  /// Appends k and v [B, T, G, d]. Throws ShapeError when they do not fit, naming the capacity.
  void append(const Tensor& new_k, const Tensor& new_v);
};

/// The caches of all layers of one model.
struct KvCache {
  std::vector<LayerCache> layers;

  std::int64_t length() const { return layers.empty() ? 0 : layers.front().length; }
};

}  // namespace moh
