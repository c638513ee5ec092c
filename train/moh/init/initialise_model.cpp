#include "train/moh/init/initialise_model.h"

#include <cstdio>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/error.h"
#include "train/config/enum_names.h"
#include "train/log/logging.h"
#include "train/moh/init/divergence.h"
#include "train/moh/init/load_source.h"
#include "train/moh/init/router_start.h"
#include "train/moh/init/shared_heads.h"

namespace moh {

namespace {

/// Measures how far the model is from the dense one.
void log_divergence(const std::string& what, const Model& model, const Calibration& calibration) {
  char nats[32];
  std::snprintf(nats, sizeof nats, "%.6f", divergence_from_dense(model, calibration));
  log_info("init: " + what + ": KL divergence from the dense model " + nats + " nats per " +
           std::string(calibration.input()));
}

/// For a way to begin that measures.
void require_batches(const Calibration& calibration, std::string_view key, std::string_view value,
                     const RunConfig& run, std::string_view instead) {
  if (calibration.size() > 0) return;
  throw ConfigError(error_message(
      key, "", "a value that measures nothing",
      std::string(value) + ": models of task " + std::string(run.family->task()) + " are not measured",
      instead));
}

RouterWeights start_of(RouterStart start, const Model& model, const std::vector<NamedParameter>& routers,
                       const RunConfig& run, const Calibration& calibration) {
  const InitMohConfig& moh = run.init.moh;
  switch (start) {
    case RouterStart::kZero:
      return zero_start(routers);
    case RouterStart::kRandom:
      return random_start(routers, model.init_std(), run.random_seed());
    case RouterStart::kCalibrated:
      return calibrated_start(model, routers, calibration, moh.calibration.ridge, moh.router_spread);
  }
  fail_check(__FILE__, __LINE__, "start", "unknown RouterStart");
}

/// Measures every start, and leaves the model with the one that the configuration wants.
void start_routers(const Model& model, const std::vector<NamedParameter>& routers, const RunConfig& run,
                   const Calibration& calibration) {
  const RouterStart wanted = run.init.moh.router_start;
  if (wanted == RouterStart::kCalibrated)
    require_batches(calibration, "init.moh.router_start", name_of(wanted), run, "set it to zero or random");
  if (calibration.size() == 0) return start_of(wanted, model, routers, run, calibration).apply();
  RouterWeights chosen;
  for (const RouterStart start : {RouterStart::kZero, RouterStart::kRandom, RouterStart::kCalibrated}) {
    RouterWeights weights = start_of(start, model, routers, run, calibration);
    weights.apply();
    log_divergence("router_start " + std::string(name_of(start)) + (start == wanted ? " (taken)" : ""), model,
                   calibration);
    if (start == wanted) chosen = std::move(weights);
  }
  chosen.apply();
}

}  // namespace

void settle_shared_heads(RunConfig& run, const Family& family, const ModelSource& source,
                         const Calibration& calibration) {
  MohConfig* moh = run.family->moh();
  if (moh == nullptr || moh->router == RouterKind::kNone || !moh->shared_heads.to_be_measured()) return;
  require_batches(calibration, "model.moh.shared_heads", name_of(moh->shared_heads.rule), run,
                  "set it to first or list the heads");
  FamilyValue dense_config = run.family;
  *dense_config->moh() = {};
  const std::unique_ptr<Model> dense = family.make_model(*dense_config, placement_of(run));
  load_source(*dense, source, run, family);
  moh->shared_heads = choose_shared_heads(*dense, *moh, calibration, run);
}

void initialise_from_source(const Model& model, const ModelSource& source, const RunConfig& run,
                            const Family& family, const Calibration& calibration) {
  log_info("init: weights of " + source.weights->path().string() + " (" + source.weights->format() + ")");
  const std::vector<NamedParameter> routers = load_source(model, source, run, family);
  const MohConfig* moh = run.family->moh();
  if (!routers.empty()) {
    start_routers(model, routers, run, calibration);
  } else if (moh != nullptr && moh->router != RouterKind::kNone && calibration.size() > 0) {
    log_divergence("router " + std::string(name_of(moh->router)), model, calibration);
  }
}

}  // namespace moh
