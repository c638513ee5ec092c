#include "ops/linalg/linear.h"

#include "ops/linalg/linear_parameters.h"
#include "ops/linalg/matmul.h"
#include "ops/op.h"

namespace moh {

namespace {

/// Checks x, a weight, whose dtype may also be the accumulation dtype, and the dtype `out` of the result.
/// Returns the latter.
DType check_linear(Check& check, std::string_view op, const Variable& x, const Variable& w,
                   std::optional<DType> out) {
  check.rank("w", w, 2);
  if (w.dtype() == accumulate_dtype(x.dtype()) && w.device() == x.device()) {
    check.floating("w", w);
  } else {
    check.like("w", w, "x", x);
  }
  check.require(w.dim(1) == x.dim(-1), "w", "[O, " + std::to_string(x.dim(-1)) + "] (last axis of x)",
                to_string(w.shape()));
  const DType dtype = out.value_or(x.dtype());
  if (dtype != x.dtype() && dtype != accumulate_dtype(x.dtype())) {
    throw DTypeError(
        error_message(op, "out", "the dtype of x, or its accumulation dtype", dtype_name(dtype)));
  }
  return dtype;
}

void check_bias(Check& check, const Variable& x, const Variable& w, const Variable& b) {
  if (b.defined()) check.shape("b", b, {w.dim(0)}, "first axis of w").like("b", b, "x", x);
}

/// y = x w^T + b; b may be undefined.
void multiply_into(const Operand& y, const Tensor& x, const Tensor& w, const Tensor& b) {
  if (b.defined()) {
    matmul_bias_into(y, x, transposed(w), b.to(y.matrix.dtype()));
  } else {
    matmul_into(y, x, transposed(w));
  }
}

/// The gradient of the result as a factor of products with x and weights of dtype `w`. A GPU's library
/// multiplies matrices of one dtype: that of a wider result, of few columns, is rounded, where x and the
/// weights would else be upcast.
Tensor gradient_factor(const Tensor& dy, Rows rows, const Tensor& x, DType w) {
  const Tensor matrix = as_matrix(dy, rows);
  return x.device() != kCpu && x.dtype() == w ? matrix.to(w) : matrix;
}

/// x w^T + b as a matrix [N, O] of `dtype`.
Tensor product(const Tensor& x, const Variable& w, const Variable& b, DType dtype) {
  Tensor y = empty({x.dim(0), w.dim(0)}, dtype, x.device());
  multiply_into(y, x, w.value(), b.defined() ? b.value() : Tensor());
  return y;
}

std::vector<Tensor> values_of(const std::vector<Variable>& variables) {
  std::vector<Tensor> values;
  for (const Variable& variable : variables) values.push_back(variable.value());
  return values;
}

/// x with each of the weights and biases (all or none) into columns of y.
void packed_product(const Tensor& y, const Tensor& x, const std::vector<Tensor>& weights,
                    const std::vector<Tensor>& biases) {
  const Tensor whole = joined_rows(weights), whole_bias = joined_rows(biases);
  if (whole.defined() && (biases.empty() || whole_bias.defined()))
    return multiply_into(y, x, whole, whole_bias);
  std::int64_t begin = 0;
  for (std::size_t i = 0; i < weights.size(); ++i) {
    const std::int64_t columns = weights[i].dim(0);
    multiply_into(columns_of(y, begin, columns), x, weights[i], biases.empty() ? Tensor() : biases[i]);
    begin += columns;
  }
}

}  // namespace

Variable linear(const Variable& x, const Variable& w, const Variable& b, std::optional<DType> out) {
  Check check("linear");
  check.floating("x", x).min_rank("x", x, 1);
  const DType dtype = check_linear(check, "linear", x, w, out);
  check_bias(check, x, w, b);
  const Rows in = rows_of(x), rows{in.count, w.dim(0)};
  const Tensor y = product(as_matrix(x.value(), in), w, b, dtype);
  return record("linear", y.reshape(with_last(x.shape(), rows.width)), {x, w, b},
                [x = x.value(), parameters = LinearParameters(w, b), in, rows,
                 needs_dx = x.requires_grad()](const Tensor& dy) -> Grads {
                  const Tensor dy_matrix = gradient_factor(dy, rows, x, parameters.weight().dtype());
                  Tensor dx;
                  if (needs_dx) dx = matmul({dy_matrix}, {parameters.weight()}, x.dtype()).reshape(x.shape());
                  const auto [dw, db] = parameters.gradients(dy_matrix, as_matrix(x, in));
                  return {dx, dw, db};
                });
}

std::vector<Variable> linears(const Variable& x, const std::vector<Variable>& weights,
                              const std::vector<Variable>& biases, std::optional<DType> out) {
  Check check("linears");
  check.floating("x", x).min_rank("x", x, 1);
  check.require(biases.empty() || biases.size() == weights.size(), "biases", "none, or one per weight",
                std::to_string(biases.size()));
  const Rows in = rows_of(x);
  std::vector<Tensor> results;
  std::vector<Variable> inputs = {x};
  std::vector<LinearParameters> kept;
  for (std::size_t i = 0; i < weights.size(); ++i) {
    const Variable &w = weights[i], b = biases.empty() ? Variable() : biases[i];
    const DType dtype = check_linear(check, "linears", x, w, out);
    check_bias(check, x, w, b);
    results.push_back(product(as_matrix(x.value(), in), w, b, dtype).reshape(with_last(x.shape(), w.dim(0))));
    inputs.insert(inputs.end(), {w, b});
    kept.emplace_back(w, b);
  }
  return record_outputs(
      "linears", std::move(results), inputs,
      [x = x.value(), kept, in, needs_dx = x.requires_grad()](std::span<const Tensor> dys) -> Grads {
        Grads grads(2 * kept.size() + 1);
        Tensor dx;
        for (std::size_t i = 0; i < kept.size(); ++i) {
          if (!dys[i].defined()) continue;
          const Tensor& w = kept[i].weight();
          const Tensor dy = gradient_factor(dys[i], {in.count, w.dim(0)}, x, w.dtype());
          auto [dw, db] = kept[i].gradients(dy, as_matrix(x, in));
          grads[2 * i + 1] = std::move(dw);
          grads[2 * i + 2] = std::move(db);
          if (!needs_dx) continue;
          const bool first = !dx.defined();
          if (first) dx = empty({in.count, in.width}, accumulate_dtype(x.dtype()), x.device());
          matmul_into(dx, dy, w, /*accumulate=*/!first);
        }
        if (dx.defined()) grads[0] = dx.to(x.dtype()).reshape(x.shape());
        return grads;
      });
}

Variable packed_linear(const Variable& x, const std::vector<Variable>& weights,
                       const std::vector<Variable>& biases, std::optional<DType> out) {
  Check check("packed_linear");
  check.floating("x", x).min_rank("x", x, 1);
  check.require(!weights.empty(), "weights", "one or more", "none");
  check.require(biases.empty() || biases.size() == weights.size(), "biases", "none, or one per weight",
                std::to_string(biases.size()));
  const Rows in = rows_of(x);
  Rows rows{in.count, 0};
  DType dtype = x.dtype();
  for (std::size_t i = 0; i < weights.size(); ++i) {
    dtype = check_linear(check, "packed_linear", x, weights[i], out);
    if (!biases.empty()) {
      check.require(biases[i].defined(), "biases", "a tensor per weight, or no biases", "an undefined one");
      check_bias(check, x, weights[i], biases[i]);
    }
    rows.width += weights[i].dim(0);
  }
  const Tensor y = empty({rows.count, rows.width}, dtype, x.device());
  packed_product(y, as_matrix(x.value(), in), values_of(weights), values_of(biases));
  std::vector<Variable> inputs = {x};
  inputs.insert(inputs.end(), weights.begin(), weights.end());
  inputs.insert(inputs.end(), biases.begin(), biases.end());
  return record("packed_linear", y.reshape(with_last(x.shape(), rows.width)), inputs,
                [x = x.value(), parameters = PackedLinearParameters(weights, biases), in, rows,
                 w_dtype = weights.front().dtype(), needs_dx = x.requires_grad()](const Tensor& dy) -> Grads {
                  const Tensor dy_matrix = gradient_factor(dy, rows, x, w_dtype);
                  Grads grads(1);
                  if (needs_dx) {
                    // An addition by itself would be a launch.
                    Tensor sum = x.device() == kCpu ? Tensor() : gradient_sum_of_input(0);
                    if (sum.defined()) sum = as_matrix(sum, in);
                    grads[0] = parameters.input_gradient(dy_matrix, x.dtype(), sum).reshape(x.shape());
                  }
                  const std::vector<Tensor> others = parameters.gradients(dy_matrix, as_matrix(x, in));
                  grads.insert(grads.end(), others.begin(), others.end());
                  return grads;
                });
}

}  // namespace moh
