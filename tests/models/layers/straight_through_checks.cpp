#include "tests/models/layers/straight_through_checks.h"

#include <algorithm>
#include <array>
#include <catch2/catch.hpp>
#include <cmath>
#include <map>
#include <string>
#include <vector>

#include "autograd/node.h"
#include "models/llm/llama_layers.h"

namespace moh::test {

namespace {

using Numbers = std::vector<double>;

constexpr std::int64_t kBatch = 2, kTokens = 4, kWidth = 10, kHeads = 6, kKvHeads = 2, kDim = 4;
constexpr std::int64_t kShared = 2, kTopK = 2, kRouted = kHeads - kShared, kRows = kBatch * kTokens;
constexpr std::array<std::int64_t, kShared> kSharedHeads = {1, 3};
constexpr std::array<std::int64_t, kRouted> kRoutedHeads = {0, 2, 4, 5};
constexpr double kTheta = 100, kBalanceWeight = 0.3;

/// The layer in plain loops: x and the four matrices under their names in it.
using Leaves = std::map<std::string, Numbers>;

/// The intermediate results of the loops. Heads are [row, H, d], probabilities [row, E].
struct Pass {
  Numbers y, heads, probabilities;
};

/// rows of x times the transpose of w [outputs, inputs].
Numbers product(const Numbers& x, const Numbers& w, std::int64_t inputs) {
  const auto outputs = static_cast<std::int64_t>(w.size()) / inputs;
  const auto rows = static_cast<std::int64_t>(x.size()) / inputs;
  Numbers y(static_cast<std::size_t>(rows * outputs));
  for (std::int64_t r = 0; r < rows; ++r) {
    for (std::int64_t o = 0; o < outputs; ++o) {
      double sum = 0;
      for (std::int64_t i = 0; i < inputs; ++i)
        sum += x[static_cast<std::size_t>(r * inputs + i)] * w[static_cast<std::size_t>(o * inputs + i)];
      y[static_cast<std::size_t>(r * outputs + o)] = sum;
    }
  }
  return y;
}

/// Turns x [row, heads, d] by the positions of the tokens.
void rotate(Numbers& x, std::int64_t heads) {
  for (std::int64_t row = 0; row < kRows; ++row) {
    for (std::int64_t h = 0; h < heads; ++h) {
      double* v = &x[static_cast<std::size_t>((row * heads + h) * kDim)];
      for (std::int64_t i = 0; i < kDim / 2; ++i) {
        const double angle = static_cast<double>(row % kTokens) * std::pow(kTheta, -2.0 * i / kDim);
        const double a = v[i], b = v[i + kDim / 2];
        v[i] = a * std::cos(angle) - b * std::sin(angle);
        v[i + kDim / 2] = b * std::cos(angle) + a * std::sin(angle);
      }
    }
  }
}

/// softmax of the norms of the routed heads' queries, divided by their standard deviation.
Numbers router_probabilities(const Numbers& q) {
  Numbers p;
  for (std::int64_t row = 0; row < kRows; ++row) {
    std::array<double, kRouted> z{};
    double mean = 0, variance = 0, sum = 0;
    for (std::int64_t e = 0; e < kRouted; ++e) {
      double squares = 0;
      for (std::int64_t i = 0; i < kDim; ++i)
        squares += std::pow(q[static_cast<std::size_t>((row * kHeads + kRoutedHeads[e]) * kDim + i)], 2);
      z[e] = std::sqrt(squares);
      mean += z[e] / kRouted;
    }
    for (double norm : z) variance += std::pow(norm - mean, 2) / (kRouted - 1);
    for (double& norm : z) sum += norm = std::exp(norm / std::sqrt(variance));
    for (double e : z) p.push_back(e / sum);
  }
  return p;
}

/// Causal attention of every head.
Numbers attended(const Numbers& q, const Numbers& k, const Numbers& v) {
  Numbers heads(q.size());
  for (std::int64_t row = 0; row < kRows; ++row) {
    for (std::int64_t h = 0; h < kHeads; ++h) {
      const std::int64_t kv = h / (kHeads / kKvHeads);
      const auto at = [&](std::int64_t of_row) {
        return static_cast<std::size_t>((of_row * kKvHeads + kv) * kDim);
      };
      const auto own = static_cast<std::size_t>((row * kHeads + h) * kDim);
      double sum = 0;
      for (std::int64_t s = row - row % kTokens; s <= row; ++s) {
        double score = 0;
        for (std::size_t i = 0; i < kDim; ++i) score += q[own + i] * k[at(s) + i];
        const double weight = std::exp(score / std::sqrt(double{kDim}));
        sum += weight;
        for (std::size_t i = 0; i < kDim; ++i) heads[own + i] += weight * v[at(s) + i];
      }
      for (std::size_t i = 0; i < kDim; ++i) heads[own + i] /= sum;
    }
  }
  return heads;
}

/// `gates` [row, H].
Pass run_loops(const Leaves& leaves, const Numbers& gates) {
  const Numbers& x = leaves.at("x");
  Numbers q = product(x, leaves.at("q_proj.weight"), kWidth),
          k = product(x, leaves.at("k_proj.weight"), kWidth);
  Pass pass;
  pass.probabilities = router_probabilities(q);
  rotate(q, kHeads);
  rotate(k, kKvHeads);
  pass.heads = attended(q, k, product(x, leaves.at("v_proj.weight"), kWidth));
  Numbers gated = pass.heads;
  for (std::size_t i = 0; i < gated.size(); ++i) gated[i] *= gates[i / kDim];
  pass.y = product(gated, leaves.at("o_proj.weight"), kHeads * kDim);
  return pass;
}

/// Gates of 1 for shared heads and those routed ones whose probability is among the largest.
Numbers selected_gates(const Numbers& probabilities) {
  Numbers gates(kRows * kHeads);
  for (std::int64_t row = 0; row < kRows; ++row) {
    double* own = &gates[static_cast<std::size_t>(row * kHeads)];
    for (const std::int64_t head : kSharedHeads) own[head] = 1;
    const double* p = &probabilities[static_cast<std::size_t>(row * kRouted)];
    for (std::int64_t e = 0; e < kRouted; ++e) {
      const auto larger = std::count_if(p, p + kRouted, [&](double other) { return other > p[e]; });
      if (larger < kTopK) own[kRoutedHeads[e]] = 1;
    }
  }
  return gates;
}

double dot(const Numbers& a, const Numbers& b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
  return sum;
}

/// A loss whose true gradient is what the estimator is to give, at the leaves where it is made: the gates
/// there are constants, and in place of each one that the estimator hears of stands its probability, times
/// the gradient of the gate.
class Surrogate {
 public:
  Surrogate(const Leaves& leaves, const Numbers& dy, StraightThrough mode) : dy_(dy) {
    const Numbers p = run_loops(leaves, Numbers(kRows * kHeads)).probabilities;
    gates_ = selected_gates(p);
    share_.assign(kRouted, 0);
    gate_gradients_.assign(p.size(), 0);
    const Pass base = run_loops(leaves, gates_);
    const Numbers& w = leaves.at("o_proj.weight");
    for (std::size_t i = 0; i < p.size(); ++i) {
      const std::size_t row = i / kRouted;
      const auto head = static_cast<std::size_t>(kRoutedHeads[i % kRouted]);
      const bool selected = gates_[row * kHeads + head] != 0;
      share_[i % kRouted] += selected ? 1.0 / kRows : 0;
      if (mode == StraightThrough::kNone || (mode == StraightThrough::kSelected && !selected)) continue;
      for (std::size_t j = 0; j < kDim; ++j) {
        for (std::size_t o = 0; o < kWidth; ++o) {
          gate_gradients_[i] += dy_[row * kWidth + o] * w[(o * kHeads + head) * kDim + j] *
                                base.heads[(row * kHeads + head) * kDim + j];
        }
      }
    }
  }

