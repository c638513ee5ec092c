#include "ops/attention/aggregated_attention.h"

#include <algorithm>
#include <string>
#include <vector>

#include "ops/attention/aggregated/division.h"
#include "ops/attention/aggregated_attention_cuda.h"
#include "ops/attention/aggregated_attention_kernels.h"
#include "ops/attention/list_walk.h"
#include "ops/attention/operands.h"
#include "ops/attention/schedule.h"
#include "ops/op.h"
#include "ops/run_tasks.h"

namespace moh {

namespace {

/// The operands: q, distant and local keys and values; or all of them packed into q, and no local ones.
struct AggregatedOperands {
  std::string_view op;
  AggregatedShape shape;
  Tensor q, distant, local;
  // In the accumulation dtype.
  Tensor query_embedding, temperature, position_bias, local_bias, tokens, token_bias;
  HeadLists lists;  ///< rows undefined: all pairs
  Tensor gates;     ///< or undefined

  bool packed() const { return !distant.defined(); }
};

template <class F>
F* data_of(const Tensor& tensor) {
  return tensor.defined() ? tensor.data<std::remove_const_t<F>>() : nullptr;
}

template <class F>
AggregatedParameters<const F> parameters_of(const AggregatedOperands& o) {
  return {data_of<F>(o.query_embedding), data_of<F>(o.temperature), data_of<F>(o.position_bias),
          data_of<F>(o.local_bias),      data_of<F>(o.tokens),      data_of<F>(o.token_bias)};
}

/// AggregatedViews of q, of the distant keys and values, and of the local ones, or of their gradients.
template <class T>
struct AggregatedViews {
  HeadView<T> q, k, v, local_k, local_v;
};
template <class T>
AggregatedViews<T> views_of(const AggregatedOperands& o, const Tensor& q, const Tensor& distant,
                            const Tensor& local) {
  const std::int64_t heads = o.shape.pairs.heads;
  if (o.packed()) return {view_of<T>(q), view_of<T>(q, heads), view_of<T>(q, 2 * heads), {}, {}};
  return {view_of<T>(q), view_of<T>(distant), view_of<T>(distant, heads), view_of<T>(local),
          view_of<T>(local, heads)};
}

std::int64_t num_rows(const AggregatedOperands& o) {
  const AttentionShape& s = o.shape.pairs;
  return o.lists.rows.defined() ? o.lists.num_rows() : s.batch * s.queries * s.heads;
}

/// FLOPs of a forward pass over the selected pairs: logits and weighted sums of values of the distant keys
/// and of the whole window, and the weights of the learnable tokens.
double flops_of(const AggregatedOperands& o) {
  const AggregatedShape& s = o.shape;
  return static_cast<double>(num_rows(o)) * static_cast<double>(s.pairs.head_dim) *
         static_cast<double>(4 * s.pairs.keys + 6 * s.neighbours());
}

/// WindowPlaces in scratch memory.
template <class Backend, class T>
class Places {
 public:
  using F = Acc<T>;
  explicit Places(const AggregatedShape& shape) : scratch_(bytes(shape)) {
    const std::int64_t places = shape.places();
    at_.mask = scratch_.as<F>();
    at_.log_keys = at_.mask + places * shape.padded_neighbours();
    at_.of_token = reinterpret_cast<std::int32_t*>(at_.log_keys + places);
    at_.offsets = at_.of_token + shape.pairs.queries;
    AggregatedKernels<Backend, T>::find_places(shape, at_);
  }
  static std::size_t bytes(const AggregatedShape& s) {
    return static_cast<std::size_t>(s.places() * (s.padded_neighbours() + 1)) * sizeof(F) +
           static_cast<std::size_t>(s.pairs.queries + s.places() * s.neighbours()) * sizeof(std::int32_t);
  }
  WindowPlaces<const F> get() const { return {at_.of_token, at_.offsets, at_.mask, at_.log_keys}; }

