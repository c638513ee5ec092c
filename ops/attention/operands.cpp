#include "ops/attention/operands.h"

#include <cmath>
#include <string>

#include "ops/op.h"

namespace moh {

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

RowLists row_lists(const HeadLists& lists) {
  if (!lists.rows.defined()) return {};
  return {lists.rows.data<std::int32_t>(), lists.offsets.data<std::int64_t>()};
}

}  // namespace moh
