#include "ops/attention/operands.h"

#include <cmath>
#include <string>

#include "ops/op.h"

namespace moh {

namespace {

void check_same_device(std::string_view op, std::string_view name, const Tensor& tensor, Device device) {
  if (tensor.device() != device)
    throw DeviceError(error_message(op, name, device_name(device), device_name(tensor.device())));
}

}  // namespace

void complete_shape(std::string_view op, AttentionShape& s, const AttentionOptions& options) {
  constexpr std::int64_t kMaxHeadDim = 256;
  Check(op)
      .require(s.heads >= 1 && s.kv_heads >= 1 && s.heads % s.kv_heads == 0, "heads",
               "a multiple of the KV heads",
               std::to_string(s.heads) + " heads, " + std::to_string(s.kv_heads) + " KV heads")
      .require(s.head_dim >= 1 && s.head_dim <= kMaxHeadDim, "head width", "1 to 256",
               std::to_string(s.head_dim))
      .require(s.keys >= 1 || s.batch * s.queries == 0, "keys", "at least one", "none")
      .in_range("scale", options.scale, 0.0, 1e30)
      .in_range("query_offset", static_cast<double>(options.query_offset), 0.0, 0x1p62);
  s.causal = options.causal;
  s.query_offset = options.query_offset;
  s.scale = options.scale > 0.0 ? options.scale : 1.0 / std::sqrt(static_cast<double>(s.head_dim));
}

void check_lists(std::string_view op, const AttentionShape& s, Device device, const Variable& gates,
                 const HeadLists& lists) {
  Check(op).floating("gates", gates).shape("gates", gates, {s.batch, s.queries, s.heads});
  MOH_CHECK(lists.rows.defined() && lists.offsets.defined(), "head lists are built by build_head_lists");
  check_same_device(op, "gates", gates.value(), device);
  check_same_device(op, "lists", lists.rows, device);
  const Shape expected{s.batch, s.queries, s.heads, s.kv_heads};
  const Shape found{lists.batch, lists.tokens, lists.heads, lists.kv_heads};
  Check(op).require(expected == found, "lists: batch, tokens, heads, KV heads", to_string(expected),
                    to_string(found));
}

double attention_flops(const AttentionShape& s, std::int64_t rows) {
  const double keys = s.causal ? static_cast<double>(s.query_offset) + static_cast<double>(s.queries + 1) / 2
                               : static_cast<double>(s.keys);
  return 4 * static_cast<double>(rows) * keys * static_cast<double>(s.head_dim);
}

RowLists row_lists(const HeadLists& lists) {
  if (!lists.rows.defined()) return {};
  return {lists.rows.data<std::int32_t>(), lists.offsets.data<std::int64_t>()};
}

}  // namespace moh
