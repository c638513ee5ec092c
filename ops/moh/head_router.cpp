#include "ops/moh/head_router.h"

#include <algorithm>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include "ops/indices.h"
#include "ops/moh/head_router_kernels.h"
#include "ops/op.h"

namespace moh {

namespace {

/// Tensors saved for the backward pass.
struct Saved {
  RouterOptions options;
  std::int64_t tokens;
  Tensor order, shared_probabilities, probabilities, type_probabilities, top, load, balance_load,
      mean_probability, group_probabilities;
};

template <class T>
T* data_or_null(const Tensor& tensor) {
  return tensor.defined() ? tensor.data<T>() : nullptr;
}

template <class A>
RouterArgs<A> args_of(const Saved& saved) {
  RouterArgs<A> args;
  args.tokens = saved.tokens;
  args.options = saved.options;
  const bool is_cv = saved.options.balance_loss == BalanceLoss::kCv;
  args.balance_factor = balance_factor(saved.options);
  args.balance_slope = is_cv ? 2 * args.balance_factor : args.balance_factor;
  if (is_cv && saved.tokens > 0) args.even_share = 1.0 / static_cast<double>(saved.options.group_routed());
  args.order = data_or_null<std::int32_t>(saved.order);
  args.shared_probabilities = data_or_null<A>(saved.shared_probabilities);
  args.probabilities = data_or_null<A>(saved.probabilities);
  args.type_probabilities = data_or_null<A>(saved.type_probabilities);
  args.top = data_or_null<std::int32_t>(saved.top);
  args.load = data_or_null<A>(saved.load);
  args.balance_load = data_or_null<A>(saved.balance_load);
  args.mean_probability = data_or_null<A>(saved.mean_probability);
  args.group_probabilities = data_or_null<A>(saved.group_probabilities);
  return args;
}

/// Calls fn.operator()<Backend, A>() for float32 or float64 logits, with the dtype and the back
/// end of `like`.
template <class Fn>
void run_router(const Tensor& like, Fn&& fn) {
  run_kernel("route_heads", like, [&]<class Backend, class A>() {
    if constexpr (!std::is_same_v<A, bfloat16>) fn.template operator()<Backend, A>();
  });
}

void check_logits(std::string_view name, const Variable& logits, std::int64_t tokens, std::int64_t width,
                  DType dtype) {
  if (width == 0) {
    if (logits.defined())
      throw ValueError(error_message("route_heads", name, "none for these head counts", "some"));
    return;
  }
  Check("route_heads").shape(name, logits, {tokens, width}).dtype(name, logits, dtype);
}

/// Checks that a forced selection has as many heads of each group, in the order of the groups.
void check_forced_groups(const Tensor& top, const RouterOptions& options) {
  const std::int64_t kept = options.group_top_k();
  const std::span<const std::int32_t> heads = top.span<std::int32_t>();
  for (std::int64_t i = 0; i < top.numel(); ++i) {
    const std::int64_t head = heads[static_cast<std::size_t>(i)], group = i % options.top_k / kept;
    const auto first = heads.begin() + (i - i % kept), at = heads.begin() + i;
    if (head / options.group_routed() == group && std::find(first, at, *at) == at) continue;
    throw ValueError(error_message("route_heads", "forced_top",
                                   std::to_string(kept) + " different heads of each group in turn",
                                   "head " + std::to_string(head) + " in group " + std::to_string(group)));
  }
}

void check_forced(const Tensor& top, std::int64_t tokens, const RouterOptions& options) {
  const Variable forced(top);
  Check("route_heads")
      .dtype("forced_top", forced, DType::kInt32)
      .shape("forced_top", forced, {tokens, options.top_k});
  checked_indices("route_heads", "forced_top", top, top.device(),
                  {.bound = options.heads - options.num_shared, .of = "the routed heads"});
  if (options.groups > 1 && top.device() == kCpu) check_forced_groups(top, options);
}

void check_order(const Tensor& given, std::int64_t heads, Device device) {
  const Variable order(given);
  Check("route_heads").dtype("order", order, DType::kInt32).shape("order", order, {heads});
  if (order.device() != device) {
    throw DeviceError(
        error_message("route_heads", "order", device_name(device), device_name(order.device())));
  }
}

/// Checks a tensor with a number for each routed head, if there is one.
void check_of_heads(std::string_view name, const Tensor& tensor, std::int64_t routed,
                    const Variable& logits) {
  if (!tensor.defined()) return;
  const Variable each(tensor);
  Check("route_heads").shape(name, each, {routed}).like(name, each, "routed_logits", logits);
}

Tensor balance_loss(const Saved& saved) {
  Tensor loss = empty({}, saved.load.dtype(), saved.load.device());
  run_router(loss, [&]<class Backend, class A>() {
    HeadRouterKernels<Backend, A>::balance_loss(args_of<A>(saved), loss.data<A>());
  });
  return loss;
}

Grads route_backward(const Saved& saved, const RouterWidths& widths, std::span<const Tensor> dys) {
  const Tensor& like = dys[0].defined() ? dys[0] : dys[1];
  const auto grad_of = [&](std::int64_t width) {
    return width > 0 ? empty({saved.tokens, width}, like.dtype(), like.device()) : Tensor();
  };
  Grads grads = {grad_of(widths.shared), grad_of(widths.routed), grad_of(widths.type)};
  run_router(like, [&]<class Backend, class A>() {
    RouterArgs<A> args = args_of<A>(saved);
    args.d_gates = data_or_null<A>(dys[0]);
    if (dys.size() > 1) args.d_balance = data_or_null<A>(dys[1]);
    args.d_shared_logits = data_or_null<A>(grads[0]);
    args.d_routed_logits = data_or_null<A>(grads[1]);
    args.d_type_logits = data_or_null<A>(grads[2]);
    HeadRouterKernels<Backend, A>::backward(args);
  });
  return grads;
}

}  // namespace

Routing route_heads(const Variable& shared_logits, const Variable& routed_logits, const Variable& type_logits,
                    std::int64_t num_tokens, const RouterOptions& options, const Tensor& order,
                    const Tensor& forced_top, Device device, const Tensor& balance_load,
                    const Tensor& selection_bias) {
  const RouterWidths widths = router_widths(options);
  const Variable& given = routed_logits.defined() ? routed_logits : shared_logits;
  const DType dtype = given.defined() && given.dtype() == DType::kFloat64 ? DType::kFloat64 : DType::kFloat32;
  if (given.defined()) device = given.device();
  check_logits("shared_logits", shared_logits, num_tokens, widths.shared, dtype);
  check_logits("routed_logits", routed_logits, num_tokens, widths.routed, dtype);
  check_logits("type_logits", type_logits, num_tokens, widths.type, dtype);
  if (forced_top.defined()) check_forced(forced_top, num_tokens, options);
  if (order.defined()) check_order(order, options.heads, device);
  check_of_heads("balance_load", balance_load, widths.routed, given);
  check_of_heads("selection_bias", selection_bias, widths.routed, given);

  const auto rows = [&](std::int64_t width, DType type) {
    return width > 0 ? empty({num_tokens, width}, type, device) : Tensor();
  };
  Saved saved{options,
              num_tokens,
              order,
              rows(widths.shared, dtype),
              rows(widths.routed, dtype),
              rows(widths.type, dtype),
              forced_top.defined() ? forced_top : rows(options.top_k, DType::kInt32),
              {},
              {},
              {},
              {}};
  const bool is_cv = options.balance_loss == BalanceLoss::kCv;
  Tensor own_balance_load;
  if (widths.routed > 0) {
    saved.load = empty({widths.routed}, dtype, device);
    saved.mean_probability = empty({widths.routed}, dtype, device);
    own_balance_load = is_cv ? saved.mean_probability : saved.load;
    saved.balance_load = balance_load.defined() ? balance_load : own_balance_load;
    const bool of_groups = options.groups > 1 && options.scaling != GateScaling::kShares;
    if (of_groups || is_cv) saved.group_probabilities = rows(widths.routed, dtype);
  }
  const Tensor gates = empty({num_tokens, options.heads}, dtype, device);
  const Tensor selected = empty({num_tokens, options.heads}, DType::kUInt8, device);
  run_router(gates, [&]<class Backend, class A>() {
    RouterArgs<A> args = args_of<A>(saved);
    args.forced = forced_top.defined();
    args.selection_bias = data_or_null<A>(selection_bias);
    if (shared_logits.defined()) args.shared_logits = shared_logits.value().data<A>();
    if (routed_logits.defined()) args.routed_logits = routed_logits.value().data<A>();
    if (type_logits.defined()) args.type_logits = type_logits.value().data<A>();
    args.gates = gates.data<A>();
    args.selected = selected.data<std::uint8_t>();
    HeadRouterKernels<Backend, A>::forward(args);
  });

  std::vector<Tensor> outputs = {gates};
  if (widths.routed > 0) outputs.push_back(balance_loss(saved));
  const std::vector<Variable> recorded = record_outputs(
      "route_heads", outputs, {shared_logits, routed_logits, type_logits},
      [saved, widths](std::span<const Tensor> dys) { return route_backward(saved, widths, dys); });
  return {recorded[0],     recorded.size() > 1 ? recorded[1] : Variable(),
          selected,        saved.probabilities,
          saved.top,       saved.load,
          own_balance_load};
}

}  // namespace moh
