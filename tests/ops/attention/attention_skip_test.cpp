// The factors of the CPU kernels: a NaN reaches all that it is a factor of, masked or not.

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <limits>

#include "ops/attention/attention.h"
#include "tests/ops/attention/reference.h"
#include "tests/ops/op_cases.h"

using namespace moh;
using namespace moh::test;

namespace {

constexpr std::int64_t kTokens = 200, kDim = 8;
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

/// Multiplications of a key (or its value) with a row, in units of kDim.
struct Work {
  std::int64_t values = 0;     ///< forward, out += P v
  std::int64_t queries = 0;    ///< backward, dq += dS k
  std::int64_t gradients = 0;  ///< backward, dv += P^T dout
};

std::int64_t rows_with_nan(const Tensor& x) {
  std::int64_t rows = 0;
  for (std::int64_t row = 0; row < x.numel() / kDim; ++row) rows += std::isnan(x.data<float>()[row * kDim]);
  return rows;
}

void poison(const Variable& x, std::int64_t token) {
  std::fill_n(x.value().data<float>() + token * kDim, kDim, kNan);
}

/// One run per token: with its value, then its key and the gradient of its output replaced by NaN. Dense, or
/// with the selected tokens of one head.
Work work_of(const AttentionOptions& mask, double share) {
  const AttentionInputs in = attention_inputs({1, kTokens, kTokens, 1, 1, kDim}, share);
  const auto run = [&](const std::vector<Variable>& x) {
    if (!in.selected.defined()) return attention(x[0], x[1], x[2], mask);
    return head_sparse_attention(x[0], x[1], x[2], Variable(in.gates.to(DType::kFloat32)),
                                 build_head_lists(in.selected, 1), mask);
  };
  Work work;
  for (std::int64_t token = 0; token < kTokens; ++token) {
    for (const bool backward : {false, true}) {
      std::vector<Variable> x;
      for (const Tensor& tensor : {in.q, in.k, in.v})
        x.emplace_back(tensor.to(DType::kFloat32).clone(), true);
      if (!backward) {
        poison(x[2], token);
        work.values += rows_with_nan(run(x).value());
        continue;
      }
      const Variable out = run(x);
      poison(x[1], token);
      Variable dout(normal(in.q.shape()).to(DType::kFloat32));
      poison(dout, token);
      out.backward(dout.value());
      work.queries += rows_with_nan(x[0].grad());
      work.gradients += rows_with_nan(x[2].grad());
    }
  }
  return work;
}

void check_work(const AttentionOptions& mask, double share, double visible) {
  const Work work = work_of(mask, share);
  // A tile of six rows (or keys) multiplies with all that one of them sees.
  const double most = visible + 10.0 * kTokens;
  for (const std::int64_t count : {work.values, work.queries, work.gradients}) {
    CHECK(static_cast<double>(count) >= visible);
    CHECK(static_cast<double>(count) <= most);
  }
}

}  // namespace

TEST_CASE("ops: attention multiplies with the keys of windows and documents, not with masked ones") {
  constexpr double kCausal = kTokens * (kTokens + 1) / 2.0;
  check_work({}, -1, kCausal);
  for (const std::int64_t window : {1, 20, 64}) {
    INFO("window " << window);
    const std::int64_t outside = window * (window - 1) / 2;  // pairs before the first token
    check_work({.window = window}, -1, static_cast<double>(window * kTokens - outside));
  }
  for (const std::int64_t length : {10, 40}) {
    INFO("documents of " << length);
    const Tensor starts = empty({1, kTokens}, DType::kInt32), ends = empty({1, kTokens}, DType::kInt32);
    for (std::int64_t t = 0; t < kTokens; ++t) {
      starts.data<std::int32_t>()[t] = static_cast<std::int32_t>(t / length * length);
      ends.data<std::int32_t>()[t] = static_cast<std::int32_t>((t / length + 1) * length);
    }
    check_work({.document_starts = starts}, -1, static_cast<double>(kTokens * (length + 1)) / 2);
    check_work({.causal = false, .document_starts = starts, .document_ends = ends}, -1,
               static_cast<double>(kTokens * length));
  }
}

TEST_CASE("ops: attention over lists multiplies with the keys of windows, not with masked ones") {
  const Work causal = work_of({}, 0.5), window = work_of({.window = 20}, 0.5);
  // Half of the rows; those of a tile of six lie twelve tokens apart.
  CHECK(window.values <= kTokens / 2 * (20 + 16));
  CHECK(window.queries <= kTokens / 2 * (20 + 16));
  CHECK(5 * window.gradients < 2 * causal.gradients);
  CHECK(3 * window.values < causal.values);
}
