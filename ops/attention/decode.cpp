#include "ops/attention/decode.h"

#include <string>

#include "ops/aligned.h"
#include "ops/attention/attention_cuda.h"
#include "ops/attention/attention_run.h"
#include "ops/attention/decode_kernels.h"
#include "ops/attention/operands.h"
#include "ops/op.h"

namespace moh {

namespace {

constexpr auto kDecodeOp = "attention_decode";
/// From this many query tokens on, a GPU uses the kernels of training.
constexpr std::int64_t kManyOnGpu = 8;

AttentionShape checked_shape(const Tensor& q, const Tensor& k, const Tensor& v, std::int64_t num_keys,
                             const AttentionOptions& options) {
  const Variable vq(q), vk(k), vv(v);
  Check(kDecodeOp).floating("q", vq).rank("q", vq, 4).like("k_cache", vk, "q", vq).rank("k_cache", vk, 4);
  const std::int64_t capacity = k.dim(2);
  Check(kDecodeOp)
      .shape("k_cache", vk, {q.dim(0), k.dim(1), capacity, q.dim(3)}, "batch and head width of q")
      .like("v_cache", vv, "q", vq)
      .shape("v_cache", vv, k.shape(), "that of k_cache")
      .require(num_keys >= q.dim(1) && num_keys <= capacity, "num_keys",
               "at least the " + std::to_string(q.dim(1)) + " queries, at most the capacity of " +
                   std::to_string(capacity),
               std::to_string(num_keys))
      .in_range("query_offset", static_cast<double>(options.query_offset), 0.0, 0.0)
      .require(!options.document_starts.defined() && !options.document_ends.defined(), "documents",
               "none: a cache holds one document", "a tensor")
      .require(options.dropout == 0.0, "dropout", "none: it is for training",
               std::to_string(options.dropout));
  AttentionShape s{q.dim(0), q.dim(1), num_keys, q.dim(2), k.dim(1), q.dim(3)};
  AttentionOptions with_offset = options;
  with_offset.query_offset = num_keys - q.dim(1);
  complete_shape(kDecodeOp, s, q.device(), with_offset);
  return s;
}

/// The parts that hold keys which some query sees: those of the first query's window and later ones.
Range parts_of(const AttentionShape& shape) {
  return {visible_keys(shape, 0, 0).begin / kDecodePartKeys, num_chunks(shape.keys, kDecodePartKeys)};
}

std::vector<KeyTask> part_tasks(const AttentionShape& shape, const RowLists& lists) {
  const Range parts = parts_of(shape);
  std::vector<KeyTask> tasks;
  for (std::int64_t l = 0; l < shape.batch * shape.kv_heads; ++l) {
    if (list_at(shape, lists, l).rows == 0) continue;
    for (std::int64_t part = parts.begin; part < parts.end; ++part) {
      tasks.push_back({l, part * kDecodePartKeys, std::min(shape.keys, (part + 1) * kDecodePartKeys),
                       part - parts.begin});
    }
  }
  return tasks;
}

template <class Backend, class T>
void decode_in_parts(AttentionDecode<T> args) {
  using Kernels = AttentionDecodeKernels<Backend, T>;
  const bool serial = is_small(args.shape, args.lists);
  args.num_parts = parts_of(args.shape).size();
  const std::int64_t rows = total_rows(args.shape, args.lists) * args.num_parts;
  const std::int64_t outputs = rows * Kernels::padded_head_dim(args.shape.head_dim);
  const Scratch parts(static_cast<std::size_t>(outputs + 2 * rows) * sizeof(Acc<T>));
  args.part_out = parts.as<Acc<T>>();
  args.part_top = args.part_out + outputs;
  args.part_sum = args.part_top + rows;
  run_tasks(part_tasks(args.shape, args.lists), serial,
            Kernels::part_scratch_bytes(args.shape, longest_list(args.shape, args.lists)),
            [&](const KeyTask& task, std::byte* scratch) { Kernels::part(args, task, scratch); });
  // Merging the parts of a few rows takes less time than waking another thread.
  constexpr std::int64_t kSmall = 1 << 15;
  const std::int64_t num_lists = args.shape.batch * args.shape.kv_heads;
  parallel_for(num_lists, outputs < kSmall ? std::max<std::int64_t>(num_lists, 1) : 1,
               [&](std::int64_t begin, std::int64_t end) {
                 for (std::int64_t l = begin; l < end; ++l) Kernels::merge(args, l);
               });
}

}  // namespace

Tensor attention_decode(const Tensor& q, const Tensor& k_cache, const Tensor& v_cache, std::int64_t num_keys,
                        const Tensor& gates, const HeadLists& lists, const AttentionOptions& options) {
  const AttentionShape shape = checked_shape(q, k_cache, v_cache, num_keys, options);
  Check(kDecodeOp).require(gates.defined() == lists.rows.defined(), "gates and lists", "both or none",
                           gates.defined() ? "gates alone" : "lists alone");
  Tensor gates_acc;
  if (gates.defined()) {
    check_lists(kDecodeOp, shape, q.device(), Variable(gates), lists);
    gates_acc = gates.to(accumulate_dtype(q.dtype()));
  }
  Tensor out = empty(q.shape(), q.dtype(), q.device());
  const std::int64_t pairs = lists.rows.defined() ? lists.num_rows() : q.numel() / q.dim(3);
  run_kernel({kDecodeOp, attention_flops(shape, q.device(), pairs)}, q, [&]<class Backend, class T>() {
    const RowLists rows = row_lists(lists);
    const Acc<T>* gate_values = gates.defined() ? gates_acc.data<Acc<T>>() : nullptr;
    const Tensor queries = aligned_on_gpu(q);
    const auto vq = view_of<const T>(queries), vk = view_of_cache<const T>(k_cache),
               vv = view_of_cache<const T>(v_cache);
    if constexpr (std::is_same_v<Backend, Cuda>) {
      const AttentionForward<T> args{shape, rows, vq, vk, vv, gate_values, view_of<T>(out)};
      if (shape.queries >= kManyOnGpu) {
        CudaAttention<T>::forward(args, pairs);
      } else {
        CudaAttention<T>::decode(args, pairs);
      }
    } else if (shape.queries >= kManyDecodeQueries) {
      attention_forward(AttentionForward<T>{shape, rows, vq, vk, vv, gate_values, view_of<T>(out)});
    } else {
      decode_in_parts<Backend>(AttentionDecode<T>{shape, rows, vq, vk, vv, gate_values, view_of<T>(out)});
    }
  });
  return out;
}

}  // namespace moh
