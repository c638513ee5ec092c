#include "train/init/router_start.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <string>

#include "autograd/node.h"
#include "train/init/head_importance.h"
#include "train/init/least_squares.h"

namespace moh {

namespace {

/// ln of the chosen columns of norms [N, H], each row less its mean.
Tensor centred_logs(const Tensor& norms, const std::vector<std::int64_t>& heads) {
  constexpr double kLeast = 1e-30;  // a head that adds nothing
  const auto width = static_cast<std::int64_t>(heads.size());
  const Tensor logs = empty({norms.dim(0), width}, DType::kFloat64);
  for (std::int64_t t = 0; t < norms.dim(0); ++t) {
    double* row = logs.data<double>() + t * width;
    double mean = 0;
    for (std::int64_t e = 0; e < width; ++e) {
      row[e] = std::log(
          std::max(kLeast, norms.data<double>()[t * norms.dim(1) + heads[static_cast<std::size_t>(e)]]));
      mean += row[e] / static_cast<double>(width);
    }
    for (std::int64_t e = 0; e < width; ++e) row[e] -= mean;
  }
  return logs;
}

/// Gathers what the routed maps are fitted to.
class ContributionFits : public AttentionObserver {
 public:
  explicit ContributionFits(const LlamaConfig& config) : config_(config) {}

  void observe(const AttentionTrace& trace) override {
    if (routing_of(config_, trace.layer).router.top_k == 0) return;
    const std::vector<std::int64_t> heads = head_kinds(routing_of(config_, trace.layer)).routed;
    const auto width = static_cast<std::int64_t>(heads.size());
    LeastSquares& fit = fits_.try_emplace(trace.layer, config_.hidden, width).first->second;
    const Tensor x = trace.x.reshape({trace.x.dim(0) * trace.x.dim(1), config_.hidden});
    fit.add(x, centred_logs(contribution_norms(trace), heads));
  }

  /// [E, D] for layer `layer`, scaled to the spread.
  Tensor routed_map(std::int64_t layer, double ridge, double spread) const {
    const LeastSquares& fit = fits_.at(layer);
    Tensor w = fit.solve(ridge);
    const double mean_square = fit.mean_square_of(w) / static_cast<double>(w.dim(0));
    w.scale(mean_square > 0 ? spread / std::sqrt(mean_square) : 0.0);
    return w;
  }

 private:
  const LlamaConfig& config_;
  std::map<std::int64_t, LeastSquares> fits_;
};

std::int64_t layer_of(const std::string& name) {
  constexpr std::string_view kBefore = "model.layers.";
  return std::stoll(name.substr(kBefore.size()));
}

bool is_routed_map(const std::string& name) {
  return name.ends_with(".wg.weight");
}

}  // namespace

void RouterWeights::apply() const {
  for (const Entry& entry : entries) entry.parameter.value().copy_from(entry.value);
}

RouterWeights zero_start(const std::vector<NamedParameter>& routers) {
  RouterWeights weights;
  for (const NamedParameter& p : routers)
    weights.entries.push_back({p.variable, zeros(p.variable.shape(), DType::kFloat32)});
  return weights;
}

RouterWeights random_start(const std::vector<NamedParameter>& routers, double std, std::uint64_t seed) {
  RouterWeights weights = zero_start(routers);
  for (std::size_t i = 0; i < routers.size(); ++i)
    fill_normal(weights.entries[i].value, initialisation_key(seed, routers[i].name), 0.0, std);
  return weights;
}

RouterWeights calibrated_start(const Llama& model, const std::vector<NamedParameter>& routers,
                               const CalibrationBatches& batches, double ridge, double spread) {
  const NoGrad no_grad;
  ContributionFits fits(model.config());
  for (std::int64_t i = 0; i < batches.size(); ++i)
    model.forward(batches.at(i).tokens, {.observer = &fits, .all_heads = true});
  RouterWeights weights = zero_start(routers);
  for (std::size_t i = 0; i < routers.size(); ++i) {
    if (is_routed_map(routers[i].name))
      weights.entries[i].value = fits.routed_map(layer_of(routers[i].name), ridge, spread);
  }
  return weights;
}

}  // namespace moh