  double operator()(const Leaves& leaves) const {
    const Pass pass = run_loops(leaves, gates_);
    Numbers mean(kRouted);
    for (std::size_t i = 0; i < pass.probabilities.size(); ++i)
      mean[i % kRouted] += pass.probabilities[i] / kRows;
    return dot(pass.y, dy_) + dot(pass.probabilities, gate_gradients_) +
           kBalanceWeight * kRouted * dot(mean, share_);
  }

  const Numbers& gates() const { return gates_; }

 private:
  Numbers dy_, gates_, gate_gradients_, share_;
};

/// Central differences.
Numbers gradient(const Surrogate& loss, Leaves leaves, const std::string& name) {
  constexpr double kStep = 1e-5;
  Numbers found;
  for (double& number : leaves.at(name)) {
    const double there = number;
    number = there + kStep;
    const double above = loss(leaves);
    number = there - kStep;
    found.push_back((above - loss(leaves)) / (2 * kStep));
    number = there;
  }
  return found;
}

LlamaConfig layer_config(StraightThrough mode) {
  LlamaConfig config;
  config.hidden = kWidth;
  config.heads = kHeads;
  config.kv_heads = kKvHeads;
  config.head_dim = kDim;
  config.moh.router = routers::kQueryNorm;
  config.moh.num_shared = kShared;
  config.moh.top_k = kTopK;
  config.moh.shared_heads.every.assign(kSharedHeads.begin(), kSharedHeads.end());
  config.moh.straight_through = mode;
  return config;
}

/// Random float32 numbers, which are the same in float64.
Tensor drawn(const Shape& shape, std::uint64_t seed) {
  const Tensor tensor = empty(shape, DType::kFloat32);
  fill_normal(tensor, {seed, 0}, 0.0, 1.0);
  return tensor;
}

Numbers numbers_of(const Tensor& tensor) {
  const Tensor wide = tensor.to(kCpu).to(DType::kFloat64);
  return {wide.data<double>(), wide.data<double>() + wide.numel()};
}

void check_close(const Numbers& found, const Numbers& expected, double tolerance) {
  REQUIRE(found.size() == expected.size());
  double largest = 0, difference = 0;
  for (std::size_t i = 0; i < found.size(); ++i) {
    largest = std::max(largest, std::abs(expected[i]));
    difference = std::max(difference, std::abs(found[i] - expected[i]));
  }
  CHECK(largest > 0);
  CHECK(difference <= tolerance * largest);
}

}  // namespace

void check_straight_through(Placement placement, double tolerance) {
  const Tensor x_value = drawn({kBatch, kTokens, kWidth}, 1), dy = drawn({kBatch, kTokens, kWidth}, 2);
  const auto placed = [&](const Tensor& t) { return t.to(placement.dtype).to(placement.device); };
  std::map<StraightThrough, Numbers> of_queries;
  for (const StraightThrough mode :
       {StraightThrough::kNone, StraightThrough::kSelected, StraightThrough::kAll}) {
    INFO("straight-through " << static_cast<int>(mode));
    const LlamaConfig config = layer_config(mode);
    const LlamaAttention layer(config, 0, placement);
    Leaves leaves = {{"x", numbers_of(x_value)}};
    std::uint64_t seed = 3;
    for (const NamedParameter& p : layer.parameters()) {
      const Tensor w = drawn(p.variable.shape(), seed++);
      p.variable.value().copy_from(placed(w));
      leaves[p.name] = numbers_of(w);
    }
    const Surrogate surrogate(leaves, numbers_of(dy), mode);

    const Variable x(placed(x_value), true);
    const RopeTable table =
        rope_table(kTokens, kDim, kTheta, accumulate_dtype(placement.dtype), placement.device);
    const LayerOutput out = layer.forward(x, table);
    check_close(numbers_of(out.y.value()), run_loops(leaves, surrogate.gates()).y, tolerance);
    const Variable& balance = out.routing.value().balance;
    const std::vector<Variable> losses = {out.y, balance};
    const Tensor weight = full({}, kBalanceWeight, balance.dtype(), placement.device);
    backward(losses, std::vector<Tensor>{placed(dy), weight});

    const auto check_gradient = [&](const std::string& name, const Variable& leaf) {
      INFO(name);
      const Numbers expected = gradient(surrogate, leaves, name);
      check_close(numbers_of(leaf.grad()), expected, tolerance);
      if (name == "q_proj.weight") of_queries[mode] = expected;
    };
    check_gradient("x", x);
    for (const NamedParameter& p : layer.parameters()) check_gradient(p.name, p.variable);
  }
  // The estimators differ by far more than the tolerance.
  for (const auto& [mode, numbers] : of_queries) {
    for (const auto& [other, others] : of_queries) {
      double difference = 0;
      for (std::size_t i = 0; i < numbers.size(); ++i)
        difference = std::max(difference, std::abs(numbers[i] - others[i]));
      CHECK((difference > 0.1) == (mode != other));
    }
  }
}

}  // namespace moh::test
