#include "ops/moh/head_sequences.h"

#include <limits>
#include <string>

#include "autograd/profile.h"
#include "core/dry_run.h"
#include "core/parallel.h"
#include "ops/aligned.h"
#include "ops/attention/operands.h"
#include "ops/moh/head_sequences_kernels.h"
#include "ops/op.h"

namespace moh {

namespace {

constexpr std::string_view kHeadSequencesOp = "head_sequences";

/// A tensor of int32 on the lists' device, which may be undefined: its values or null.
const std::int32_t* checked(std::string_view name, const Tensor& numbers, const Shape& shape, Device device) {
  if (!numbers.defined()) return nullptr;
  Check(kHeadSequencesOp).dtype(name, Variable(numbers), DType::kInt32).shape(name, Variable(numbers), shape);
  if (numbers.device() != device)
    throw DeviceError(
        error_message(kHeadSequencesOp, name, device_name(device), device_name(numbers.device())));
  return numbers.data<std::int32_t>();
}

/// The rows of heads [B, T, H, d], on one device with x.
PairRows pair_rows(std::string_view op, const Variable& x, std::int64_t head_dim, const HeadSequences& s) {
  if (s.pairs.device() != x.device())
    throw DeviceError(error_message(op, "sequences", device_name(x.device()), device_name(s.pairs.device())));
  return {s.num_rows(), head_dim, s.pairs.data<std::int64_t>()};
}

Tensor gathered(const Tensor& x, const PairRows& of) {
  Tensor y = empty({1, of.rows, 1, of.head_dim}, x.dtype(), x.device());
  const Tensor from = aligned_on_gpu(x);
  run_kernel("gather_pairs", x, [&]<class Backend, class T>() {
    PairRowKernels<Backend, T>::gather(from.data<T>(), y.data<T>(), of);
  });
  return y;
}

/// `gates` in the accumulation dtype, or undefined.
Tensor scattered(const Tensor& y, const Tensor& gates, const Shape& shape, const PairRows& of) {
  Tensor x = zeros(shape, y.dtype(), y.device());
  const Tensor from = aligned_on_gpu(y);
  run_kernel("scatter_pairs", y, [&]<class Backend, class T>() {
    PairRowKernels<Backend, T>::scatter(from.data<T>(), gates.defined() ? gates.data<Acc<T>>() : nullptr,
                                        x.data<T>(), of);
  });
  return x;
}

}  // namespace

HeadSequences head_sequences(const HeadLists& lists, const HeadSequenceOptions& options) {
  const ProfileScope profile(kHeadSequencesOp);
  MOH_CHECK(lists.rows.defined() && lists.offsets.defined(), "head lists are built by build_head_lists");
  const std::int64_t rows = lists.num_rows(), heads = lists.heads;
  Check(kHeadSequencesOp)
      .require(lists.kv_heads == heads, "lists", "one for each head",
               std::to_string(lists.kv_heads) + " for " + std::to_string(heads) + " heads");
  if (rows > std::numeric_limits<std::int32_t>::max())
    throw ValueError(error_message(kHeadSequencesOp, "rows", "fewer than 2^31", std::to_string(rows),
                                   "use a smaller micro-batch"));
  const Device device = lists.rows.device();
  const Shape of_rows{1, rows};
  HeadSequences s{lists.batch,
                  lists.tokens,
                  heads,
                  empty({rows}, DType::kInt64, device),
                  empty(of_rows, DType::kInt32, device),
                  empty(of_rows, DType::kInt32, device),
                  lists.offsets,
                  lists.longest};
  const HeadSequenceArgs args{
      {lists.batch, lists.tokens, lists.tokens, heads, heads, 1},
      row_lists(lists),
      checked("document_starts", options.document_starts, {lists.batch, lists.tokens}, device),
      checked("windows", options.windows, {heads}, device),
      checked("first_positions", options.first_positions, {lists.batch * heads}, device),
      options.reset_positions && options.document_starts.defined(),
      options.positions_in_head,
      rows,
      s.pairs.data<std::int64_t>(),
      s.positions.data<std::int32_t>(),
      s.starts.data<std::int32_t>()};
  if (dry_run() || rows == 0) return s;
  if (device != kCpu) {
    CudaHeadSequences::fill(args);
    return s;
  }
  constexpr std::int64_t kGrain = 4096;
  parallel_for(rows, kGrain, [&args](std::int64_t begin, std::int64_t end) {
    for (std::int64_t r = begin; r < end; ++r) fill_head_sequence_row(args, r);
  });
  return s;
}

Variable gather_pairs(const Variable& x, const HeadSequences& sequences) {
  Check("gather_pairs").floating("x", x).rank("x", x, 4);
  const Shape shape{sequences.batch, sequences.tokens, sequences.heads, x.dim(3)};
  Check("gather_pairs").shape("x", x, shape, "batch, tokens and heads of the sequences");
  const PairRows rows = pair_rows("gather_pairs", x, x.dim(3), sequences);
  return record("gather_pairs", gathered(x.value(), rows), {x},
                [pairs = sequences.pairs, shape, rows](const Tensor& dy) -> Grads {
                  return {scattered(dy, {}, shape, rows)};
                });
}

Variable scatter_pairs(const Variable& y, const Variable& gates, const HeadSequences& sequences) {
  constexpr auto kScatter = "scatter_pairs";
  Check(kScatter).floating("y", y).rank("y", y, 4).floating("gates", gates);
  const Shape shape{sequences.batch, sequences.tokens, sequences.heads, y.dim(3)};
  Check(kScatter)
      .shape("y", y, {1, sequences.num_rows(), 1, y.dim(3)}, "the rows of the sequences")
      .shape("gates", gates, {shape[0], shape[1], shape[2]}, "batch, tokens and heads of the sequences");
  const PairRows rows = pair_rows(kScatter, y, y.dim(3), sequences);
  if (gates.device() != y.device())
    throw DeviceError(error_message(kScatter, "gates", device_name(y.device()), device_name(gates.device())));
  const Tensor factors = gates.value().to(accumulate_dtype(y.dtype()));
  const DType gate_dtype = gates.dtype();
  return record(
      kScatter, scattered(y.value(), factors, shape, rows), {y, gates},
      [y = y.value(), factors, pairs = sequences.pairs, rows, gate_dtype](const Tensor& dx) -> Grads {
        const Tensor dy = empty_like(y), outputs = aligned_on_gpu(y), gradient = aligned_on_gpu(dx);
        const Tensor d_gates = zeros(factors.shape(), factors.dtype(), factors.device());
        run_kernel("scatter_pairs", y, [&]<class Backend, class T>() {
          PairRowKernels<Backend, T>::scatter_backward(gradient.data<T>(), outputs.data<T>(),
                                                       factors.data<Acc<T>>(), dy.data<T>(),
                                                       d_gates.data<Acc<T>>(), rows);
        });
        return {dy, d_gates.to(gate_dtype)};
      });
}

}  // namespace moh
