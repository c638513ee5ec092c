#include "ops/moh/masked_router.h"

#include <string>
#include <type_traits>
#include <vector>

#include "ops/moh/masked_router_kernels.h"
#include "ops/op.h"

namespace moh {

namespace {

/// Tensors saved for the backward pass.
struct SavedChoice {
  Tensor shared_logits, routed_logits, type_logits, masks, kept, load, balance_load, counts;
};

template <class A>
MaskedRouterArgs<A> args_of(const SavedChoice& saved) {
  MaskedRouterArgs<A> args;
  args.tokens = saved.routed_logits.dim(0);
  args.heads = saved.routed_logits.dim(1);
  args.counts = saved.counts.data<double>();
  args.masks = saved.masks.data<A>();
  args.shared_logits = saved.shared_logits.data<A>();
  args.routed_logits = saved.routed_logits.data<A>();
  if (saved.type_logits.defined()) args.type_logits = saved.type_logits.data<A>();
  args.kept = saved.kept.data<std::uint8_t>();
  args.load = saved.load.data<A>();
  args.balance_load = saved.balance_load.data<A>();
  return args;
}

/// Calls fn.operator()<Backend, A>() for float32 or float64.
template <class Fn>
void run_masked_router(const Tensor& like, Fn&& fn) {
  run_kernel("route_masked_heads", like, [&]<class Backend, class A>() {
    if constexpr (!std::is_same_v<A, bfloat16>) fn.template operator()<Backend, A>();
  });
}

Grads masked_backward(const SavedChoice& saved, std::span<const Tensor> dys) {
  Grads grads = {empty_like(saved.shared_logits), empty_like(saved.routed_logits),
                 saved.type_logits.defined() ? empty_like(saved.type_logits) : Tensor(),
                 empty_like(saved.masks)};
  run_masked_router(saved.masks, [&]<class Backend, class A>() {
    MaskedRouterArgs<A> args = args_of<A>(saved);
    if (dys[0].defined()) args.d_gates = dys[0].data<A>();
    if (dys[1].defined()) args.d_balance = dys[1].data<A>();
    args.d_shared_logits = grads[0].data<A>();
    args.d_routed_logits = grads[1].data<A>();
    if (grads[2].defined()) args.d_type_logits = grads[2].data<A>();
    args.d_masks = grads[3].data<A>();
    MaskedRouterKernels<Backend, A>::backward(args);
  });
  return grads;
}

}  // namespace

MaskedRouting route_masked_heads(const Variable& shared_logits, const Variable& routed_logits,
                                 const Variable& type_logits, const Variable& masks, double kept_share,
                                 BalanceLoss balance_loss, const Tensor& balance_load) {
  Check check("route_masked_heads");
  check.floating("routed_logits", routed_logits).rank("routed_logits", routed_logits, 2);
  const std::int64_t tokens = routed_logits.dim(0), heads = routed_logits.dim(1);
  const DType dtype = routed_logits.dtype();
  if (dtype == DType::kBFloat16)
    throw DTypeError(error_message("route_masked_heads", "dtype", "float32 or float64", "bfloat16"));
  check.shape("shared_logits", shared_logits, {tokens, heads}).dtype("shared_logits", shared_logits, dtype);
  check.shape("masks", masks, {heads}).dtype("masks", masks, dtype);
  if (type_logits.defined())
    check.shape("type_logits", type_logits, {tokens, 2}).dtype("type_logits", type_logits, dtype);
  check.in_range("kept_share", kept_share, 0, 1);
  if (balance_loss == BalanceLoss::kCv)
    throw ValueError(error_message("route_masked_heads", "balance_loss", "code, paper or shares", "cv"));
  check.like("masks", masks, "routed_logits", routed_logits);
  const Device device = masks.device();
  if (balance_load.defined()) {
    const Variable given(balance_load);
    check.shape("balance_load", given, {heads}).like("balance_load", given, "routed_logits", routed_logits);
  }
  const Tensor load = empty({heads}, dtype, device);
  SavedChoice saved{shared_logits.value(),
                    routed_logits.value(),
                    type_logits.defined() ? type_logits.value() : Tensor(),
                    masks.value(),
                    empty({tokens, heads}, DType::kUInt8, device),
                    load,
                    balance_load.defined() ? balance_load : load,
                    empty({2}, DType::kFloat64, device)};
  const Tensor gates = empty({tokens, heads}, dtype, device), balance = empty({}, dtype, device),
               selected = empty({tokens, heads}, DType::kUInt8, device),
               heads_each = empty({}, dtype, device),
               routed_weight = type_logits.defined() ? empty({1}, dtype, device) : Tensor();
  run_masked_router(saved.masks, [&]<class Backend, class A>() {
    MaskedRouterArgs<A> args = args_of<A>(saved);
    args.gates = gates.data<A>();
    args.selected = selected.data<std::uint8_t>();
    args.balance = balance.data<A>();
    args.heads_each = heads_each.data<A>();
    if (routed_weight.defined()) args.routed_weight = routed_weight.data<A>();
    MaskedRouterKernels<Backend, A>::count(args, kept_share, balance_loss);
    MaskedRouterKernels<Backend, A>::forward(args);
  });
  const std::vector<Variable> outputs = record_outputs(
      "route_masked_heads", {gates, balance}, {shared_logits, routed_logits, type_logits, masks},
      [saved](std::span<const Tensor> dys) { return masked_backward(saved, dys); });
  return {outputs[0], outputs[1], selected, saved.load, heads_each, saved.counts.select(0), routed_weight};
}

}  // namespace moh
