#pragma once

// For kernel files (*_cuda.cu) only: the passes of aggregated attention on a GPU, in the order in which they
// run.

#include "ops/attention/aggregated/problem.h"

namespace moh::aggregated {

/// Writes problem.kept.words for the rows of the lists: the kept_percent of the keys that a row sees with the
/// largest logits. `scores`: Division::select_scores() elements. Both directions call it, so that rounding
/// cannot make them differ.
template <class T>
void select_keys(const Problem<T>& problem, float* scores);

/// Writes the rows of the lists; lse may be null.
template <class T>
void forward(const Problem<T>& problem, const HeadView<T>& out, float* lse);

/// The numbers of a row that the first pass of the backward pass leaves for the others.
struct alignas(16) RowFactors {
  float inverse;  ///< 1 / |q|
  float scale;    ///< of u(q) + e, in natural units
  float delta;    ///< the sum of probabilities times their gradients, without the gate
  float gate;
};

/// Operands and workspace of the backward pass. Rows are numbered through all lists.
template <class T>
struct Backward {
  Problem<T> problem;
  Division division;
  HeadView<const T> dout;
  const float* lse;
  HeadView<T> dq;
  float* dgates;      ///< or null
  std::int64_t rows;  ///< at most

  RowFactors* factors = nullptr;  ///< [rows]
  std::int32_t* row_numbers =
      nullptr;                ///< [lists, tokens] 1 + the row's number in its list, or 0; null: all pairs
  float* dscores = nullptr;   ///< [neighbours, rows] gradients of the logits of neighbours
  float* weights = nullptr;   ///< [neighbours, rows] factors of their values
  float* dlearned = nullptr;  ///< [neighbours, rows] gradients of the learned weights

  float* row_sums =
      nullptr;  ///< [H, row_sums(), width + 1] gradients of the query embedding, and of softplus(tau)
  float* key_sums = nullptr;   ///< [lists, chunks, keys, 2, width] of unit keys, and of values
  float* bias_sums = nullptr;  ///< [parts, H, tokens, keys]
  float* learned_sums =
      nullptr;  ///< [H, parts, chunks, neighbours, width + 2] of tokens, of their biases, of biases
};

/// dq and dgates of the rows; factors, row_numbers, dscores, weights, dlearned, row_sums.
template <class T>
void backward_rows(const Backward<T>& args);

/// bias_sums and learned_sums, and the gradients of distant keys and values.
template <class T>
void backward_keys(const Backward<T>& args, const HeadView<T>& dk, const HeadView<T>& dv);

/// The gradients of the keys and values of neighbours.
template <class T>
void backward_window(const Backward<T>& args, const HeadView<T>& dk, const HeadView<T>& dv);

}  // namespace moh::aggregated
