#include "ops/moh/head_router_inputs.h"

#include <algorithm>
#include <string>

#include "ops/indices.h"
#include "ops/op.h"

namespace moh {

namespace {

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

}  // namespace

void check_inputs(const RouterInputs& logits, const RouterWidths& widths, std::int64_t tokens, DType dtype) {
  if (logits.packed.defined())
    return check_logits("logits", logits.packed, tokens, widths.routed + widths.type + widths.shared, dtype);
  check_logits("shared_logits", logits.shared, tokens, widths.shared, dtype);
  check_logits("routed_logits", logits.routed, tokens, widths.routed, dtype);
  check_logits("type_logits", logits.type, tokens, widths.type, dtype);
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

}  // namespace moh
