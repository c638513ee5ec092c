#include "ops/moh/head_router.h"

#include <span>
#include <type_traits>
#include <vector>

#include "ops/data_or_null.h"
#include "ops/moh/head_router_inputs.h"
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

  bool is_cv() const { return options.balance_loss == BalanceLoss::kCv; }
  /// Routing::balance_load
  const Tensor& own_balance_load() const { return is_cv() ? mean_probability : load; }
};

template <class A>
RouterArgs<A> args_of(const Saved& saved) {
  RouterArgs<A> args;
  args.tokens = saved.tokens;
  args.options = saved.options;
  args.balance_factor = balance_factor(saved.options);
  args.balance_slope = saved.is_cv() ? 2 * args.balance_factor : args.balance_factor;
  if (saved.is_cv() && saved.tokens > 0)
    args.even_share = 1.0 / static_cast<double>(saved.options.group_routed());
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

Grads route_backward(const Saved& saved, const RouterWidths& widths, bool packed,
                     std::span<const Tensor> dys) {
  const Tensor& like = dys[0].defined() ? dys[0] : dys[1];
  const auto grad_of = [&](std::int64_t width) {
    return width > 0 ? empty({saved.tokens, width}, like.dtype(), like.device()) : Tensor();
  };
  Grads grads = packed ? Grads{grad_of(widths.routed + widths.type + widths.shared)}
                       : Grads{grad_of(widths.shared), grad_of(widths.routed), grad_of(widths.type)};
  run_router(like, [&]<class Backend, class A>() {
    RouterArgs<A> args = args_of<A>(saved);
    args.d_gates = data_or_null<A>(dys[0]);
    if (dys.size() > 1) args.d_balance = data_or_null<A>(dys[1]);
    const LogitColumns<A> columns = columns_of<A>(grads, widths);
    args.d_shared_logits = columns.shared;
    args.d_routed_logits = columns.routed;
    args.d_type_logits = columns.type;
    HeadRouterKernels<Backend, A>::backward(args);
  });
  return grads;
}

/// Tensors that a pass writes, and does not save.
struct Results {
  Tensor gates, selected, balance, statistics;
};

Results results_of(const RouterOptions& options, const RouterWidths& widths, std::int64_t tokens, DType dtype,
                   Device device) {
  Results results{empty({tokens, options.heads}, dtype, device),
                  empty({tokens, options.heads}, DType::kUInt8, device)};
  if (widths.routed == 0) return results;
  results.balance = empty({}, dtype, device);
  results.statistics = empty({2}, dtype, device);
  return results;
}

/// Room for what a pass saves; with `balance_load` and `forced_top` where these are given.
Saved room_for(const RouterOptions& options, const RouterWidths& widths, const Results& results,
               const Tensor& order, const Tensor& forced_top, const Tensor& balance_load) {
  const std::int64_t tokens = results.gates.dim(0);
  const DType dtype = results.gates.dtype();
  const Device device = results.gates.device();
  const auto rows = [&](std::int64_t width, DType type) {
    return width > 0 ? empty({tokens, width}, type, device) : Tensor();
  };
  Saved saved{.options = options, .tokens = tokens, .order = order};
  saved.shared_probabilities = rows(widths.shared, dtype);
  saved.probabilities = rows(widths.routed, dtype);
  saved.type_probabilities = rows(widths.type, dtype);
  saved.top = forced_top.defined() ? forced_top : rows(options.top_k, DType::kInt32);
  if (widths.routed == 0) return saved;
  saved.load = empty({widths.routed}, dtype, device);
  saved.mean_probability = empty({widths.routed}, dtype, device);
  saved.balance_load = balance_load.defined() ? balance_load : saved.own_balance_load();
  const bool of_groups = options.groups > 1 && options.scaling != GateScaling::kShares;
  if (of_groups || saved.is_cv()) saved.group_probabilities = rows(widths.routed, dtype);
  return saved;
}

template <class A>
RouterArgs<A> forward_args(const Saved& saved, const Results& results, const std::vector<Variable>& logits,
                           const RouterWidths& widths) {
  RouterArgs<A> args = args_of<A>(saved);
  std::vector<Tensor> values;
  for (const Variable& of : logits) values.push_back(of.defined() ? of.value() : Tensor());
  const LogitColumns<const A> columns = columns_of<const A>(values, widths);
  args.shared_logits = columns.shared;
  args.routed_logits = columns.routed;
  args.type_logits = columns.type;
  args.gates = results.gates.data<A>();
  args.selected = results.selected.data<std::uint8_t>();
  args.balance = data_or_null<A>(results.balance);
  args.statistics = data_or_null<A>(results.statistics);
  return args;
}

Routing route(const RouterInputs& logits, std::int64_t num_tokens, const RouterOptions& options,
              const Tensor& order, const Tensor& forced_top, Device device, const Tensor& balance_load,
              const Tensor& selection_bias) {
  const RouterWidths widths = router_widths(options);
  const Variable& given = logits.any();
  const DType dtype = given.defined() && given.dtype() == DType::kFloat64 ? DType::kFloat64 : DType::kFloat32;
  if (given.defined()) device = given.device();
  check_inputs(logits, widths, num_tokens, dtype);
  if (forced_top.defined()) check_forced(forced_top, num_tokens, options);
  if (order.defined()) check_order(order, options.heads, device);
  check_of_heads("balance_load", balance_load, widths.routed, given);
  check_of_heads("selection_bias", selection_bias, widths.routed, given);

  const Results results = results_of(options, widths, num_tokens, dtype, device);
  const Saved saved = room_for(options, widths, results, order, forced_top, balance_load);
  const std::vector<Variable> inputs = logits.all();
  run_router(results.gates, [&]<class Backend, class A>() {
    RouterArgs<A> args = forward_args<A>(saved, results, inputs, widths);
    args.forced = forced_top.defined();
    args.selection_bias = data_or_null<A>(selection_bias);
    HeadRouterKernels<Backend, A>::forward(args);
  });
  std::vector<Tensor> outputs = {results.gates};
  if (widths.routed > 0) outputs.push_back(results.balance);
  const bool packed = logits.packed.defined();
  const std::vector<Variable> recorded =
      record_outputs("route_heads", outputs, inputs, [saved, widths, packed](std::span<const Tensor> dys) {
        return route_backward(saved, widths, packed, dys);
      });
  return {.gates = recorded[0],
          .balance = recorded.size() > 1 ? recorded[1] : Variable(),
          .selected = results.selected,
          .probabilities = saved.probabilities,
          .top = saved.top,
          .load = saved.load,
          .balance_load = saved.own_balance_load(),
          .statistics = results.statistics};
}

}  // namespace

Routing route_heads(const Variable& shared_logits, const Variable& routed_logits, const Variable& type_logits,
                    std::int64_t num_tokens, const RouterOptions& options, const Tensor& order,
                    const Tensor& forced_top, Device device, const Tensor& balance_load,
                    const Tensor& selection_bias) {
  return route({shared_logits, routed_logits, type_logits, {}}, num_tokens, options, order, forced_top,
               device, balance_load, selection_bias);
}

Routing route_heads_packed(const Variable& logits, const RouterOptions& options, const Tensor& order,
                           const Tensor& forced_top, const Tensor& balance_load,
                           const Tensor& selection_bias) {
  Check("route_heads").rank("logits", logits, 2);
  return route({{}, {}, {}, logits}, logits.dim(0), options, order, forced_top, logits.device(), balance_load,
               selection_bias);
}

}  // namespace moh