 private:
  Scratch scratch_;
  WindowPlaces<F> at_;
};

/// Whether one thread finishes the work before others could be woken.
bool is_small(const AggregatedOperands& o) {
  return flops_of(o) < 1 << 18;
}

/// The tasks of the forward pass. Many lists are computed in their order, that of memory: neighbouring heads
/// share cache lines.
std::vector<RowTask> forward_tasks(const AttentionShape& s, const RowLists& lists) {
  constexpr std::int64_t kListsPerThread = 8;
  const std::int64_t count = s.batch * s.heads;
  if (count < kListsPerThread * num_threads()) return plan_rows(s, lists, num_threads());
  std::vector<RowTask> tasks;
  for (std::int64_t l = 0; l < count; ++l) tasks.push_back({l, 0, list_at(s, lists, l).rows});
  return tasks;
}

Tensor run_forward(const AggregatedOperands& o, const Tensor& lse) {
  const AttentionShape& s = o.shape.pairs;
  Tensor out = empty({s.batch, s.queries, s.heads, s.head_dim}, o.q.dtype(), o.q.device());
  const auto run = [&]<class Backend, class T>() {
    const AggregatedViews<const T> in = views_of<const T>(o, o.q, o.distant, o.local);
    AggregatedForward<T> args{o.shape, row_lists(o.lists), in.q, in.k, in.v, in.local_k, in.local_v};
    args.parameters = parameters_of<const Acc<T>>(o);
    args.gates = data_of<Acc<T>>(o.gates);
    args.out = view_of<T>(out);
    args.lse = data_of<Acc<T>>(lse);
    if constexpr (std::is_same_v<Backend, Cuda>) {
      CudaAggregated<T>::forward(args, num_rows(o));
    } else {
      using Kernels = AggregatedKernels<Backend, T>;
      const Places<Backend, T> places(o.shape);
      args.places = places.get();
      run_tasks(forward_tasks(s, args.lists), is_small(o), Kernels::forward_scratch_bytes(o.shape),
                [&](const RowTask& task, std::byte* scratch) { Kernels::forward(args, task, scratch); });
    }
  };
  run_kernel<MatrixIsas>({o.op, flops_of(o)}, o.q, run, [&]<class Backend, class T>() -> std::size_t {
    if constexpr (std::is_same_v<Backend, Cuda>)
      return aggregated::Division::of(o.shape).forward_bytes(o.shape, num_rows(o));
    else
      return Places<Backend, T>::bytes(o.shape) +
             AggregatedKernels<Backend, T>::forward_scratch_bytes(o.shape) *
                 static_cast<std::size_t>(num_threads());
  });
  return out;
}

/// Divides the sequences of each head into chunks, by sizes alone: sums of the gradients of parameters follow
/// the division. Enough for some threads; each has a matrix of position biases to itself.
std::vector<HeadChunk> head_chunks(const AttentionShape& s) {
  constexpr std::int64_t kTasks = 16;
  std::vector<HeadChunk> tasks;
  const std::int64_t wanted =
      std::clamp<std::int64_t>(kTasks / s.heads, 1, std::max<std::int64_t>(s.batch, 1));
  for (std::int64_t head = 0; head < s.heads; ++head) {
    for (std::int64_t chunk = 0; chunk < wanted; ++chunk)
      tasks.push_back({head, chunk, s.batch * chunk / wanted, s.batch * (chunk + 1) / wanted});
  }
  return tasks;
}

/// Tensors saved for the backward pass.
struct SavedAggregation {
  AggregatedOperands operands;
  Tensor lse;
  DType gate_dtype = DType::kFloat32;
};

/// The gradients of a backward pass.
struct Gradients {
  Tensor q, distant, local, query_embedding, temperature, position_bias, local_bias, tokens, token_bias,
      gates;

