#include "ops/attention/attention.h"

#include <string>

#include "core/cuda/launch_timer.h"
#include "ops/aligned.h"
#include "ops/attention/attention_cuda.h"
#include "ops/attention/attention_run.h"
#include "ops/attention/cudnn/cudnn_attention.h"
#include "ops/attention/operands.h"
#include "ops/op.h"

namespace moh {

namespace {

/// The operands of attention: q, k and v as three tensors, or packed into q alone.
struct Operands {
  std::string_view op;
  AttentionShape shape;
  Tensor q, k, v;
  bool packed = false;
  HeadLists lists;                 ///< rows undefined: all pairs
  Tensor gates;                    ///< [B, T, H] in Acc<T> of q's dtype, or undefined
  Tensor document_starts = {};     ///< that of shape, which it outlives
  Tensor document_ends = {};       ///< likewise
  PackedSequences sequences = {};  ///< likewise
  CudnnPasses by_cudnn = {};
};

/// A view of queries, of outputs, or of keys and values of their own tensors.
template <class T>
HeadView<T> whole_view(const Operands& o, const Tensor& x) {
  HeadView<T> view = view_of<T>(x, 0);
  if (o.shape.offsets != nullptr) view.batch_stride = 0;
  return view;
}

template <class T>
struct Views {
  HeadView<T> q, k, v;
};

/// Views of q, k, v or of their gradients.
template <class T>
Views<T> views_of(const Operands& o, const Tensor& q, const Tensor& k, const Tensor& v) {
  if (!o.packed) return {whole_view<T>(o, q), whole_view<T>(o, k), whole_view<T>(o, v)};
  return {view_of<T>(q, 0), view_of<T>(q, o.shape.heads), view_of<T>(q, o.shape.heads + o.shape.kv_heads)};
}

std::int64_t num_rows(const Operands& o) {
  return o.lists.rows.defined() ? o.lists.num_rows() : o.q.dim(0) * o.q.dim(1) * o.shape.heads;
}

std::int64_t longest_list(const Operands& o) {
  return o.lists.rows.defined() ? o.lists.longest : o.shape.queries * o.shape.heads / o.shape.kv_heads;
}

double flops_of(const Operands& o) {
  return attention_flops(o.shape, o.q.device(), num_rows(o), o.sequences.mean_visible);
}

/// Profiles show whose kernels ran: within the op's own name, which stands for moh's.
constexpr std::string_view kByCudnn = "attention by cuDNN";

/// With `ordered`, lse, if defined, gets what moh's backward pass takes.
template <class T>
void run_cudnn_forward(AttentionForward<T> args, const Tensor& lse, bool ordered) {
  const ProfileScope profile(kByCudnn);
  const Tensor natural = ordered && lse.defined() ? empty_like(lse) : lse;
  if (natural.defined()) args.lse = natural.data<float>();
  cuda::timed_call("cudnn_attention", {args.q.data, args.k.data, args.v.data, args.out.data},
                   [&] { CudnnAttention::forward(args); });
  if (ordered && lse.defined())
    CudaAttention<T>::order_lse(args.shape, natural.data<float>(), lse.data<float>());
}

/// Sets o.by_cudnn. lse may be undefined.
Tensor run_forward(Operands& o, const Tensor& lse) {
  const AttentionShape& s = o.shape;
  Tensor out = empty({o.q.dim(0), o.q.dim(1), s.heads, s.head_dim}, o.q.dtype(), o.q.device());
  const auto run = [&]<class Backend, class T>() {
    const Views<const T> in = views_of<const T>(o, o.q, o.k, o.v);
    AttentionForward<T> args{s, row_lists(o.lists), in.q, in.k, in.v};
    args.gates = o.gates.defined() ? o.gates.data<Acc<T>>() : nullptr;
    args.out = whole_view<T>(o, out);
    args.lse = lse.defined() ? lse.data<Acc<T>>() : nullptr;
    if constexpr (std::is_same_v<Backend, Cuda>) {
      o.by_cudnn = CudaAttention<T>::for_cudnn(o.op, args);
      if constexpr (std::is_same_v<T, bfloat16>) {
        if (o.by_cudnn.forward) return run_cudnn_forward(args, lse, !o.by_cudnn.backward);
      }
      CudaAttention<T>::forward(args, num_rows(o));
    } else {
      attention_forward(args);
    }
  };
  run_kernel({o.op, flops_of(o)}, o.q, run, [&]<class Backend, class T>() -> std::size_t {
    if constexpr (std::is_same_v<Backend, Cuda>)
      return 0;
    else
      return attention_forward_workspace<T>(s);
  });
  return out;
}

/// Tensors saved for the backward pass.
struct SavedAttention {
  Operands operands;
  Tensor out;
  Tensor lse;  ///< log-sum-exp per row, in list order; or that of cuDNN, in its own layout, for its gradient
  DType gate_dtype = DType::kFloat32;
};

/// Gradients of q, k and v (or of the packed tensor alone), then of the gates if there are any.
Grads run_backward(const SavedAttention& saved, const Tensor& gradient) {
  const Tensor dout = aligned_on_gpu(gradient);
  const Operands& o = saved.operands;
  const AttentionShape& s = o.shape;
  const Tensor dq = empty_like(o.q);
  const Tensor dk = o.packed ? Tensor() : empty_like(o.k), dv = o.packed ? Tensor() : empty_like(o.v);
  const Tensor dgates = o.gates.defined() ? empty_like(o.gates) : Tensor();
  const auto run = [&]<class Backend, class T>() {
    const Views<const T> in = views_of<const T>(o, o.q, o.k, o.v);
    const Views<T> grad = views_of<T>(o, dq, dk, dv);
    AttentionBackward<T> args{s, row_lists(o.lists), in.q, in.k, in.v};
    args.out = whole_view<const T>(o, saved.out);
    args.dout = whole_view<const T>(o, dout);
    args.gates = o.gates.defined() ? o.gates.data<Acc<T>>() : nullptr;
    args.lse = saved.lse.data<Acc<T>>();
    args.dq = grad.q;
    args.dk = grad.k;
    args.dv = grad.v;
    args.dgates = dgates.defined() ? dgates.data<Acc<T>>() : nullptr;
    if constexpr (std::is_same_v<Backend, Cuda>) {
      if constexpr (std::is_same_v<T, bfloat16>) {
        if (o.by_cudnn.backward) {
          const ProfileScope profile(kByCudnn);
          return cuda::timed_call("cudnn_attention_gradient",
                                  {in.q.data, in.k.data, in.v.data, args.out.data, args.dout.data,
                                   grad.q.data, grad.k.data, grad.v.data},
                                  [&] { CudnnAttention::backward(args); });
        }
      }
      CudaAttention<T>::backward(args, num_rows(o));
    } else {
      attention_backward(args);
    }
  };
  const std::int64_t rows = num_rows(o);
  const KernelCall call(o.op, 2 * flops_of(o));
  run_kernel(call, o.q, run, [&]<class Backend, class T>() -> std::size_t {
    if constexpr (std::is_same_v<Backend, Cuda>)
      return static_cast<std::size_t>(rows) * sizeof(float);
    else
      return attention_backward_workspace<T>(s, rows, longest_list(o));
  });
  Grads grads = o.packed ? Grads{dq} : Grads{dq, dk, dv};
  if (dgates.defined()) grads.push_back(dgates.to(saved.gate_dtype));
  return grads;
}

/// Completes the shape of the operands, and keeps the tensors that it points to.
void add_mask(Operands& o, const AttentionOptions& options) {
  o.document_starts = options.document_starts;
  o.document_ends = options.document_ends;
  o.sequences = options.sequences;
  complete_shape(o.op, o.shape, o.q.device(), options);
}

Operands separate_operands(std::string_view op, const Variable& q, const Variable& k, const Variable& v,
                           const AttentionOptions& options) {
  Check(op).floating("q", q).rank("q", q, 4).like("k", k, "q", q).rank("k", k, 4).like("v", v, "q", q);
  Check(op)
      .shape("k", k, {q.dim(0), k.dim(1), k.dim(2), q.dim(3)}, "batch and head width of q")
      .shape("v", v, k.shape(), "that of k");
  Operands o{op, {}, aligned_on_gpu(q.value()), aligned_on_gpu(k.value()), aligned_on_gpu(v.value())};
  o.shape = {q.dim(0), q.dim(1), k.dim(1), q.dim(2), k.dim(2), q.dim(3)};
  add_mask(o, options);
  if (o.sequences.offsets.defined()) divide_sequences(op, o.shape, o.q.device(), options);
  return o;
}

Operands packed_operands(std::string_view op, const Variable& qkv, std::int64_t heads, std::int64_t kv_heads,
                         const AttentionOptions& options) {
  Check(op).floating("qkv", qkv).rank("qkv", qkv, 4);
  Check(op).shape("qkv", qkv, {qkv.dim(0), qkv.dim(1), heads + 2 * kv_heads, qkv.dim(3)},
                  "query, key and value heads");
  Check(op).require(!options.sequences.offsets.defined(), "sequences", "none in a packed projection",
                    "packed sequences");
  Operands o{op, {}, aligned_on_gpu(qkv.value()), {}, {}, true};
  o.shape = {qkv.dim(0), qkv.dim(1), qkv.dim(1), heads, kv_heads, qkv.dim(3)};
  add_mask(o, options);
  return o;
}

/// Checks gates and lists and adds them to the operands.
void select(Operands& o, const Variable& gates, const HeadLists& lists) {
  Check(o.op).require(!o.sequences.offsets.defined(), "sequences", "none with lists", "packed sequences");
  check_lists(o.op, o.shape, o.q.device(), gates, lists);
  o.lists = lists;
  o.gates = gates.value().to(accumulate_dtype(o.q.dtype()));
}

/// The forward pass; lse is not computed when nothing is recorded (evaluation).
SavedAttention run(const Operands& o, const Variable& gates) {
  SavedAttention saved{o, {}, {}};
  if (gates.defined()) saved.gate_dtype = gates.dtype();
  if (grad_enabled()) saved.lse = empty({num_rows(o)}, accumulate_dtype(o.q.dtype()), o.q.device());
  saved.out = run_forward(saved.operands, saved.lse);
  return saved;
}

}  // namespace

Variable attention(const Variable& q, const Variable& k, const Variable& v, const AttentionOptions& options) {
  const SavedAttention saved = run(separate_operands("attention", q, k, v, options), Variable());
  return record("attention", saved.out, {q, k, v},
                [saved](const Tensor& dout) { return run_backward(saved, dout); });
}

Variable head_sparse_attention(const Variable& q, const Variable& k, const Variable& v, const Variable& gates,
                               const HeadLists& lists, const AttentionOptions& options) {
  Operands operands = separate_operands("head_sparse_attention", q, k, v, options);
  select(operands, gates, lists);
  const SavedAttention saved = run(operands, gates);
  return record("head_sparse_attention", saved.out, {q, k, v, gates},
                [saved](const Tensor& dout) { return run_backward(saved, dout); });
}

Variable attention_packed(const Variable& qkv, std::int64_t heads, std::int64_t kv_heads,
                          const AttentionOptions& options) {
  const SavedAttention saved =
      run(packed_operands("attention_packed", qkv, heads, kv_heads, options), Variable());
  return record("attention_packed", saved.out, {qkv},
                [saved](const Tensor& dout) { return run_backward(saved, dout); });
}

Variable head_sparse_attention_packed(const Variable& qkv, const Variable& gates, const HeadLists& lists,
                                      const AttentionOptions& options) {
  Operands operands =
      packed_operands("head_sparse_attention_packed", qkv, lists.heads, lists.kv_heads, options);
  select(operands, gates, lists);
  const SavedAttention saved = run(operands, gates);
  return record("head_sparse_attention_packed", saved.out, {qkv, gates},
                [saved](const Tensor& dout) { return run_backward(saved, dout); });
}

}  // namespace moh
