#include "train/apps/cli/sampler_options.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <span>
#include <string_view>

#include "core/error.h"
#include "train/base/formats/pictures/picture.h"
#include "train/base/log/logging.h"
#include "train/config/number_text.h"
#include "train/families/diffusion/sampling/picture_sampler.h"
#include "train/families/diffusion/sampling/trained_guidance.h"
#include "train/trainer/config/enum_names.h"

namespace moh::cli {

namespace {

/// The enumerator of a name that CLI has checked (IsMember).
template <class E>
E named(std::string_view name) {
  const std::span<const std::string_view> names = names_of(E());
  return static_cast<E>(std::ranges::find(names, name) - names.begin());
}

template <class E>
std::vector<std::string> all_names() {
  const std::span<const std::string_view> names = names_of(E());
  return {names.begin(), names.end()};
}

std::array<double, 2> guided_levels_of(const SamplerArgs& args, double guidance) {
  constexpr std::string_view kOption = "--guidance-interval";
  const double low = args.guided_levels.at(0), high = args.guided_levels.at(1);
  if (guidance == 1) throw ConfigError(error_message(kOption, "", "none without guidance", "--cfg 1"));
  if (low < 0 || low >= high)
    throw ConfigError(error_message(kOption, "", "LOW HIGH, 0 <= LOW < HIGH",
                                    config::number_text(low) + " " + config::number_text(high)));
  return {low, high};
}

/// Guidance as the training of the model allows it: the usual one is left out, one that is asked for is an
/// error.
SampleOptions guided_options(const SamplerArgs& args, const DiffusionRun& run) {
  const std::string reason = reason_against_guidance(run);
  if (args.guidance.value_or(1) != 1 && !reason.empty())
    throw ConfigError(
        error_message("--cfg", "", "1, as " + reason, config::number_text(*args.guidance),
                      run.diffusion.label_dropout > 0
                          ? ""
                          : "leave guidance out; if an earlier training dropped labels, say so with "
                            "diffusion.label_dropout=0.1"));
  SampleOptions options = args.options;
  if (args.guidance) options.guidance = *args.guidance;
  options = options_for(run, options, /*usual_guidance=*/!args.guidance);
  if (!args.guidance && options.guidance == 1)
    log_warning("sample: without guidance (--cfg 1): " +
                (reason.empty() ? "the model has a single class" : reason));
  if (!args.guided_levels.empty()) options.guided_levels = guided_levels_of(args, options.guidance);
  return options;
}

/// The sampler and its options, for what the model predicts.
SampleOptions options_of_sampler(const SamplerArgs& args, const DiffusionRun& run, SampleOptions options) {
  const auto refuse = [&](const char* option, const std::string& expected, std::string_view found) {
    const std::string of_model = " for diffusion.objective=" + std::string(name_of(run.diffusion.objective));
    throw ConfigError(error_message(option, "", expected + of_model, found));
  };
  options.reverse.kind = named<SamplerKind>(args.sampler);
  options = settled(run.diffusion, options,
                    {.of_steps = SamplerKind::kAncestral, .of_flow = SamplerKind::kEulerMaruyama});
  options.diffusion = named<FlowDiffusion>(args.diffusion);
  const bool flow = options.objective == DiffusionObjective::kFlow;
  if (!goes_with(options.reverse.kind, options.objective))
    refuse("--sampler", flow ? "euler, heun or euler_maruyama" : "ancestral, ddim or dpm++", args.sampler);
  if (options.diffusion != FlowDiffusion::kSigma && options.reverse.kind != SamplerKind::kEulerMaruyama)
    throw ConfigError(error_message("--diffusion", "", "sigma, or --sampler euler_maruyama", args.diffusion));
  if (flow && args.clip == "yes") refuse("--clip", "no or auto", "yes");
  if (flow && options.reverse.eta > 0) refuse("--eta", "0", config::number_text(options.reverse.eta));
  return options;
}

}  // namespace

void add_sampler_options(CLI::App& command, SamplerArgs& args) {
  command
      .add_option("--cfg", args.guidance,
                  "Scale of classifier-free guidance; 1: no guidance, the default for a model that was "
                  "trained without dropped labels")
      ->check(CLI::Range(0.0, 1000.0))
      ->default_str(config::number_text(args.options.guidance));
  command
      .add_option("--cfg-channels", args.guided, "Channels that are guided: the first 3, as DiT's, or all")
      ->check(CLI::IsMember({"3", "all"}));
  command
      .add_option("--guidance-interval", args.guided_levels,
                  "Guide only where the ratio of noise to signal is above LOW and at most HIGH; other steps "
                  "take half the work")
      ->type_name("LOW HIGH")
      ->expected(2)
      ->default_str("");
  command.add_option(
      "--steps", args.options.steps,
      "Number of steps, of 1000, or in guided-diffusion's form: 10,15,20 or ddim50; of a flow a number");
  command
      .add_option(
          "--sampler", args.sampler,
          "Of models of the 1000 steps: ancestral (each step from the model's distribution), ddim, or dpm++ "
          "(DPM-Solver++ 2M, for 15 to 30 steps). Of flows: euler, heun (two passes a step), or "
          "euler_maruyama, with noise in each step. auto: ancestral, or euler_maruyama")
      ->check(CLI::IsMember(all_names<SamplerKind>()));
  command
      .add_option(
          "--diffusion", args.diffusion,
          "How much noise --sampler euler_maruyama adds: sigma, the path's, sbdm, that of score-based "
          "models, or constant")
      ->check(CLI::IsMember(all_names<FlowDiffusion>()));
  command.add_option("--eta", args.options.reverse.eta, "Noise of --sampler ddim; 0: no noise")
      ->check(CLI::Range(0.0, 1.0));
  command
      .add_option(
          "--clip", args.clip,
          "Clip the estimate of the image to -1 to 1 in each step: yes, no, or auto: yes for pixels, no "
          "for latents, which have no bounds")
      ->check(CLI::IsMember({"auto", "yes", "no"}));
  command.add_option("--seed", args.options.seed, "Seed of the sampling");
}

SampleOptions options_of(const SamplerArgs& args, const DiffusionRun& run) {
  const DitConfig& model = run.model;
  SampleOptions options = options_of_sampler(args, run, guided_options(args, run));
  options.reverse.clip_start =
      args.clip == "auto" ? clips_usually(options.objective, model) : args.clip == "yes";
  options.guided_channels = args.guided == "all" ? model.channels : std::min<std::int64_t>(3, model.channels);
  return options;
}

}  // namespace moh::cli
