#include "models/llm/llama_flops.h"

#include "ops/moh/head_projection.h"

namespace moh {

namespace {

/// What one layer computes per token, or per pair of tokens and head.
struct LayerCounts {
  std::int64_t query_heads, output_heads, attended_heads, router_rows;
};

double layer_flops(const LlamaConfig& c, const LayerCounts& counts, double rows, double pairs) {
  const auto width = static_cast<double>(c.hidden), head = static_cast<double>(c.head_dim);
  const auto product = [&](double columns) { return 2 * rows * width * columns; };
  return product(static_cast<double>(counts.query_heads) * head) +
         2 * product(static_cast<double>(c.kv_heads) * head) +
         product(static_cast<double>(counts.output_heads) * head) +
         4 * pairs * static_cast<double>(counts.attended_heads) * head +
         3 * product(static_cast<double>(c.intermediate)) + product(static_cast<double>(counts.router_rows));
}

std::int64_t router_rows(const HeadRoutingOptions& routing) {
  if (routing.kind != RouterKind::kLearned) return 0;
  const RouterWidths widths = router_widths(routing.router);
  return widths.shared + widths.routed + widths.type;
}

}  // namespace

ProjectedHeads projected_heads(const HeadRoutingOptions& routing, std::int64_t head_dim, std::int64_t tokens,
                               Device device) {
  const std::int64_t heads = routing.router.heads, attended = attended_heads(routing);
  const double active = static_cast<double>(attended) / static_cast<double>(heads);
  const bool by_heads = device == kCpu && head_projection_pays(tokens, head_dim, active);
  if (routing.kind == RouterKind::kNone || !by_heads) return {heads, heads};
  return {routing.kind == RouterKind::kLearned ? attended : heads, attended};
}

std::int64_t attended_heads(const HeadRoutingOptions& routing) {
  return computed_heads(routing, /*backward_follows=*/true);
}

StepFlops step_flops(const LlamaConfig& c, std::int64_t sequences, std::int64_t tokens, Device device) {
  const double rows = static_cast<double>(sequences) * static_cast<double>(tokens);
  const double pairs = rows * static_cast<double>(tokens + 1) / 2;
  const double output_matrix = 2 * rows * static_cast<double>(c.hidden) * static_cast<double>(c.vocab_size);
  StepFlops forward{output_matrix, output_matrix};
  for (std::int64_t layer = 0; layer < c.layers; ++layer) {
    const HeadRoutingOptions routing = routing_of(c, layer);
    const ProjectedHeads projected = projected_heads(routing, c.head_dim, sequences * tokens, device);
    forward.dense += layer_flops(c, {c.heads, c.heads, c.heads, 0}, rows, pairs);
    forward.routed +=
        layer_flops(c, {projected.queries, projected.outputs, attended_heads(routing), router_rows(routing)},
                    rows, pairs);
  }
  return {3 * forward.dense, 3 * forward.routed};
}

}  // namespace moh
