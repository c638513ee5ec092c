#include "train/plan/planned_ops.h"

#include <algorithm>
#include <utility>

#include "autograd/node.h"
#include "core/parallel.h"

namespace moh {

namespace {

std::int64_t item_bytes(DType dtype) {
  return static_cast<std::int64_t>(dtype_size(dtype));
}

/// Chunks that rows are cut into (row_grain in ops/cpu/reduce.h).
std::int64_t row_chunks(std::int64_t rows, std::int64_t width) {
  return num_chunks(rows, std::max((std::int64_t{1} << 14) / width + 1, (rows + 63) / 64));
}

}  // namespace

void PlannedOps::workspace(std::int64_t bytes) const {
  if (bytes == 0) return;
  const MemoryPurposeScope purpose(MemoryPurpose::kWorkspace);
  const PlannedTensor scratch = tensor(bytes, DType::kUInt8);
}

PlannedVariable PlannedOps::parameter(std::int64_t numel, DType dtype) const {
  const MemoryPurposeScope purpose(MemoryPurpose::kParameter);
  return PlannedVariable(tensor(numel, dtype), true);
}

PlannedVariable PlannedOps::embedding(const PlannedVariable& table, std::int64_t vocab,
                                      std::int64_t tokens) const {
  const std::int64_t width = table.value().numel() / vocab;
  // On a GPU the ids are checked in a copy of their own.
  const PlannedTensor ids = on_cpu() ? PlannedTensor() : tensor(tokens, DType::kInt64);
  return record_planned(tensor(tokens * width, table.value().dtype()), {table},
                        [*this, ids, table = table.value(), vocab, tokens,
                         width](std::span<const PlannedTensor>) -> PlannedGrads {
                          const PlannedTensor dtable = table.like();
                          workspace((vocab + 1 + tokens) * item_bytes(DType::kInt64) +
                                    3 * row_chunks(tokens, width) * width * item_bytes(DType::kFloat32));
                          return {dtable};
                        });
}

PlannedVariable PlannedOps::rms_norm(const PlannedVariable& x, const PlannedVariable& w) const {
  const PlannedTensor r = tensor(x.value().numel() / w.value().numel(), DType::kFloat32);
  return record_planned(
      x.value().like(), {x, w},
      [*this, x = x.value(), w = w.value(), r](std::span<const PlannedTensor>) -> PlannedGrads {
        const auto [dx, dw] = norm_gradients(x, w);
        return {dx, dw};
      });
}

std::pair<PlannedVariable, PlannedVariable> PlannedOps::add_rms_norm(const PlannedVariable& x,
                                                                     const PlannedVariable& branch,
                                                                     const PlannedVariable& w) const {
  const PlannedTensor sum = x.value().like(), y = x.value().like();
  const PlannedTensor r = tensor(x.value().numel() / w.value().numel(), DType::kFloat32);
  const std::vector<PlannedVariable> outputs =
      record_planned({sum, y}, {x, branch, w},
                     [*this, sum, w = w.value(), r](std::span<const PlannedTensor>) -> PlannedGrads {
                       const auto [dx, dw] = norm_gradients(sum, w);
                       return {dx, dx, dw};
                     });
  return {outputs[0], outputs[1]};
}

std::pair<PlannedTensor, PlannedTensor> PlannedOps::norm_gradients(const PlannedTensor& x,
                                                                   const PlannedTensor& w) const {
  std::pair<PlannedTensor, PlannedTensor> gradients{x.like(), w.like()};
  sum_over_rows(x.numel() / w.numel(), w.numel());
  return gradients;
}

/// Partial sums of chunks of rows.
void PlannedOps::sum_over_rows(std::int64_t rows, std::int64_t width) const {
  workspace((row_chunks(rows, width) + 1) * width * item_bytes(DType::kFloat32));
}

PlannedVariable PlannedOps::reshape(const PlannedVariable& x) const {
  return record_planned(x.value(), {x},
                        [](std::span<const PlannedTensor> dys) -> PlannedGrads { return {dys[0]}; });
}

PlannedVariable PlannedOps::swiglu(const PlannedVariable& gate, const PlannedVariable& up) const {
  return record_planned(gate.value().like(), {gate, up},
                        [](std::span<const PlannedTensor> dys) -> PlannedGrads {
                          return {dys[0].like(), dys[0].like()};
                        });
}

PlannedVariable PlannedOps::add(const PlannedVariable& a, const PlannedVariable& b) const {
  return record_planned(a.value().like(), {a, b}, [](std::span<const PlannedTensor> dys) -> PlannedGrads {
    return {dys[0], dys[0]};
  });
}

PlannedVariable PlannedOps::map(const PlannedVariable& x) const {
  return record_planned(x.value().like(), {x},
                        [](std::span<const PlannedTensor> dys) -> PlannedGrads { return {dys[0].like()}; });
}

PlannedVariable PlannedOps::cross_entropy(const PlannedVariable& logits, const PlannedTensor& targets,
                                          std::int64_t tokens) const {
  const PlannedTensor ids = on_cpu() ? targets : targets.like();
  const PlannedTensor losses = tensor(tokens, DType::kFloat32), maxima = losses.like(), sums = losses.like();
  return record_planned(tensor(1, DType::kFloat32), {logits},
                        [x = logits.value(), ids, maxima,
                         sums](std::span<const PlannedTensor>) -> PlannedGrads { return {x}; });
}

PlannedRouting PlannedOps::route_heads(const PlannedVariable& shared, const PlannedVariable& routed,
                                       const PlannedVariable& type, std::int64_t tokens,
                                       const RouterOptions& options) const {
  const RouterWidths widths = router_widths(options);
  const auto rows = [&](std::int64_t width, DType dtype) {
    return width > 0 ? tensor(tokens * width, dtype) : PlannedTensor();
  };
  struct Saved {
    PlannedTensor shared, probabilities, type, top, load, mean;
  } saved{rows(widths.shared, DType::kFloat32),
          rows(widths.routed, DType::kFloat32),
          rows(widths.type, DType::kFloat32),
          rows(options.top_k, DType::kInt32),
          {},
          {}};
  if (widths.routed > 0) {
    saved.load = tensor(widths.routed, DType::kFloat32);
    saved.mean = saved.load.like();
  }
  std::vector<PlannedTensor> outputs = {rows(options.heads, DType::kFloat32)};
  const PlannedTensor selected = rows(options.heads, DType::kUInt8);
  if (widths.routed > 0) outputs.push_back(tensor(1, DType::kFloat32));
  const auto backward = [*this, saved, widths, tokens](std::span<const PlannedTensor>) -> PlannedGrads {
    PlannedGrads grads;
    for (const std::int64_t width : {widths.shared, widths.routed, widths.type}) {
      grads.push_back(width > 0 ? tensor(tokens * width, DType::kFloat32) : PlannedTensor());
    }
    return grads;
  };
  const std::vector<PlannedVariable> recorded =
      record_planned(std::move(outputs), {shared, routed, type}, backward);
  return {recorded[0], recorded.size() > 1 ? recorded[1] : PlannedVariable(),
          selected,    saved.probabilities,
          saved.top,   saved.load};
}

PlannedVariable PlannedOps::query_norm(const PlannedVariable& q, std::int64_t tokens,
                                       std::int64_t routed) const {
  const PlannedTensor norms = tensor(tokens * routed, DType::kFloat32),
                      inverse = tensor(tokens, DType::kFloat32);
  return record_planned(
      norms.like(), {q},
      [q = q.value(), norms, inverse](std::span<const PlannedTensor>) -> PlannedGrads { return {q.like()}; });
}

PlannedVariable PlannedOps::attention(const PlannedVariable& q, const PlannedVariable& k,
                                      const PlannedVariable& v, const PlannedVariable& gates,
                                      const PlannedLists& lists, const AttentionShape& shape) const {
  const DType dtype = q.value().dtype();
  PlannedTensor lse;
  if (grad_enabled()) lse = tensor(lists.num_rows, DType::kFloat32);
  const PlannedTensor out = tensor(q.value().numel(), dtype);
  attention_workspace(shape, lists, dtype, /*backward=*/false);
  std::vector<PlannedVariable> inputs = {q, k, v};
  if (gates.defined()) inputs.push_back(gates);
  const auto backward = [*this, q = q.value(), k = k.value(), v = v.value(), lse, out, lists, shape,
                         gates = gates.defined() ? gates.value() : PlannedTensor()](
                            std::span<const PlannedTensor>) -> PlannedGrads {
    PlannedGrads grads = {q.like(), k.like(), v.like()};
    if (gates.defined()) grads.push_back(gates.like());
    attention_workspace(shape, lists, q.dtype(), /*backward=*/true);
    return grads;
  };
  return record_planned(out, inputs, backward);
}

PlannedVariable PlannedOps::project_to_heads(const PlannedVariable& x, const PlannedVariable& w,
                                             const PlannedLists& lists, const AttentionShape& shape) const {
  const DType dtype = x.value().dtype();
  const std::int64_t width = w.value().numel() / (shape.heads * shape.head_dim);
  const PlannedTensor y = tensor(shape.batch * shape.queries * shape.heads * shape.head_dim, dtype);
  projection_workspace(Projection::kToHeads, shape, width, dtype);
  return record_planned(y, {x, w},
                        [*this, x = x.value(), w = w.value(), lists, shape,
                         width](std::span<const PlannedTensor>) -> PlannedGrads {
                          const PlannedTensor dx = x.like();
                          projection_workspace(Projection::kFromHeads, shape, width, x.dtype());
                          const PlannedTensor dw = tensor(w.numel(), DType::kFloat32);
                          projection_workspace(Projection::kWeightGradient, shape, width, x.dtype());
                          return {dx, dw};
                        });
}

PlannedVariable PlannedOps::project_from_heads(const PlannedVariable& heads, const PlannedVariable& w,
                                               const PlannedLists& lists, const AttentionShape& shape) const {
  const DType dtype = heads.value().dtype();
  const std::int64_t width = w.value().numel() / (shape.heads * shape.head_dim);
  const PlannedTensor y = tensor(shape.batch * shape.queries * width, dtype);
  projection_workspace(Projection::kFromHeads, shape, width, dtype);
  return record_planned(y, {heads, w},
                        [*this, heads = heads.value(), w = w.value(), lists, shape,
                         width](std::span<const PlannedTensor>) -> PlannedGrads {
                          const PlannedTensor dheads = heads.like();
                          projection_workspace(Projection::kToHeads, shape, width, heads.dtype());
                          const PlannedTensor dw = tensor(w.numel(), DType::kFloat32);
                          projection_workspace(Projection::kWeightGradient, shape, width, heads.dtype());
                          return {dheads, dw};
                        });
}

}  // namespace moh
