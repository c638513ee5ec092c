#pragma once

#include <vector>

#include "core/tensor.h"
#include "core/visit_cpu_isa.h"
#include "ops/attention/list_walk.h"
#include "ops/attention/schedule.h"
#include "ops/run_tasks.h"

// Runs the CPU kernels' tasks: plan, scratch, parallel loop.

namespace moh {

/// Whether one thread finishes the work before others could be woken.
inline bool is_small(const AttentionShape& shape, const RowLists& lists) {
  constexpr double kSmall = 1 << 17;  // multiplications, some ten microseconds
  return static_cast<double>(total_rows(shape, lists)) * static_cast<double>(shape.keys * shape.head_dim) <
         kSmall;
}

/// Calls fn.template operator()<Kernels>() with the kernels of the current instruction set.
template <class T, class Fn>
decltype(auto) visit_attention_kernels(const Fn& fn) {
  return visit_isa_for<T>(
      [&]<class Backend>() { return fn.template operator()<AttentionKernels<Backend, T>>(); });
}

template <class T>
void attention_forward(const AttentionForward<T>& args) {
  visit_attention_kernels<T>([&]<class Kernels>() {
    run_tasks(plan_rows(args.shape, args.lists, num_threads()), is_small(args.shape, args.lists),
              Kernels::forward_scratch_bytes(args.shape),
              [&](const RowTask& task, std::byte* scratch) { Kernels::forward(args, task, scratch); });
  });
}

/// dgates of the rows whose gate is too small to divide by, from recomputed head outputs.
template <class T>
void dgates_of_tiny_gates(const AttentionBackward<T>& args) {
  const AttentionShape& shape = args.shape;
  std::vector<std::int32_t> rows;
  std::vector<std::int64_t> offsets = {0};
  std::vector<std::int64_t> gates;
  for (std::int64_t l = 0; l < shape.batch * shape.kv_heads; ++l) {
    const List list = list_at(shape, args.lists, l);
    for (std::int64_t r = 0; r < list.rows; ++r) {
      const Pair pair = pair_at(list, r);
      const std::int64_t gate = gate_index(shape, list, pair);
      if (!is_tiny_gate(args.gates[gate])) continue;
      rows.push_back(static_cast<std::int32_t>(pair.token | pair.head << kListPositionBits));
      gates.push_back(gate);
    }
    offsets.push_back(static_cast<std::int64_t>(rows.size()));
  }
  if (rows.empty()) return;
  const std::int64_t d = shape.head_dim;
  const Tensor out = empty({shape.batch, shape.queries, shape.heads, d}, dtype_of<T>());
  AttentionForward<T> again{shape, {rows.data(), offsets.data()}, args.q, args.k, args.v};
  again.out = {out.data<T>(), shape.queries * shape.heads * d, shape.heads * d, d};
  attention_forward(again);
  std::size_t next = 0;
  for (std::int64_t l = 0; l < shape.batch * shape.kv_heads; ++l) {
    const List list = list_at(shape, again.lists, l);
    for (std::int64_t r = 0; r < list.rows; ++r, ++next) {
      const T* dout = row_of(args.dout, list, pair_at(list, r));
      const T* head = row_of(again.out, list, pair_at(list, r));
      Acc<T> sum = 0;
      for (std::int64_t c = 0; c < d; ++c) sum += Acc<T>(dout[c]) * Acc<T>(head[c]);
      args.dgates[gates[next]] = sum;
    }
  }
}

/// Bytes of AttentionBackward::dq_partials for lists of `rows` rows in all, where tasks have a group each.
template <class Kernels>
std::size_t dq_partials_bytes(const AttentionShape& shape, std::int64_t num_groups, std::int64_t rows) {
  const std::int64_t padded = Kernels::padded_head_dim(shape.head_dim);
  return static_cast<std::size_t>(num_groups * rows * padded) * sizeof(typename Kernels::Sum);
}

/// Bytes of workspace that attention_forward takes.
template <class T>
std::size_t attention_forward_workspace(const AttentionShape& shape) {
  return visit_attention_kernels<T>([&]<class Kernels>() {
    return Kernels::forward_scratch_bytes(shape) * static_cast<std::size_t>(num_threads());
  });
}
/// Bytes of workspace that attention_backward takes for lists of `rows` rows in all, the longest of
/// `longest`.
template <class T>
std::size_t attention_backward_workspace(const AttentionShape& shape, std::int64_t rows,
                                         std::int64_t longest) {
  const KeyGroups groups = key_groups(shape, num_threads());
  return visit_attention_kernels<T>([&]<class Kernels>() {
    return (groups.whole_lists ? 0 : dq_partials_bytes<Kernels>(shape, groups.count, rows)) +
           Kernels::backward_scratch_bytes(shape, longest, groups.sums_groups()) *
               static_cast<std::size_t>(num_threads());
  });
}

/// The backward pass of all tasks. args.group_keys and args.dq_partials are set here.
template <class T>
void attention_backward(AttentionBackward<T> args) {
  const KeyGroups groups = key_groups(args.shape, num_threads());
  args.group_keys = groups.keys;
  visit_attention_kernels<T>([&]<class Kernels>() {
    const std::int64_t rows = total_rows(args.shape, args.lists);
    const Scratch dq_partials(
        groups.whole_lists ? 0 : dq_partials_bytes<Kernels>(args.shape, groups.count, rows));
    args.dq_partials = groups.whole_lists ? nullptr : dq_partials.as<Acc<T>>();
    run_tasks(plan_keys(args.shape, args.lists, groups, num_threads()), is_small(args.shape, args.lists),
              Kernels::backward_scratch_bytes(args.shape, longest_list(args.shape, args.lists),
                                              groups.sums_groups()),
              [&](const KeyTask& task, std::byte* scratch) { Kernels::backward_keys(args, task, scratch); });
    if (!groups.whole_lists) {
      run_tasks(plan_rows(args.shape, args.lists, num_threads()), false, 0,
                [&](const RowTask& task, std::byte*) { Kernels::backward_queries(args, task); });
    }
  });
  if (args.gates && args.dgates) dgates_of_tiny_gates(args);
}

}  // namespace moh