  explicit Gradients(const AggregatedOperands& o)
      : q(empty_like(o.q)),
        query_embedding(empty_like(o.query_embedding)),
        temperature(empty_like(o.temperature)),
        position_bias(empty_like(o.position_bias)) {
    if (o.gates.defined()) gates = zeros_like(o.gates);  // those of unselected pairs stay so
    if (o.packed()) return;
    distant = empty_like(o.distant);
    local = empty_like(o.local);
    local_bias = empty_like(o.local_bias);
    tokens = empty_like(o.tokens);
    token_bias = empty_like(o.token_bias);
  }
};

Gradients run_backward(const SavedAggregation& saved, const Tensor& dout) {
  const AggregatedOperands& o = saved.operands;
  const AttentionShape& s = o.shape.pairs;
  Gradients grads(o);
  const std::vector<HeadChunk> tasks = head_chunks(s);
  const auto partials_bytes = [&]<class Backend, class T>() {
    return static_cast<std::size_t>(AggregatedKernels<Backend, T>::partial_size(o.shape)) * sizeof(Acc<T>) *
           tasks.size();
  };
  const auto run = [&]<class Backend, class T>() {
    using F = Acc<T>;
    const AggregatedViews<const T> in = views_of<const T>(o, o.q, o.distant, o.local);
    const AggregatedViews<T> grad = views_of<T>(o, grads.q, grads.distant, grads.local);
    AggregatedBackward<T> args{o.shape,
                               row_lists(o.lists),
                               in.q,
                               in.k,
                               in.v,
                               in.local_k,
                               in.local_v,
                               view_of<const T>(dout),
                               parameters_of<const F>(o)};
    args.gates = data_of<F>(o.gates);
    args.lse = saved.lse.data<F>();
    args.dq = grad.q;
    args.dk = grad.k;
    args.dv = grad.v;
    args.dlocal_k = grad.local_k;
    args.dlocal_v = grad.local_v;
    args.dgates = data_of<F>(grads.gates);
    const AggregatedParameters<F> sums{data_of<F>(grads.query_embedding), data_of<F>(grads.temperature),
                                       data_of<F>(grads.position_bias),   data_of<F>(grads.local_bias),
                                       data_of<F>(grads.tokens),          data_of<F>(grads.token_bias)};
    if constexpr (std::is_same_v<Backend, Cuda>) {
      CudaAggregated<T>::backward(args, num_rows(o), sums);
    } else {
      using Kernels = AggregatedKernels<Backend, T>;
      const Places<Backend, T> places(o.shape);
      const Scratch partials(partials_bytes.template operator()<Backend, T>());
      args.places = places.get();
      args.chunks = static_cast<std::int64_t>(tasks.size()) / s.heads;
      args.partials = partials.as<F>();
      run_tasks(tasks, is_small(o), Kernels::backward_scratch_bytes(o.shape),
                [&](const HeadChunk& task, std::byte* scratch) { Kernels::backward(args, task, scratch); });
      parallel_for(s.heads, is_small(o) ? s.heads : 1, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t head = begin; head < end; ++head) Kernels::sum_partials(args, head, sums);
      });
    }
  };
  run_kernel<MatrixIsas>({o.op, 2 * flops_of(o)}, o.q, run, [&]<class Backend, class T>() -> std::size_t {
    if constexpr (std::is_same_v<Backend, Cuda>)
      return aggregated::Division::of(o.shape).backward_bytes(o.shape, num_rows(o));
    else
      return Places<Backend, T>::bytes(o.shape) + partials_bytes.template operator()<Backend, T>() +
             AggregatedKernels<Backend, T>::backward_scratch_bytes(o.shape) *
                 static_cast<std::size_t>(num_threads());
  });
  return grads;
}

/// A parameter in the accumulation dtype, after a check of its shape and dtype.
Tensor checked_parameter(const AggregatedOperands& o, std::string_view name, const Variable& parameter,
                         const Shape& shape) {
  const DType wide = accumulate_dtype(o.q.dtype());
  Check check(o.op);
  check.floating(name, parameter).shape(name, parameter, shape);
  if (parameter.dtype() != wide) check.like(name, parameter, "q", Variable(o.q));
  return parameter.value().to(wide);
}

void set_cosine(AggregatedOperands& o, const CosineParameters& p) {
  const AttentionShape& s = o.shape.pairs;
  o.query_embedding = checked_parameter(o, "query_embedding", p.query_embedding, {s.heads, 1, s.head_dim});
  o.temperature = checked_parameter(o, "temperature", p.temperature, {s.heads, 1, 1});
  o.position_bias = checked_parameter(o, "position_bias", p.position_bias, {s.heads, s.queries, s.keys});
}

void set_window(AggregatedOperands& o, const WindowParameters& p) {
  const AttentionShape& s = o.shape.pairs;
  const std::int64_t count = o.shape.neighbours();
  o.local_bias = checked_parameter(o, "window.bias", p.bias, {s.heads, count});
  o.tokens = checked_parameter(o, "window.tokens", p.tokens, {s.heads, s.head_dim, count});
  o.token_bias = checked_parameter(o, "window.token_bias", p.token_bias, {s.heads, 1, count});
}

