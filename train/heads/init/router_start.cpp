#include "train/heads/init/router_start.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <string_view>

#include "autograd/node.h"
#include "models/layers/head_routing.h"
#include "train/base/math/least_squares.h"
#include "train/heads/init/head_importance.h"

namespace moh {

namespace {

/// ln of columns `heads` of norms [N, H], minus the mean of each row: [N, heads.size()] float64.
Tensor centred_logs(const Tensor& norms, const std::vector<std::int64_t>& heads) {
  constexpr double kLeast = 1e-30;  // instead of the norm 0, whose logarithm is infinite
  const auto width = static_cast<std::int64_t>(heads.size());
  Tensor logs = empty({norms.dim(0), width}, DType::kFloat64);
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

/// Accumulates the regressions for wg (see calibrated_start), one for each layer.
class ContributionFits : public AttentionObserver {
 public:
  explicit ContributionFits(const Model& model) : routing_(model.routing()) {}

  void observe(const AttentionTrace& trace) override {
    const HeadRoutingOptions& routing = routing_.at(static_cast<std::size_t>(trace.layer));
    if (routing.router.top_k == 0) return;
    std::vector<std::int64_t> heads = head_kinds(routing).routed;
    if (routing.learn_shared_until > 0) {  // wg has a row for each head
      heads.resize(static_cast<std::size_t>(routing.router.heads));
      std::iota(heads.begin(), heads.end(), 0);
    }
    const std::int64_t inputs = trace.x.dim(2), outputs = static_cast<std::int64_t>(heads.size());
    LeastSquares& fit = fits_.try_emplace(trace.layer, inputs, outputs).first->second;
    const Tensor x = trace.x.reshape({trace.x.dim(0) * trace.x.dim(1), inputs});
    fit.add(x, centred_logs(contribution_norms(trace, routing.unit_heads), heads));
  }

  /// wg of layer `layer`, [E, D].
  Tensor routed_map(std::int64_t layer, const CalibratedStart& options) const {
    const LeastSquares& fit = fits_.at(layer);
    Tensor w = fit.solve(options.ridge);
    const double mean_square = fit.mean_square_of(w) / static_cast<double>(w.dim(0));
    w.scale(mean_square > 0 ? options.spread / std::sqrt(mean_square) : 0.0);
    return w;
  }

 private:
  std::vector<HeadRoutingOptions> routing_;
  std::map<std::int64_t, LeastSquares> fits_;
};

/// The parameter wg of a learned router; undefined for other routers.
Variable routed_map_of(const HeadRouter* router) {
  constexpr std::string_view kName = "wg.weight";
  if (router == nullptr) return {};
  for (const NamedParameter& p : router->parameters()) {
    if (p.name == kName) return p.variable;
  }
  return {};
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
  for (std::size_t i = 0; i < routers.size(); ++i) {
    if (routers[i].variable.shape().rank() == 1) continue;  // masks of heads
    fill_normal(weights.entries[i].value, initialisation_key(seed, routers[i].name), 0.0, std);
  }
  return weights;
}

RouterWeights calibrated_start(const Model& model, const std::vector<NamedParameter>& routers,
                               const Calibration& calibration, const CalibratedStart& options) {
  const NoGrad no_grad;
  ContributionFits fits(model);
  for (std::int64_t i = 0; i < calibration.size(); ++i)
    calibration.logits(model, i, {.observer = &fits, .all_heads = true});
  RouterWeights weights = zero_start(routers);
  const std::vector<const HeadRouter*> of_layers = model.routers();
  for (std::size_t layer = 0; layer < of_layers.size(); ++layer) {
    const Variable map = routed_map_of(of_layers[layer]);
    if (!map.defined()) continue;
    for (RouterWeights::Entry& entry : weights.entries) {
      if (entry.parameter.value().is_same(map.value()))
        entry.value = fits.routed_map(static_cast<std::int64_t>(layer), options);
    }
  }
  return weights;
}

}  // namespace moh
