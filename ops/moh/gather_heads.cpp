#include "ops/moh/gather_heads.h"

#include <string>
#include <string_view>

#include "ops/aligned.h"
#include "ops/moh/gather_heads_kernels.h"
#include "ops/op.h"

namespace moh {

namespace {

/// Sizes for `heads` heads of the width and for the tokens of `like`, [B, T, ..., d].
SlotShape slot_shape(std::string_view op, const Variable& like, std::int64_t heads, const Tensor& slots) {
  const Variable numbers(slots);
  Check(op).dtype("slots", numbers, DType::kInt32).rank("slots", numbers, 4);
  const std::int64_t groups = slots.dim(2), each = slots.dim(3);
  Check(op)
      .shape("slots", numbers, {like.dim(0), like.dim(1), groups, each}, "batch and tokens of the heads")
      .require(groups >= 1 && heads % groups == 0 && each * groups <= heads, "slots",
               "those of groups of the " + std::to_string(heads) + " heads", to_string(slots.shape()));
  if (slots.device() != like.device())
    throw DeviceError(error_message(op, "slots", device_name(like.device()), device_name(slots.device())));
  return {like.dim(0) * like.dim(1), heads, groups, groups * each, like.dim(3), slots.data<std::int32_t>()};
}

Tensor gathered(const Tensor& x, const SlotShape& shape) {
  Tensor y = empty({x.dim(0), x.dim(1), shape.slots, x.dim(3)}, x.dtype(), x.device());
  const Tensor from = aligned_on_gpu(x);
  run_kernel("gather_heads", x, [&]<class Backend, class T>() {
    GatherHeadsKernels<Backend, T>::gather(from.data<T>(), y.data<T>(), shape);
  });
  return y;
}

/// `gates` in the accumulation dtype, or undefined.
Tensor scattered(const Tensor& y, const Tensor& gates, const SlotShape& shape) {
  Tensor x = empty({y.dim(0), y.dim(1), shape.heads, y.dim(3)}, y.dtype(), y.device());
  const Tensor from = aligned_on_gpu(y);
  run_kernel("scatter_heads", y, [&]<class Backend, class T>() {
    GatherHeadsKernels<Backend, T>::scatter(from.data<T>(), gates.defined() ? gates.data<Acc<T>>() : nullptr,
                                            x.data<T>(), shape);
  });
  return x;
}

Tensor with_sum(const Tensor& y, const Tensor& gates, const SlotShape& shape) {
  Tensor z = empty({y.dim(0), y.dim(1), shape.slots + 1, y.dim(3)}, y.dtype(), y.device());
  const Tensor from = aligned_on_gpu(y);
  run_kernel("append_slot_sum", y, [&]<class Backend, class T>() {
    GatherHeadsKernels<Backend, T>::append_sum(from.data<T>(), gates.data<Acc<T>>(), z.data<T>(), shape);
  });
  return z;
}

/// Checks slots y and gates of all heads.
SlotShape gated_shape(std::string_view op, const Variable& y, const Variable& gates, const Tensor& slots) {
  Check(op).floating("y", y).rank("y", y, 4).floating("gates", gates).rank("gates", gates, 3);
  const SlotShape shape = slot_shape(op, y, gates.dim(2), slots);
  Check(op)
      .shape("gates", gates, {y.dim(0), y.dim(1), shape.heads}, "batch and tokens of y")
      .shape("y", y, {y.dim(0), y.dim(1), shape.slots, y.dim(3)}, "the slots");
  if (gates.device() != y.device())
    throw DeviceError(error_message(op, "gates", device_name(y.device()), device_name(gates.device())));
  return shape;
}

/// The gradients of y and of its gates; `run` calls the kernel with (gradient, y, gates, dy, d_gates).
template <class Run>
Grads gated_backward(std::string_view op, const Tensor& y, const Tensor& gates, const Tensor& gradient,
                     DType gate_dtype, const Run& run) {
  const Tensor dy = empty_like(y), d_gates = empty_like(gates);
  const Tensor outputs = aligned_on_gpu(y), from = aligned_on_gpu(gradient);
  run_kernel(op, y, [&]<class Backend, class T>() {
    run.template operator()<Backend, T>(from.data<T>(), outputs.data<T>(), gates.data<Acc<T>>(), dy.data<T>(),
                                        d_gates.data<Acc<T>>());
  });
  return {dy, d_gates.to(gate_dtype)};
}

}  // namespace

Variable gather_heads(const Variable& x, const Tensor& slots) {
  Check("gather_heads").floating("x", x).rank("x", x, 4);
  const SlotShape shape = slot_shape("gather_heads", x, x.dim(2), slots);
  return record("gather_heads", gathered(x.value(), shape), {x},
                [slots, shape](const Tensor& dy) -> Grads { return {scattered(dy, {}, shape)}; });
}

Variable scatter_heads(const Variable& y, const Variable& gates, const Tensor& slots) {
  const SlotShape shape = gated_shape("scatter_heads", y, gates, slots);
  const Tensor factors = gates.value().to(accumulate_dtype(y.dtype()));
  const DType gate_dtype = gates.dtype();
  return record("scatter_heads", scattered(y.value(), factors, shape), {y, gates},
                [y = y.value(), factors, slots, shape, gate_dtype](const Tensor& dx) -> Grads {
                  return gated_backward("scatter_heads", y, factors, dx, gate_dtype,
                                        [&]<class Backend, class T>(auto... arrays) {
                                          GatherHeadsKernels<Backend, T>::scatter_backward(arrays..., shape);
                                        });
                });
}

Variable append_slot_sum(const Variable& y, const Variable& gates, const Tensor& slots) {
  const SlotShape shape = gated_shape("append_slot_sum", y, gates, slots);
  const Tensor factors = gates.value().to(accumulate_dtype(y.dtype()));
  const DType gate_dtype = gates.dtype();
  return record("append_slot_sum", with_sum(y.value(), factors, shape), {y, gates},
                [y = y.value(), factors, slots, shape, gate_dtype](const Tensor& dz) -> Grads {
                  return gated_backward("append_slot_sum", y, factors, dz, gate_dtype,
                                        [&]<class Backend, class T>(auto... arrays) {
                                          GatherHeadsKernels<Backend, T>::append_sum_backward(arrays...,
                                                                                              shape);
                                        });
                });
}

}  // namespace moh
