#include "tests/golden/reference_choice.h"

#include <algorithm>
#include <cmath>
#include <set>

namespace moh::test {

namespace {

using Heads = std::set<std::int64_t>;

/// A token's gates on either side of the choice: the smallest of a selected head, the largest of the others.
struct Border {
  double inside = HUGE_VAL, outside = -HUGE_VAL;
};

Heads heads_of(const Tensor& top, std::int64_t token) {
  const Tensor row = top.to(DType::kInt64).select(token);
  const auto heads = row.span<std::int64_t>();
  return {heads.begin(), heads.end()};
}

Border border_of(const Tensor& gates, std::int64_t token, const Heads& selected) {
  const Tensor row = gates.to(DType::kFloat64).select(token);
  Border border;
  for (std::int64_t e = 0; e < row.numel(); ++e) {
    const double gate = row.data<double>()[e];
    if (selected.contains(e))
      border.inside = std::min(border.inside, gate);
    else
      border.outside = std::max(border.outside, gate);
  }
  return border;
}

/// The file's smallest gap is printed with seven digits; half of it is far from any rounding.
bool is_tie(const GoldenCase& golden, const Border& border) {
  return border.inside - border.outside < golden.min_gap() / 2;
}

}  // namespace

void LayerTraces::observe(const AttentionTrace& trace) {
  layers_.push_back({trace.heads, {}});
  if (trace.choice != nullptr) layers_.back().choice = *trace.choice;
}

HeadCounts head_counts(const GoldenCase& golden, const std::string& attention, const std::string& router) {
  const std::int64_t heads = golden.tensor(attention + ".head_weights").dim(2);
  if (!golden.has(router + ".gates")) return {heads, heads, 0};
  const std::int64_t routed = golden.tensor(router + ".gates").dim(1);
  return {heads, heads - routed, golden.tensor(router + ".topk_indices").dim(1)};
}

void check_router(const GoldenCase& golden, const std::string& router, const Routing& own) {
  const std::string indices = router + ".topk_indices";
  INFO(golden.path() << ": " << indices);
  golden.check(router + ".gates", own.probabilities);
  const Tensor gates = golden.tensor(router + ".gates"), top = golden.tensor(indices);
  REQUIRE(to_string(own.top.shape()) == to_string(top.shape()));
  for (std::int64_t t = 0; t < top.dim(0); ++t) {
    INFO("token " << t);
    const Heads mine = heads_of(own.top, t), reference = heads_of(top, t);
    const Border border = border_of(own.probabilities, t, mine);
    CHECK(static_cast<std::int64_t>(mine.size()) == top.dim(1));
    CHECK(border.inside >= border.outside);
    if (!is_tie(golden, border_of(gates, t, reference))) CHECK(mine == reference);
  }
  golden.mark_compared(indices);
}

Tensor imposed_choice(const GoldenCase& golden, const std::string& router) {
  if (!golden.has(router + ".gates")) return {};
  const Tensor gates = golden.tensor(router + ".gates"), top = golden.tensor(router + ".topk_indices");
  for (std::int64_t t = 0; t < top.dim(0); ++t) {
    const Border border = border_of(gates, t, heads_of(top, t));
    if (is_tie(golden, border) && border.inside > 0) return top.to(DType::kInt32);
  }
  return {};
}

}  // namespace moh::test
