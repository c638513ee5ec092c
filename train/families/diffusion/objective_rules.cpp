#include "train/families/diffusion/objective_rules.h"

#include <string>

#include "core/error.h"
#include "train/config/number_text.h"
#include "train/families/diffusion/sampling/trained_guidance.h"
#include "train/trainer/config/enum_names.h"

namespace moh {

namespace {

using config::Bounds;
using config::Section;

constexpr double kMaxLogit = 100;

Bounds share() {
  return {.low = 0, .high = 1};
}

void check_times(const DiffusionRun& run, config::Rules& rules) {
  const DiffusionConfig &c = run.diffusion, usual;
  if (c.objective != DiffusionObjective::kFlow) {
    if (c.path != usual.path)
      rules.refuse({"diffusion.path"}, "linear where diffusion.objective is not flow", name_of(c.path));
    if (c.time_sampling != usual.time_sampling)
      rules.refuse({"diffusion.time_sampling"}, "uniform where diffusion.objective is not flow",
                   name_of(c.time_sampling));
  }
  if (c.time_sampling == TimeSampling::kUniform &&
      (c.time_mean != usual.time_mean || c.time_std != usual.time_std))
    rules.refuse({"diffusion.time_mean", "diffusion.time_std"}, "none with time_sampling: uniform",
                 config::number_text(c.time_mean) + ", " + config::number_text(c.time_std));
}

}  // namespace

Section diffusion_section(DiffusionConfig& c) {
  Section s("diffusion", "How the model is trained.");
  s.field(
      "objective", c.objective,
      "`noise`: the noise of DDPM's 1000 steps, as DiT. `velocity`: v = sqrt(a) noise - sqrt(1 - a) image of "
      "the same steps, without `model.learn_variance`. `flow`: flow matching as SiT: the velocity of a path "
      "from noise to the image.");
  s.field(
      "path", c.path,
      "Of a flow, from noise at t = 0 to the image at t = 1. `linear`: t image + (1 - t) noise. `cosine`: "
      "sin(pi t / 2) image + cos(pi t / 2) noise, which SiT names GVP.");
  s.field("time_sampling", c.time_sampling,
          "How a flow's training draws t: `uniform`, or `logit_normal`: 1 / (1 + exp(-n)), n normal with "
          "`time_mean` and `time_std`.");
  s.field("time_mean", c.time_mean, Bounds{.low = -kMaxLogit, .high = kMaxLogit},
          "Mean for `logit_normal`. Below 0: more noise. As t = 1 is the image, it has the opposite sign of "
          "Stable Diffusion 3's.");
  s.field("time_std", c.time_std, config::above_up_to(0, kMaxLogit),
          "Standard deviation for `logit_normal`.");
  s.field("label_dropout", c.label_dropout, share(),
          "Probability that a sample has no label, which classifier-free guidance needs.");
  s.field("flip", c.flip, share(), "Probability that left and right are exchanged.");
  return s;
}

void check_objective(const DiffusionRun& run, config::Rules& rules) {
  check_times(run, rules);
  const DiffusionObjective objective = run.diffusion.objective;
  if (objective == DiffusionObjective::kVelocity && run.model.learn_variance)
    rules.refuse({"model.learn_variance", "diffusion.objective"},
                 "false with objective: velocity, of which no variance is learned", "true");
  const SampleOptions previews = run.preview_options();
  if (!goes_with(previews.reverse.kind, objective))
    rules.refuse({"sample.sampler", "diffusion.objective"},
                 "a sampler for objective: " + std::string(name_of(objective)),
                 name_of(previews.reverse.kind));
  try {
    number_of_steps(previews);
  } catch (const ValueError& error) {
    rules.refuse({"sample.steps"},
                 objective == DiffusionObjective::kFlow ? "a number of steps"
                                                        : "a number of steps, numbers of sections, or ddimN",
                 run.sample.options.steps, error.what());
  }
}

}  // namespace moh
