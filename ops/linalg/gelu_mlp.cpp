#include "ops/linalg/gelu_mlp.h"

#include <string>

#include "autograd/recompute.h"
#include "ops/linalg/linear_parameters.h"
#include "ops/linalg/matmul_gelu.h"

namespace moh {

namespace {

void check_layer(Check& check, const std::string& number, const Variable& x, const Variable& w,
                 const Variable& b, std::int64_t width, std::string_view why) {
  const std::string weight = "w" + number, bias = "b" + number;
  check.rank(weight, w, 2).like(weight, w, "x", x);
  check.require(w.dim(1) == width, weight, "[any, " + std::to_string(width) + "] (" + std::string(why) + ")",
                to_string(w.shape()));
  if (b.defined()) check.shape(bias, b, {w.dim(0)}, "first axis of " + weight).like(bias, b, "x", x);
}

Tensor value_of(const Variable& optional) {
  return optional.defined() ? optional.value() : Tensor();
}

}  // namespace

Variable gelu_mlp(const Variable& x, const Variable& w1, const Variable& b1, const Variable& w2,
                  const Variable& b2, GeluForm form, bool recompute_hidden) {
  Check check("gelu_mlp");
  check.floating("x", x).min_rank("x", x, 1);
  check_layer(check, "1", x, w1, b1, x.dim(-1), "last axis of x");
  check_layer(check, "2", x, w2, b2, w1.dim(0), "first axis of w1");
  const Rows in = rows_of(x), inner{in.count, w1.dim(0)}, out{in.count, w2.dim(0)};
  const LinearParameters first(w1, b1), second(w2, b2);
  const bool needs_dx = x.requires_grad(), needs_dh = needs_dx || first.need_gradients();

  const auto matrix = [&](Rows rows) { return empty({rows.count, rows.width}, x.dtype(), x.device()); };
  const Tensor h = needs_dh && grad_enabled() ? matrix(inner) : Tensor(), g = matrix(inner), y = matrix(out);
  const auto compute_hidden = [=, x = x.value()](const Tensor& to_g, const Tensor& to_h) {
    matmul_gelu_into(to_g, as_matrix(x, in), transposed(w1.value()), value_of(b1), to_h, form);
  };
  compute_hidden(g, h);
  if (b2.defined()) {
    matmul_bias_into(y, g, transposed(w2.value()), b2.value());
  } else {
    matmul_into(y, g, transposed(w2.value()));
  }
  const Tensor hidden = h.defined() ? h : g;
  if (recompute_hidden && grad_enabled()) {
    recompute_saved(
        hidden, [=, has_h = h.defined(), like = hidden.shape(), dtype = x.dtype(), device = x.device()] {
          const Tensor again_g = empty(like, dtype, device), again_h = has_h ? empty_like(again_g) : Tensor();
          compute_hidden(again_g, again_h);
          return has_h ? again_h : again_g;
        });
  }
  return record("gelu_mlp", y.reshape(with_last(x.shape(), out.width)), {x, w1, b1, w2, b2},
                [in, inner, out, needs_dh, needs_dx, form, first, second, x = x.value(),
                 hidden](const Tensor& dy) -> Grads {
                  const Tensor dy_matrix = as_matrix(dy, out);
                  Tensor dh, dx;
                  if (needs_dh) {
                    dh = empty(hidden.shape(), x.dtype(), x.device());
                    matmul_gelu_gradient_into(dh, dy_matrix, second.weight(), hidden, form);
                  }
                  // From here on, `hidden` is gelu(h) in both cases: h was overwritten with it.
                  const auto [dw2, db2] = second.gradients(dy_matrix, hidden);
                  if (!needs_dh) return {{}, {}, {}, dw2, db2};
                  const auto [dw1, db1] = first.gradients(dh, as_matrix(x, in));
                  if (needs_dx) dx = matmul({dh}, {first.weight()}, x.dtype()).reshape(x.shape());
                  return {dx, dw1, db1, dw2, db2};
                });
}

}  // namespace moh
