#pragma once

#include "core/tensor.h"

namespace moh {

/// Writes k and v [B, T, G, d], the keys and values of T tokens, to slots length ... length + T - 1 of the
/// caches [B, G, capacity, d], in place. Any floating dtype; the bits are kept. Not differentiable. Throws
/// ShapeError, naming the capacity, when the tokens do not fit; DTypeError, DeviceError.
void append_to_cache(const Tensor& k, const Tensor& v, const Tensor& k_cache, const Tensor& v_cache,
                     std::int64_t length);

}  // namespace moh
