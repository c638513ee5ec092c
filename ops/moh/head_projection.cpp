#include "ops/moh/head_projection.h"

#include <algorithm>
#include <array>

#include "autograd/gradient_target.h"
#include "ops/data_or_null.h"
#include "ops/linalg/linear_kernels.h"
#include "ops/linalg/matmul.h"
#include "ops/moh/head_projection_kernels.h"
#include "ops/op.h"
#include "ops/run_tasks.h"

namespace moh {

namespace {

constexpr std::string_view kToHeads = "project_to_heads", kFromHeads = "project_from_heads";

/// Sizes and lists, for both projections and their gradients.
struct Plan {
  HeadProjection sizes;
  HeadLists lists;  ///< owns the memory that sizes.rows and sizes.offsets point into
};

Plan plan_of(const HeadLists& lists, std::int64_t head_dim, std::int64_t width, std::int64_t head_row) {
  return {{lists.batch, lists.tokens, lists.heads, head_dim, width, head_row, lists.rows.data<std::int32_t>(),
           lists.offsets.data<std::int64_t>()},
          lists};
}

void check_lists(std::string_view op, const HeadLists& lists, std::int64_t batch, std::int64_t tokens) {
  MOH_CHECK(lists.rows.defined() && lists.offsets.defined(), "head lists are built by build_head_lists");
  Check(op)
      .require(lists.kv_heads == lists.heads, "lists", "one per head, as many KV heads as heads",
               std::to_string(lists.kv_heads) + " KV heads for " + std::to_string(lists.heads) + " heads")
      .require(lists.batch == batch && lists.tokens == tokens, "lists: batch, tokens",
               to_string(Shape{batch, tokens}), to_string(Shape{lists.batch, lists.tokens}));
}

std::int64_t rows_of_head(const HeadProjection& p, std::int64_t head) {
  std::int64_t rows = 0;
  for (std::int64_t b = 0; b < p.batch; ++b) {
    rows += p.offsets[b * p.heads + head + 1] - p.offsets[b * p.heads + head];
  }
  return rows;
}

// Tasks are as large as allowed, as each packs an operand of its own, but a few per thread if they do not
// become too small for that; no element's bits depend on the division.

/// Divides the rows of each head into tasks of nearly equal size.
std::vector<HeadTask> head_tasks(const HeadProjection& p) {
  constexpr std::int64_t kFewRows = 192, kTasksPerThread = 2;
  const std::int64_t all = p.offsets[p.batch * p.heads];
  const std::int64_t most =
      std::clamp(num_chunks(all, kTasksPerThread * num_threads()), kFewRows, kProjectionRows);
  std::vector<HeadTask> tasks;
  for (std::int64_t head = 0; head < p.heads; ++head) {
    const std::int64_t rows = rows_of_head(p, head), pieces = num_chunks(rows, most);
    for (std::int64_t i = 0; i < pieces; ++i) {
      tasks.push_back({head, rows, rows * i / pieces, rows * (i + 1) / pieces});
    }
  }
  return tasks;
}

std::vector<TokenTask> token_tasks(const HeadProjection& p) {
  std::vector<TokenTask> tasks;
  constexpr std::int64_t kFewTokens = 32, kTasksPerThread = 2;
  const std::int64_t wanted = num_chunks(kTasksPerThread * num_threads(), std::max<std::int64_t>(p.batch, 1));
  const std::int64_t pieces =
      std::max(num_chunks(p.tokens, kProjectionTokens), std::min(wanted, num_chunks(p.tokens, kFewTokens)));
  for (std::int64_t b = 0; b < p.batch; ++b) {
    for (std::int64_t i = 0; i < pieces; ++i) {
      tasks.push_back({b, p.tokens * i / pieces, p.tokens * (i + 1) / pieces});
    }
  }
  return tasks;
}

std::vector<ColumnTask> column_tasks(const HeadProjection& p) {
  constexpr std::int64_t kTasksPerThread = 2;
  const std::int64_t per_head =
      num_chunks(kTasksPerThread * num_threads(), std::max<std::int64_t>(p.heads, 1));
  const std::int64_t panels = num_chunks(num_chunks(p.width, kProjectionPanel), per_head);
  const std::int64_t columns = std::min(panels * kProjectionPanel, kProjectionColumns);
  std::vector<ColumnTask> tasks;
  for (std::int64_t head = 0; head < p.heads; ++head) {
    const std::int64_t rows = rows_of_head(p, head);
    for (std::int64_t begin = 0; begin < p.width; begin += columns)
      tasks.push_back({head, rows, begin, std::min(p.width, begin + columns)});
  }
  return tasks;
}

/// Whether one thread finishes the work before others could be woken.
bool is_small(const HeadProjection& p, const HeadLists& lists) {
  constexpr double kSmall = 1 << 17;
  return static_cast<double>(lists.num_rows()) * static_cast<double>(p.head_dim * p.width) < kSmall;
}

/// FLOPs of the projection of the listed heads, and of each of its gradients.
double flops_of(const Plan& plan) {
  return 2 * static_cast<double>(plan.lists.num_rows()) * static_cast<double>(plan.sizes.head_dim) *
         static_cast<double>(plan.sizes.width);
}

/// Bytes of workspace of all threads, for `each` bytes per task.
std::size_t task_workspace(std::size_t each) {
  return each * static_cast<std::size_t>(num_threads());
}

/// Zeroes heads that no token selects, for which there is no task.
void zero_empty_heads(const HeadProjection& p, const Tensor& heads) {
  const std::size_t item = dtype_size(heads.dtype());
  auto* bytes = static_cast<std::byte*>(heads.raw());
  for (std::int64_t head = 0; head < p.heads; ++head) {
    if (rows_of_head(p, head) > 0) continue;
    for (std::int64_t i = 0; i < p.batch * p.tokens; ++i) {
      std::fill_n(bytes + static_cast<std::size_t>(i * p.head_row + head * p.head_dim) * item,
                  static_cast<std::size_t>(p.head_dim) * item, std::byte{});
    }
  }
}

/// heads = W tokens (+ bias): see HeadProjectionKernels::to_heads. As below, tensors are read before the
/// threads begin: one of them makes again what has been released (Tensor::release_until_read).
void to_heads(std::string_view op, const Plan& plan, const Tensor& w, bool by_column, const Tensor& bias,
              const Tensor& tokens, const Tensor& heads) {
  const HeadProjection& p = plan.sizes;
  const auto run = [&]<class Backend, class T>() {
    using Kernels = HeadProjectionKernels<Backend, T>;
    zero_empty_heads(p, heads);
    const HeadWeights<const T> weights{w.data<T>(), by_column};
    const T *const b = data_or_null<T>(bias), *const from = tokens.data<T>();
    T* const to = heads.data<T>();
    run_tasks(head_tasks(p), is_small(p, plan.lists), Kernels::to_heads_scratch_bytes(p),
              [&](const HeadTask& task, std::byte* scratch) {
                Kernels::to_heads(p, weights, b, from, to, task, scratch);
              });
  };
  run_matrix_kernel({op, flops_of(plan)}, tokens, run, [&]<class Backend, class T>() {
    return task_workspace(HeadProjectionKernels<Backend, T>::to_heads_scratch_bytes(p));
  });
}

/// tokens (+)= W^T heads (+ bias): see HeadProjectionKernels::from_heads.
void from_heads(std::string_view op, const Plan& plan, const Tensor& w, bool by_column, const Tensor& bias,
                const Tensor& heads, bool accumulate, const Tensor& tokens) {
  const HeadProjection& p = plan.sizes;
  const bool small = is_small(p, plan.lists);
  const std::int64_t panels = num_chunks(p.width, kProjectionPanel) * p.heads;
  const auto run = [&]<class Backend, class T>() {
    using Kernels = HeadProjectionKernels<Backend, T>;
    const std::size_t panel_bytes = Kernels::panel_bytes(p.head_dim);
    const Scratch packed(static_cast<std::size_t>(panels) * panel_bytes);
    const HeadWeights<const T> weights{w.data<T>(), by_column};
    const T *const b = data_or_null<T>(bias), *const from = heads.data<T>();
    T* const to = tokens.data<T>();
    parallel_for(panels, small ? std::max<std::int64_t>(panels, 1) : 2,
                 [&](std::int64_t begin, std::int64_t end) {
                   for (std::int64_t i = begin; i < end; ++i) {
                     Kernels::pack_panel(p, weights, i % p.heads, i / p.heads * kProjectionPanel,
                                         packed.as<std::byte>() + static_cast<std::size_t>(i) * panel_bytes);
                   }
                 });
    run_tasks(token_tasks(p), small, Kernels::from_heads_scratch_bytes(p),
              [&](const TokenTask& task, std::byte* scratch) {
                Kernels::from_heads(p, packed.as<std::byte>(), b, from, accumulate, to, task, scratch);
              });
  };
  run_matrix_kernel({op, flops_of(plan)}, heads, run, [&]<class Backend, class T>() {
    using Kernels = HeadProjectionKernels<Backend, T>;
    return static_cast<std::size_t>(panels) * Kernels::panel_bytes(p.head_dim) +
           task_workspace(Kernels::from_heads_scratch_bytes(p));
  });
}

/// dw, and dbias where it is defined: see HeadProjectionKernels::weight_gradient.
void weight_gradient(std::string_view op, const Plan& plan, const Tensor& heads, const Tensor& tokens,
                     bool by_column, const Tensor& dw, const Tensor& dbias) {
  const HeadProjection& p = plan.sizes;
  const auto run = [&]<class Backend, class T>() {
    using Kernels = HeadProjectionKernels<Backend, T>;
    const T *const of_heads = heads.data<T>(), *const of_tokens = tokens.data<T>();
    const HeadWeights<Acc<T>> gradient{dw.data<Acc<T>>(), by_column};
    Acc<T>* const bias_gradient = data_or_null<Acc<T>>(dbias);
    run_tasks(column_tasks(p), is_small(p, plan.lists), Kernels::weight_gradient_scratch_bytes(p),
              [&](const ColumnTask& task, std::byte* scratch) {
                Kernels::weight_gradient(p, of_heads, of_tokens, gradient, bias_gradient, task, scratch);
              });
  };
  run_matrix_kernel({op, flops_of(plan)}, heads, run, [&]<class Backend, class T>() {
    return task_workspace(HeadProjectionKernels<Backend, T>::weight_gradient_scratch_bytes(p));
  });
}

/// The dense heads of a packed projection, which have no list (keys and values): columns [begin, end) of its
/// output, rows of its weights.
struct DensePart {
  std::int64_t begin = 0, end = 0;

