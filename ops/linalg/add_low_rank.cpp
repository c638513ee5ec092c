#include "ops/linalg/add_low_rank.h"

#include <string>

#include "ops/linalg/linear_parameters.h"
#include "ops/linalg/matmul.h"
#include "ops/op.h"

namespace moh {

namespace {

/// A term as saved for the backward pass: its matrix, and its columns of y and of h.
struct SavedTerm {
  GradientTarget up;
  std::int64_t first = 0, width = 0;  ///< in y
  std::int64_t begin = 0, rank = 0;   ///< in h

  Operand of_y(const Tensor& y, bool is_transposed = false) const {
    return columns_of(y, first, width, is_transposed);
  }
  Operand of_h(const Tensor& h) const { return columns_of(h, begin, rank); }
};

std::vector<SavedTerm> checked_terms(const Variable& y, const Variable& h,
                                     const std::vector<LowRankTerm>& terms) {
  Check check("add_low_rank");
  check.floating("y", y).min_rank("y", y, 1).like("h", h, "y", y);
  std::vector<SavedTerm> saved;
  std::int64_t rank = 0;
  for (const auto& [up, first] : terms) {
    check.like("up", up, "y", y).rank("up", up, 2);
    check.require(
        first >= 0 && first + up.dim(0) <= y.dim(-1), "first_column",
        "a range of " + std::to_string(up.dim(0)) + " of the " + std::to_string(y.dim(-1)) + " columns of y",
        "one that begins at " + std::to_string(first));
    saved.push_back({GradientTarget(up), first, up.dim(0), rank, up.dim(1)});
    rank += up.dim(1);
  }
  check.shape("h", h, with_last(y.shape(), rank), "rows of y, and all ranks");
  return saved;
}

/// The gradient of h from that of y, [N, C], of `dtype`.
Tensor gradient_of_h(const std::vector<SavedTerm>& terms, const Tensor& dy, std::int64_t width, DType dtype) {
  Tensor dh = empty({dy.dim(0), width}, dtype, dy.device());
  for (const SavedTerm& term : terms) matmul_into(term.of_h(dh), term.of_y(dy), term.up.value());
  return dh;
}

}  // namespace

Variable add_low_rank(const Variable& y, const Variable& h, const std::vector<LowRankTerm>& terms) {
  const std::vector<SavedTerm> saved = checked_terms(y, h, terms);
  const Rows of_y = rows_of(y), of_h{of_y.count, h.dim(-1)};
  const Tensor sum = empty_like(y.value());
  sum.copy_from(y.value());
  for (const SavedTerm& term : saved)
    matmul_into(term.of_y(as_matrix(sum, of_y)), term.of_h(as_matrix(h.value(), of_h)),
                transposed(term.up.value()), /*accumulate=*/true);
  std::vector<Variable> inputs = {y, h};
  for (const LowRankTerm& term : terms) inputs.push_back(term.up);
  return record("add_low_rank", sum, inputs,
                [h = h.value(), saved, of_y, of_h, needs_dh = h.requires_grad()](const Tensor& dy) -> Grads {
                  const Tensor dy_matrix = as_matrix(dy, of_y), h_matrix = as_matrix(h, of_h);
                  Grads grads = {dy, {}};
                  if (needs_dh)
                    grads[1] = gradient_of_h(saved, dy_matrix, of_h.width, h.dtype()).reshape(h.shape());
                  for (const SavedTerm& term : saved) {
                    grads.emplace_back();
                    if (!term.up.needed()) continue;
                    const auto [dw, adds] = term.up.sum();
                    matmul_into(dw, term.of_y(dy_matrix, /*is_transposed=*/true), term.of_h(h_matrix), adds);
                    grads.back() = dw;
                  }
                  return grads;
                });
}

}  // namespace moh
