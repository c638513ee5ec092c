#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "autograd/variable.h"
#include "ops/moh/head_router_kernels.h"

namespace moh {

/// The logits of a layer: three tensors, or one that has all of them beside each other.
struct RouterInputs {
  Variable shared, routed, type;
  Variable packed;

  const Variable& any() const {
    if (packed.defined()) return packed;
    return routed.defined() ? routed : shared;
  }
  /// The inputs that route_heads records.
  std::vector<Variable> all() const {
    return packed.defined() ? std::vector{packed} : std::vector{shared, routed, type};
  }
};

template <class A>
struct LogitColumns {
  Columns<A> shared, routed, type;
};
/// The logits of three tensors in the order of RouterInputs::all(), or of one; absent where the tensor is
/// undefined, or the width 0.
template <class A>
LogitColumns<A> columns_of(std::span<const Tensor> tensors, const RouterWidths& widths) {
  if (tensors.size() > 1) {
    const auto of = [](const Tensor& tensor, std::int64_t width) {
      return tensor.defined() ? Columns<A>{tensor.data<std::remove_const_t<A>>(), width} : Columns<A>{};
    };
    return {of(tensors[0], widths.shared), of(tensors[1], widths.routed), of(tensors[2], widths.type)};
  }
  A* next = tensors[0].data<std::remove_const_t<A>>();
  const auto take = [&, stride = tensors[0].dim(1)](std::int64_t width) {
    return width > 0 ? Columns<A>{std::exchange(next, next + width), stride} : Columns<A>{};
  };
  LogitColumns<A> columns;
  columns.routed = take(widths.routed);
  columns.type = take(widths.type);
  columns.shared = take(widths.shared);
  return columns;
}

/// Throw what route_heads() does for logits, a selection, an order and a number for each routed head that do
/// not fit; an undefined tensor of the last passes.
void check_inputs(const RouterInputs& logits, const RouterWidths& widths, std::int64_t tokens, DType dtype);
void check_forced(const Tensor& top, std::int64_t tokens, const RouterOptions& options);
void check_order(const Tensor& given, std::int64_t heads, Device device);
void check_of_heads(std::string_view name, const Tensor& tensor, std::int64_t routed, const Variable& logits);

}  // namespace moh
