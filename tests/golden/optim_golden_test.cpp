// optim_adamw, lr_schedule and losses: AdamW with clipping, the learning rate, the loss.

#include <algorithm>
#include <set>

#include "ops/loss/cross_entropy.h"
#include "ops/loss/soft_cross_entropy.h"
#include "ops/optim/clip_grad_norm.h"
#include "ops/optim/ema.h"
#include "tests/golden/golden_kinds.h"
#include "train/augment/mixing.h"
#include "train/trainer/optim/adamw.h"
#include "train/trainer/optim/lr_schedule.h"

using namespace moh;
using namespace moh::test;

GOLDEN_KIND(lr_schedule) {
  for (const auto& [name, c] : golden.config().at("schedules").items()) {
    const LrSchedule schedule{LrSchedule::Kind::kCosineFromStart,
                              c.at("lr"),
                              c.at("min_lr"),
                              c.at("warmup_lr"),
                              c.at("warmup_epochs"),
                              c.at("epochs")};
    const std::string of_t = "out." + name + ".lr_of_t", used = "out." + name + ".lr_used_in_epoch";
    const Tensor rates = zeros(golden.tensor(of_t).shape(), DType::kFloat64);
    const Tensor late = zeros(golden.tensor(used).shape(), DType::kFloat64);
    for (std::int64_t t = 0; t < rates.numel(); ++t) rates.data<double>()[t] = schedule.at(t);
    // The released loop sets the rate for the next epoch with the number of the one that just ended.
    for (std::int64_t t = 0; t < late.numel(); ++t)
      late.data<double>()[t] = schedule.at(std::max<std::int64_t>(t - 1, 0));
    golden.check(of_t, rates);
    golden.check(used, late);
  }
}

GOLDEN_KIND(losses) {
  const Variable logits(golden.tensor("in.logits"), true);
  const Tensor labels = golden.tensor("in.labels");
  const Variable loss = cross_entropy(logits, labels, {.normalizer = static_cast<double>(labels.numel())});
  golden.check("out.ce", loss.value());
  loss.backward();
  golden.check("grad.ce.logits", logits.grad());
  const auto check_soft = [&](const std::string& name, const Tensor& targets) {
    const Variable again(golden.tensor("in.logits"), true);
    const Variable soft = soft_cross_entropy(again, targets, static_cast<double>(labels.numel()));
    golden.check("out." + name, soft.value());
    soft.backward();
    golden.check("grad." + name + ".logits", again.grad());
  };
  const auto& c = golden.config();
  const Tensor smooth = zeros(logits.shape(), DType::kFloat32),
               mixed = zeros(logits.shape(), DType::kFloat32);
  const std::int64_t classes = logits.dim(1);
  soft_targets(labels.span<std::int64_t>(), classes, c.at("smoothing"), 1, smooth.span<float>());
  soft_targets(labels.span<std::int64_t>(), classes, c.at("smoothing"), c.at("lam"), mixed.span<float>());
  check_soft("label_smoothing", smooth);
  golden.check("out.mixup_target", mixed);
  check_soft("soft_target", mixed);
}

namespace {

/// The decays that a case has averages of, as its names write them: "0.9999" of "out.decay0.9999.step0".
std::set<std::string> decays_of(const GoldenCase& golden) {
  constexpr std::string_view kBefore = "out.decay", kBehind = ".step";
  std::set<std::string> texts;
  for (const std::string& name : golden.names(kBefore))
    texts.insert(name.substr(kBefore.size(), name.rfind(kBehind) - kBefore.size()));
  return texts;
}

}  // namespace

GOLDEN_KIND(ema) {
  const auto& c = golden.config();
  const std::set<std::string> decays = decays_of(golden);
  REQUIRE(decays.size() == c.at("decays").size());
  for (const std::string& text : decays) {
    const Tensor average = golden.tensor("in.ema0").clone(), value = empty_like(average);
    const EmaUpdate update({{average, value}});
    for (int step = 0; step < c.at("steps"); ++step) {
      value.copy_from(golden.tensor("in.param" + std::to_string(step)));
      update.update(std::stod(text));
      golden.check("out.decay" + text + ".step" + std::to_string(step), average);
    }
  }
}

GOLDEN_KIND(optim_adamw) {
  const auto& c = golden.config();
  const std::vector<std::string> no_decay = c.at("no_decay");
  for (const auto& [run, settings] : c.at("runs").items()) {
    INFO("run " << run);
    std::vector<NamedParameter> parameters;
    for (const auto& [name, shape] : c.at("shapes").items()) {
      parameters.push_back({name, Variable(golden.tensor("param." + name).clone(), true)});
    }
    const bool clips = !settings.at("clip").is_null();
    const AdamWOptions options{.betas = settings.at("betas"),
                               .eps = settings.at("eps"),
                               .weight_decay = settings.at("weight_decay"),
                               .clip_grad_norm = clips ? settings.at("clip").get<double>() : 0};
    AdamW optimizer(parameters, options, [&](const NamedParameter& p) {
      return std::find(no_decay.begin(), no_decay.end(), p.name) == no_decay.end();
    });
    const std::vector<double> rates = settings.at("lr");
    for (std::size_t step = 0; step < rates.size(); ++step) {
      const std::string at = run + ".step" + std::to_string(step);
      for (NamedParameter& p : parameters) {
        p.variable.zero_grad();
        p.variable.accumulate_grad(golden.tensor("in." + at + ".grad." + p.name));
      }
      optimizer.set_learning_rate(rates[step]);
      const double norm = optimizer.update(zeros({1}, DType::kFloat64)).span<double>()[0];
      optimizer.count_update();
      if (clips) {
        golden.check("out." + at + ".total_norm", full({}, norm, DType::kFloat32));
        const double factor = clip_factor(norm, options.clip_grad_norm);
        for (const NamedParameter& p : parameters) {
          const Tensor clipped = p.variable.grad().clone();
          clipped.scale(factor);
          golden.check("out." + at + ".clipped_grad." + p.name, clipped);
        }
      }
      for (const NamedParameter& p : parameters)
        golden.check("out." + at + ".param." + p.name, p.variable.value());
    }
    for (const NamedTensor& state : optimizer.state()) {
      const std::string name = "out." + run + ".final." + state.name;
      if (golden.has(name)) golden.check(name, state.tensor);
    }
  }
}