  std::int64_t width() const { return end - begin; }
  Operand of(const Tensor& matrix, bool transposed = false) const {
    return columns_of(matrix, begin, width(), transposed);
  }
};

/// The columns of y = x w^T + bias.
void project_dense(const DensePart& dense, const Tensor& x, const Tensor& w, const Variable& bias,
                   const Tensor& y) {
  const Operand rows = transposed(w.slice(dense.begin, dense.end));
  if (bias.defined()) {
    matmul_bias_into(dense.of(y), x, rows, bias.value().slice(dense.begin, dense.end));
  } else {
    matmul_into(dense.of(y), x, rows);
  }
}

/// db = sums over the rows of columns [dense.begin, dense.end) of dy.
void sum_columns(std::string_view op, const Tensor& dy, const DensePart& dense, const Tensor& db) {
  run_cpu_kernel(op, dy, [&]<class Backend, class T>() {
    LinearKernels<Backend, T>::sum_rows(dy.data<T>() + dense.begin, db.data<Acc<T>>() + dense.begin,
                                        {dy.dim(0), dense.width()}, dy.dim(1));
  });
}

}  // namespace

Variable project_to_heads(const Variable& x, const Variable& w, const Variable& bias, const HeadLists& lists,
                          std::int64_t head_dim) {
  Check check(kToHeads);
  check.floating("x", x).rank("x", x, 3).rank("w", w, 2).like("w", w, "x", x);
  check_lists(kToHeads, lists, x.dim(0), x.dim(1));
  const std::int64_t out = w.dim(0), listed = lists.heads * head_dim;
  check.in_range("head_dim", static_cast<double>(head_dim), 1, 256);
  check.require(w.dim(1) == x.dim(2), "w", "[O, " + std::to_string(x.dim(2)) + "] (last axis of x)",
                to_string(w.shape()));
  check.require(out >= listed && out % head_dim == 0, "w",
                std::to_string(lists.heads) + " or more heads of " + std::to_string(head_dim) + " rows",
                to_string(w.shape()));
  if (bias.defined()) check.shape("bias", bias, {out}, "first axis of w").like("bias", bias, "x", x);

  const Plan plan = plan_of(lists, head_dim, x.dim(2), out);
  const DensePart dense{listed, out};
  const Tensor tokens = x.value().reshape({x.dim(0) * x.dim(1), x.dim(2)});
  const Tensor y = empty({tokens.dim(0), out}, x.dtype(), x.value().device());
  to_heads(kToHeads, plan, w.value(), false, bias.defined() ? bias.value() : Tensor(), tokens, y);
  if (dense.width() > 0) project_dense(dense, tokens, w.value(), bias, y);
  return record(kToHeads, y.reshape({x.dim(0), x.dim(1), out / head_dim, head_dim}), {x, w, bias},
                [plan, dense, x = x.value(), w = w.value(), tokens, needs_dx = x.requires_grad(),
                 target = GradientTarget(w), needs_dw = w.requires_grad() || bias.requires_grad(),
                 has_bias = bias.defined()](const Tensor& dheads) -> Grads {
                  const Tensor dy = dheads.reshape({tokens.dim(0), dense.end});
                  const bool has_dense = dense.width() > 0;
                  Grads grads(3);
                  if (needs_dx) {
                    const Tensor dx = empty_like(tokens);
                    if (has_dense) matmul_into(dx, dense.of(dy), w.slice(dense.begin, dense.end));
                    from_heads(kToHeads, plan, w, false, Tensor(), dy, has_dense, dx);
                    grads[0] = dx.reshape(x.shape());
                  }
                  if (!needs_dw) return grads;
                  const DType sums = accumulate_dtype(w.dtype());
                  grads[1] = target.contribution();
                  if (has_bias) grads[2] = empty({dense.end}, sums);
                  weight_gradient(kToHeads, plan, dy, tokens, false, grads[1], grads[2]);
                  if (has_dense) {
                    matmul_into(grads[1].slice(dense.begin, dense.end), dense.of(dy, true), tokens);
                    if (has_bias) sum_columns(kToHeads, dy, dense, grads[2]);
                  }
                  return grads;
                });
}

Variable project_from_heads(const Variable& heads, const Variable& w, const Variable& bias,
                            const HeadLists& lists) {
  Check check(kFromHeads);
  check.floating("heads", heads).rank("heads", heads, 4).rank("w", w, 2).like("w", w, "heads", heads);
  check_lists(kFromHeads, lists, heads.dim(0), heads.dim(1));
  const std::int64_t d = heads.dim(3), width = heads.dim(2) * d;
  check.in_range("heads: head width", static_cast<double>(d), 1, 256);
  check.require(heads.dim(2) == lists.heads, "heads", std::to_string(lists.heads) + " heads, as the lists",
                to_string(heads.shape()));
  check.shape("w", w, {w.dim(0), width}, "heads times head width");
  if (bias.defined()) check.shape("bias", bias, {w.dim(0)}, "first axis of w").like("bias", bias, "w", w);

  const Plan plan = plan_of(lists, d, w.dim(0), width);
  const Tensor y = empty({heads.dim(0) * heads.dim(1), w.dim(0)}, heads.dtype(), heads.value().device());
  from_heads(kFromHeads, plan, w.value(), true, bias.defined() ? bias.value() : Tensor(), heads.value(),
             false, y);
  return record(kFromHeads, y.reshape({heads.dim(0), heads.dim(1), w.dim(0)}), {heads, w, bias},
                [plan, heads = heads.value(), w = w.value(), needs_dheads = heads.requires_grad(),
                 target = GradientTarget(w), needs_db = bias.requires_grad()](const Tensor& dout) -> Grads {
                  const Tensor dy = dout.reshape({heads.dim(0) * heads.dim(1), w.dim(0)});
                  const DType sums = accumulate_dtype(w.dtype());
                  Grads grads(3);
                  if (needs_dheads) {
                    grads[0] = empty_like(heads);
                    to_heads(kFromHeads, plan, w, true, Tensor(), dy, grads[0]);
                  }
                  if (target.needed()) {
                    grads[1] = target.contribution();
                    weight_gradient(kFromHeads, plan, heads, dy, true, grads[1], Tensor());
                  }
                  if (needs_db) {
                    grads[2] = empty({w.dim(0)}, sums);
                    sum_columns(kFromHeads, dy, {0, w.dim(0)}, grads[2]);
                  }
                  return grads;
                });
}

bool head_projection_pays(std::int64_t tokens, std::int64_t head_dim, double active) {
  // Measured (docs/benchmarks/cpu.md). Weights are packed in each call, which only pays for enough tokens,
  // and for more of them if fewer heads are skipped; tiles of narrower heads do not fill the registers; with
  // nearly all heads active, a dense matrix multiplication of the library is as fast.
  const std::int64_t few_tokens = active <= 0.6 ? 128 : 256;
  return tokens >= few_tokens && head_dim >= 32 && active <= 0.8;
}

}  // namespace moh
