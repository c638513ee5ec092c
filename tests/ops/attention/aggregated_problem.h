#pragma once

#include <string>
#include <vector>

#include "ops/attention/aggregated_attention.h"
#include "tests/ops/op_cases.h"

// Operands of aggregated attention for tests on any device.

namespace moh::test::aggregated {

struct Sizes {
  std::int64_t batch, height, width, heads, d, keys, window;

  std::int64_t tokens() const { return height * width; }
  std::int64_t neighbours() const { return window * window; }
};

inline std::string name_of(const Sizes& s) {
  return to_string(Shape{s.batch, s.height, s.width, s.heads, s.d}) + " keys " + std::to_string(s.keys) +
         " window " + std::to_string(s.window);
}

/// Operands in the op's order; `selected` [B, N, H], or undefined for all pairs without gates.
struct Problem {
  std::vector<Tensor> inputs;
  Tensor selected;
};

inline Problem problem_of(const Sizes& s, double share) {
  const std::int64_t n = s.tokens(), near = s.neighbours();
  Problem p{{normal({s.batch, n, s.heads, s.d}, 1), normal({s.batch, n, 2 * s.heads, s.d}, 2),
             normal({s.batch, s.keys, 2 * s.heads, s.d}, 3), normal({s.heads, 1, s.d}, 4),
             normal({s.heads, 1, 1}, 5), normal({s.heads, n, s.keys}, 6), normal({s.heads, near}, 7),
             normal({s.heads, s.d, near}, 8), normal({s.heads, 1, near}, 9)},
            {}};
  if (share < 0) return p;
  p.inputs.push_back(uniform({s.batch, n, s.heads}, -0.5, 1.5, 10));
  const Tensor draw = uniform({s.batch, n, s.heads}, 0.0, 1.0, 11);
  p.selected = empty(draw.shape(), DType::kUInt8);
  for (std::int64_t i = 0; i < draw.numel(); ++i)
    p.selected.data<std::uint8_t>()[i] = draw.data<double>()[i] < share;
  return p;
}

inline SelectedPairs pairs_of(const Tensor& selected, const Variable& gates,
                              std::int64_t kept_percent = 100) {
  if (!selected.defined()) return {.kept_percent = kept_percent};
  return {gates, build_head_lists(selected.to(gates.device()), selected.dim(2)), kept_percent};
}

inline Variable run_aggregated(const Sizes& s, const Inputs& x, const Tensor& selected,
                               std::int64_t kept_percent = 100) {
  return aggregated_attention(x[0], x[1], x[2], {x[3], x[4], x[5]}, {x[6], x[7], x[8]},
                              {s.height, s.width, s.window},
                              pairs_of(selected, x.size() > 9 ? x[9] : Variable(), kept_percent));
}

/// Queries, keys and values of cosine_attention_packed, its parameters, and the gates if there are any.
inline std::vector<Tensor> packed_inputs(const Sizes& s, const Problem& p) {
  std::vector<Tensor> inputs = {normal({s.batch, s.tokens(), 3 * s.heads, s.d}, 12), p.inputs[3], p.inputs[4],
                                p.inputs[5]};
  if (p.selected.defined()) inputs.push_back(p.inputs[9]);
  return inputs;
}
inline Variable run_packed(const Inputs& x, const Tensor& selected, std::int64_t kept_percent = 100) {
  return cosine_attention_packed(x[0], {x[1], x[2], x[3]},
                                 pairs_of(selected, x.size() > 4 ? x[4] : Variable(), kept_percent));
}

}  // namespace moh::test::aggregated
