#include "train/init/initialise_model.h"

#include <array>
#include <cstdio>
#include <string>
#include <utility>

#include "train/init/divergence.h"
#include "train/init/load_source.h"
#include "train/init/router_start.h"
#include "train/init/shared_heads.h"
#include "train/metrics/logging.h"
#include "train/tasks/llama_from_config.h"

namespace moh {

namespace {

void log_divergence(const std::string& what, double nats) {
  char text[160];
  std::snprintf(text, sizeof text, "init: %s: KL divergence from the dense model %.6f nats per token",
                what.c_str(), nats);
  log_info(text);
}

RouterWeights start_of(RouterStart start, const Llama& model, const std::vector<NamedParameter>& routers,
                       const RunConfig& config, const CalibrationBatches& batches) {
  const InitMohConfig& moh = config.init.moh;
  switch (start) {
    case RouterStart::kZero:
      return zero_start(routers);
    case RouterStart::kRandom:
      return random_start(routers, config.model.init_std, static_cast<std::uint64_t>(config.seed));
    case RouterStart::kCalibrated:
      return calibrated_start(model, routers, batches, moh.calibration.ridge, moh.router_spread);
  }
  fail_check(__FILE__, __LINE__, "start", "unknown RouterStart");
}

/// Measures every start, and leaves the model with the one that the configuration wants.
void start_routers(const Llama& model, const std::vector<NamedParameter>& routers, const RunConfig& config,
                   const CalibrationBatches& batches) {
  const RouterStart wanted = config.init.moh.router_start;
  if (batches.size() == 0) return start_of(wanted, model, routers, config, batches).apply();
  RouterWeights chosen;
  for (const RouterStart start : {RouterStart::kZero, RouterStart::kRandom, RouterStart::kCalibrated}) {
    RouterWeights weights = start_of(start, model, routers, config, batches);
    weights.apply();
    log_divergence("router_start " + std::string(name_of(start)) + (start == wanted ? " (taken)" : ""),
                   divergence_from_dense(model, batches));
    if (start == wanted) chosen = std::move(weights);
  }
  chosen.apply();
}

}  // namespace

void settle_shared_heads(RunConfig& config, const ModelSource& source, const CalibrationBatches& batches) {
  const HeadSet& wanted = config.init.moh.shared_heads;
  HeadSet& heads = config.model.moh.shared_heads;
  const bool routed = config.init.moh.router != RouterChoice::kNone;
  if (!routed || heads.listed() || wanted.listed() || wanted.rule == HeadRule::kFirst) return;
  ModelConfig dense_config = config.model;
  dense_config.moh = {};
  const Llama dense(llama_config_of(dense_config), {dtype_of_precision(config.precision), config.device});
  load_source(dense, source, config);
  heads = choose_shared_heads(dense, batches, config);
}

void initialise_from_source(const Llama& model, const ModelSource& source, const RunConfig& config,
                            const CalibrationBatches& batches) {
  log_info("init: weights of " + source.weights->path().string() + " (" + source.weights->format() + ")");
  const std::vector<NamedParameter> routers = load_source(model, source, config);
  if (!routers.empty()) {
    start_routers(model, routers, config, batches);
  } else if (model.config().moh.router != RouterKind::kNone && batches.size() > 0) {
    log_divergence("router " + std::string(name_of(config.model.moh.router)),
                   divergence_from_dense(model, batches));
  }
}

}  // namespace moh
