#include "train/config/init_rules.h"

#include <string>

#include "train/config/model_agreement.h"
#include "train/config/run_fields.h"
#include "train/config/write_fields.h"

namespace moh::config {

namespace {

bool is_given(const GivenKeys& given, std::string_view key) {
  return given.places.contains(key);
}

bool measures(const HeadSet& heads) {
  return !heads.listed() && heads.rule != HeadRule::kFirst;
}

/// A key of init.moh and the key of model.moh for which it stands.
struct Pair {
  std::string_view init, model;
};

/// Gives both fields one value: init.moh's where it was given, else model.moh's.
template <class T>
void settle(const Pair& keys, T& init, T& model, const GivenKeys& given, Rules& rules) {
  if (!is_given(given, keys.init)) {
    init = model;
  } else if (is_given(given, keys.model) && init != model) {
    rules.refuse({keys.model, keys.init}, "what " + std::string(keys.init) + " says", "another value",
                 "give it once");
  } else {
    model = init;
  }
}

/// `first` in model.moh is no statement, and a rule that measures leaves to model.moh what it came to.
void settle_shared_heads(RunConfig& run, const std::optional<ModelConfig>& source, const GivenKeys& given,
                         Rules& rules) {
  HeadSet &init = run.init.moh.shared_heads, &model = run.model.moh.shared_heads;
  if (measures(init)) {
    if (!model.listed() && source) model = source->moh.shared_heads;
  } else if (model.listed()) {
    settle({"init.moh.shared_heads", "model.moh.shared_heads"}, init, model, given, rules);
  } else {
    model = init;
  }
}

void settle_routing(RunConfig& run, const std::optional<ModelConfig>& source, const GivenKeys& given,
                    Rules& rules) {
  InitMohConfig& init = run.init.moh;
  HeadMixtureConfig& model = run.model.moh;
  settle({"init.moh.router", "model.moh.router"}, init.router, model.router, given, rules);
  settle({"init.moh.shared", "model.moh.shared"}, init.shared, model.shared, given, rules);
  settle({"init.moh.routed_top_k", "model.moh.routed"}, init.routed_top_k, model.routed, given, rules);
  settle({"init.moh.straight_through", "model.moh.straight_through"}, init.straight_through,
         model.straight_through, given, rules);
  settle_shared_heads(run, source, given, rules);
}

void check_source(const ModelConfig& model, const ModelConfig& source, Rules& rules) {
  for (const ModelDisagreement& d : disagreements(model, source))
    rules.refuse({d.key}, d.expected + " as in the checkpoint of init.from", d.found, "remove the key");
}

void check_calibration(const InitMohConfig& c, Rules& rules) {
  if (c.calibration.batches > 0 || c.router == RouterChoice::kNone) return;
  const bool learned_start = c.router == RouterChoice::kLearned && c.router_start == RouterStart::kCalibrated;
  if (!learned_start && !measures(c.shared_heads)) return;
  rules.refuse({"init.moh.calibration.batches"}, "at least 1 for what init.moh measures", "0",
               "or list init.moh.shared_heads and set init.moh.router_start");
}

/// Whether heads are described. How routers would start says nothing without that: a run that had no
/// checkpoint keeps these keys with the defaults of its day.
bool describes_heads(const InitMohConfig& moh) {
  return moh.shared != PerLayer() || moh.routed_top_k != PerLayer() || moh.shared_heads != HeadSet();
}

}  // namespace

void settle_init(RunConfig& run, const std::optional<ModelConfig>& source, const GivenKeys& given,
                 Rules& rules) {
  if (run.init.from.empty()) {
    const InitMohConfig& moh = run.init.moh;
    if (moh.router != RouterChoice::kNone || describes_heads(moh) || !run.init.part.empty()) {
      rules.refuse({"init.from"}, "a checkpoint for what init says", "none",
                   "without one, the routing is set in model.moh");
    }
    return;
  }
  if (source) check_source(run.model, *source, rules);
  const InitMohConfig& moh = run.init.moh;
  if (moh.router != RouterChoice::kNone) {
    settle_routing(run, source, given, rules);
    check_calibration(moh, rules);
  } else if (describes_heads(moh)) {
    rules.refuse({"init.moh.router"}, "learned or query_norm for the heads that init.moh describes", "none");
  }
}

}  // namespace moh::config