/// Completes the operands, and runs the forward pass; the log-sum-exp is not kept when nothing is recorded.
SavedAggregation run(AggregatedOperands& o, const SelectedPairs& selected) {
  Check(o.op).in_range("kept_percent", static_cast<double>(selected.kept_percent), 1, 100);
  o.shape.kept_percent = selected.kept_percent;
  complete_shape(o.op, o.shape.pairs, o.q.device(), {.causal = false});
  SavedAggregation saved;
  if (selected.gates.defined()) {
    check_lists(o.op, o.shape.pairs, o.q.device(), selected.gates, selected.lists);
    o.lists = selected.lists;
    o.gates = selected.gates.value().to(accumulate_dtype(o.q.dtype()));
    saved.gate_dtype = selected.gates.dtype();
  }
  if (grad_enabled()) saved.lse = empty({num_rows(o)}, accumulate_dtype(o.q.dtype()), o.q.device());
  saved.operands = o;
  return saved;
}

Tensor gate_gradient(const Gradients& grads, const SavedAggregation& saved) {
  return grads.gates.defined() ? grads.gates.to(saved.gate_dtype) : Tensor();
}

}  // namespace

Variable aggregated_attention(const Variable& q, const Variable& local, const Variable& pooled,
                              const CosineParameters& cosine, const WindowParameters& window,
                              const TokenGrid& grid, const SelectedPairs& selected) {
  constexpr auto kOp = "aggregated_attention";
  Check check(kOp);
  check.floating("q", q).rank("q", q, 4).like("local", local, "q", q).like("pooled", pooled, "q", q);
  check.rank("pooled", pooled, 4);
  check.shape("local", local, {q.dim(0), q.dim(1), 2 * q.dim(2), q.dim(3)}, "keys and values of q's heads");
  check.shape("pooled", pooled, {q.dim(0), pooled.dim(1), 2 * q.dim(2), q.dim(3)},
              "keys and values of q's heads");
  check.require(grid.height >= 1 && grid.width >= 1 && grid.height * grid.width == q.dim(1), "grid",
                "the " + std::to_string(q.dim(1)) + " tokens of q",
                std::to_string(grid.height) + " x " + std::to_string(grid.width));
  check.require(grid.window >= 1 && grid.window % 2 == 1 && grid.window <= 15, "window",
                "an odd side up to 15", std::to_string(grid.window));
  AggregatedOperands o{kOp, {}, q.value(), pooled.value(), local.value()};
  o.shape.pairs = {q.dim(0), q.dim(1), pooled.dim(1), q.dim(2), q.dim(2), q.dim(3)};
  o.shape.height = grid.height;
  o.shape.width = grid.width;
  o.shape.window = grid.window;
  set_cosine(o, cosine);
  set_window(o, window);
  const SavedAggregation saved = run(o, selected);
  return record(
      "aggregated_attention", run_forward(o, saved.lse),
      {q, local, pooled, cosine.query_embedding, cosine.temperature, cosine.position_bias, window.bias,
       window.tokens, window.token_bias, selected.gates},
      [saved](const Tensor& dout) -> Grads {
        const Gradients g = run_backward(saved, dout);
        return {g.q,          g.local,  g.distant,    g.query_embedding,      g.temperature, g.position_bias,
                g.local_bias, g.tokens, g.token_bias, gate_gradient(g, saved)};
      });
}

Variable cosine_attention_packed(const Variable& qkv, const CosineParameters& cosine,
                                 const SelectedPairs& selected) {
  constexpr auto kOp = "cosine_attention_packed";
  Check check(kOp);
  check.floating("qkv", qkv).rank("qkv", qkv, 4);
  check.require(qkv.dim(2) % 3 == 0, "qkv", "heads of queries, keys and values: a multiple of 3",
                to_string(qkv.shape()));
  const std::int64_t heads = qkv.dim(2) / 3;
  AggregatedOperands o{kOp, {}, qkv.value()};
  o.shape.pairs = {qkv.dim(0), qkv.dim(1), qkv.dim(1), heads, heads, qkv.dim(3)};
  o.shape.height = 1;
  o.shape.width = qkv.dim(1);
  set_cosine(o, cosine);
  const SavedAggregation saved = run(o, selected);
  return record("cosine_attention_packed", run_forward(o, saved.lse),
                {qkv, cosine.query_embedding, cosine.temperature, cosine.position_bias, selected.gates},
                [saved](const Tensor& dout) -> Grads {
                  const Gradients g = run_backward(saved, dout);
                  return {g.q, g.query_embedding, g.temperature, g.position_bias, gate_gradient(g, saved)};
                });
}

}  // namespace moh
