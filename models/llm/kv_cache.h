#pragma once

#include <cstdint>
#include <vector>

#include "core/tensor.h"

namespace moh {

/// Keys and values of one layer for the tokens so far, of all KV heads: later tokens may select any head.
struct LayerCache {
  Tensor k, v;              ///< [B, G, capacity, d]: each head is contiguous over tokens
  std::int64_t length = 0;  ///< number of tokens stored

  /// Appends new_k and new_v [B, T, G, d]. Throws ShapeError naming the capacity when they do not fit.
  void append(const Tensor& new_k, const Tensor& new_v);
};

/// The caches of all layers of one model.
struct KvCache {
  std::vector<LayerCache> layers;

  std::int64_t length() const { return layers.empty() ? 0 : layers.front().length; }
};

}  // namespace moh
