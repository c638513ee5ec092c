#pragma once

#include <cstdint>
#include <type_traits>
#include <utility>

namespace moh::tensor_cores {

/// Calls body(std::integral_constant<int, width>) if there are kernels for head width head_dim;
/// else returns false.
template <class Body, int... kWidths>
bool visit_width(std::integer_sequence<int, kWidths...>, std::int64_t head_dim, const Body& body) {
  return ((head_dim == kWidths && (body(std::integral_constant<int, kWidths>()), true)) || ...);
}

/// 24: TransNeXt; 72: DiT-XL; 64, 128: language models.
using HeadWidths = std::integer_sequence<int, 16, 24, 32, 48, 64, 72, 80, 96, 128>;

template <class Body>
bool visit_head_width(std::int64_t head_dim, const Body& body) {
  return visit_width(HeadWidths(), head_dim, body);
}

}  // namespace moh::tensor_cores
