#include "core/cpu_isa.h"
#include "core/parallel.h"
#include "ops/attention/schedule.h"
#include "ops/moh/head_projection_kernels.h"
#include "train/plan/planned_ops.h"

// Scratch of the kernels, as the kernels themselves ask for it.

namespace moh {

namespace {

/// Calls fn.operator()<Kernels' back end, T>() for the CPU's kernels of a dtype.
template <class Fn>
void visit_cpu_kernels(DType dtype, const Fn& fn) {
  visit_cpu_isa([&]<class Backend>() {
    dtype == DType::kBFloat16 ? fn.template operator()<Backend, bfloat16>()
                              : fn.template operator()<Backend, float>();
  });
}

}  // namespace

void PlannedOps::attention_workspace(const AttentionShape& shape, const PlannedLists& lists, DType dtype,
                                     bool backward) const {
  constexpr std::int64_t kItem = sizeof(float);
  if (!on_cpu()) {
    if (backward) workspace(lists.num_rows * kItem);  // <dout, out> of each row
    return;
  }
  visit_cpu_kernels(dtype, [&]<class Backend, class T>() {
    using Kernels = AttentionKernels<Backend, T>;
    const auto bytes = [&](std::size_t each) { return static_cast<std::int64_t>(each) * num_threads(); };
    if (!backward) return workspace(bytes(Kernels::forward_scratch_bytes(shape)));
    const KeyPlan plan = plan_keys(shape, {});
    const std::int64_t shares = plan.num_groups == 1 ? 0
                                                     : plan.num_groups * lists.num_rows *
                                                           Kernels::padded_head_dim(shape.head_dim) * kItem;
    const MemoryPurposeScope purpose(MemoryPurpose::kWorkspace);
    const PlannedTensor dq_partials = tensor(shares, DType::kUInt8);
    workspace(bytes(Kernels::backward_scratch_bytes(shape, lists.longest)));
  });
}

void PlannedOps::projection_workspace(Projection part, const AttentionShape& shape, std::int64_t width,
                                      DType dtype) const {
  visit_cpu_kernels(dtype, [&]<class Backend, class T>() {
    using Kernels = HeadProjectionKernels<Backend, T>;
    const HeadProjection p{shape.batch,    shape.queries, shape.heads,
                           shape.head_dim, width,         shape.heads * shape.head_dim};
    const std::size_t each = part == Projection::kToHeads     ? Kernels::to_heads_scratch_bytes(p)
                             : part == Projection::kFromHeads ? Kernels::from_heads_scratch_bytes(p)
                                                              : Kernels::weight_gradient_scratch_bytes(p);
    const std::int64_t panels =
        part == Projection::kFromHeads ? num_chunks(width, kProjectionPanel) * shape.heads : 0;
    const MemoryPurposeScope purpose(MemoryPurpose::kWorkspace);
    const PlannedTensor packed = tensor(panels * shape.head_dim * kProjectionPanel, DType::kFloat32);
    workspace(static_cast<std::int64_t>(each) * num_threads());
  });
}

}  // namespace moh
