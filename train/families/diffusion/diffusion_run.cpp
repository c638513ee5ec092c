#include "train/families/diffusion/diffusion_run.h"

#include <array>
#include <utility>

#include "core/error.h"
#include "models/diffusion/dit.h"
#include "models/find_preset.h"
#include "train/config/problems.h"
#include "train/families/diffusion/objective_rules.h"
#include "train/families/diffusion/sampling/trained_guidance.h"
#include "train/families/images/image_run.h"
#include "train/trainer/config/enum_names.h"

namespace moh {

namespace {

using config::at_least;
using config::Bounds;
using config::Section;

constexpr std::array<std::string_view, 1> kNoAutoencoder = {TrainingSamples::kNoAutoencoder};

constexpr double kMaxSide = 1 << 12, kMaxPictures = 1 << 30, kMaxRatio = 1024, kMaxShown = 1024;

Section data_section(ImageDataConfig& c) {
  Section s("data", "Training and validation images.");
  s.field("train", c.train,
          "A folder with a folder of JPEG or PNG files for each class, tar archives (WebDataset) or a folder "
          "of them, or files of CIFAR-10's binary version; for a model of latents, a folder that `moh data "
          "latents` made, or shards of one.");
  s.field("validation", c.validation, "Held-out images or latents, given likewise. Empty: none.");
  s.field("class_names", c.class_names,
          "A file (or several, one after the other) with the name of a class on each line, in the order of "
          "the labels. Empty: those of the training images, which checkpoints keep.");
  s.field("drawn", c.drawn, at_least(0, "pictures").capped(kMaxPictures),
          "Without `train`: train on this many synthetic images of shapes, of eight classes.");
  s.field("drawn_validation", c.drawn_validation, at_least(0, "pictures").capped(kMaxPictures),
          "Without `validation`: hold out this many drawn images.");
  s.field("interpolation", c.interpolation,
          "Filter that resizes the square in the middle of an image to `model.image_size`, as Pillow's of "
          "that name.");
  s.field("on_error", c.on_error,
          "At a broken image: `stop` with its name, or `skip` it, take the next one in its place and report "
          "it at the end.");
  s.field("workers", c.workers, at_least(0).capped(1024),
          "Threads that make batches ahead of their use; they change no result. 0: as many as `threads`.");
  return s;
}

Section sample_section(TrainingSamples& c) {
  Section s("sample",
            "Images that the model draws after each evaluation, of the classes in turns, into samples/ of "
            "the run's folder.");
  s.properties().harmless_on_resume();
  s.field("pictures", c.pictures, at_least(0, "pictures").capped(kMaxShown), "Number of images. 0: none.");
  s.path_or_word("autoencoder", c.autoencoder, kNoAutoencoder,
                 "For a model of latents: a folder with diffusers' AutoencoderKL, which decodes them in "
                 "float32. `none`: no images are drawn.");
  s.field("sampler", c.options.reverse.kind,
          "`ancestral` draws each step from the model's distribution; `ddim` and `dpm++`, DPM-Solver++ (2M), "
          "have no noise after the start. Of a flow: `euler`, `heun`, and `euler_maruyama`, which draws in "
          "each step. "
          "`auto`: `ddim`, for a flow `euler`.");
  s.field("steps", c.options.steps,
          "Steps of the 1000: how many, or as guided-diffusion writes them: 10,15,20 or ddim50. Of a flow: "
          "how many.");
  s.field("guidance", c.options.guidance, Bounds{.low = 0, .high = kMaxRatio},
          "Scale of classifier-free guidance. 1: none, as always where `diffusion.label_dropout` is 0 or 1.");
  return s;
}

}  // namespace

ImageDataConfig DiffusionRun::settled_data() const {
  ImageDataConfig settled = data;
  settled.image_size = settled.eval_resize = settled.drawn_side = model.image_size;
  return settled;
}

void DiffusionRun::add_model_fields(DitConfig& c, Section& s) {
  s.field("image_size", c.image_size, at_least(1).capped(kMaxSide),
          "Side of the images, or of latents, that the model makes.")
      .unseen_in_weights();
  s.field("patch_size", c.patch_size, at_least(1).capped(kMaxSide),
          "Side of a patch, which becomes a token.");
  s.field("channels", c.channels, at_least(1).capped(kMaxRatio), "Channels: 3 of pixels, 4 of latents.");
  s.field("classes", c.classes, at_least(1).capped(config::kMaxVocab),
          "Number of classes: those of the training images.");
  s.field("layers", c.layers, at_least(1).capped(config::kMaxLayers), "Number of transformer blocks.");
  s.field("hidden", c.hidden, at_least(1).capped(config::kMaxWidth), "Width of a token.");
  s.field("heads", c.heads, at_least(1).capped(config::kMaxHeads),
          "Heads per layer: one number, or a list with one for each layer, which needs `head_dim`.")
      .unseen_in_weights();
  s.field("head_dim", c.head_dim, at_least(0).capped(config::kMaxWidth),
          "Width of a head; `heads` times it may differ from `hidden`. 0: `hidden` / `heads`.")
      .unseen_in_weights();
  s.field("mlp_ratio", c.mlp_ratio, at_least(1).capped(kMaxRatio), "Width inside the MLP / `hidden`.");
  s.field("learn_variance", c.learn_variance,
          "Predict the variance of each step, too, trained by the variational bound.");
  config::add_attention_gate(c.attention_gate, s);
  config::add_recompute(c.recompute, s);
  s.section(vision_moh_section(c.moh));
}

void DiffusionRun::describe(Section& root) {
  root.section(model_section("The diffusion transformer (DiT), with or without MoH."));
  root.section(data_section(data));
  root.section(diffusion_section(diffusion));
  root.section(sample_section(sample));
  describe_evaluated(evaluated, root);
}

void DiffusionRun::check(const RunConfig& run, config::Rules& rules) const {
  ConfigFaults faults("model.");
  moh::check(model, faults);
  rules.refuse(faults);
  config::check(evaluated, "eval.max_pictures", rules);
  check_objective(*this, rules);
  if (run.init.distill.weight > 0) {
    rules.refuse({"init.distill.weight"}, "0 for task: diffusion, which has no logits to compare",
                 std::to_string(run.init.distill.weight));
  }
  if (model.channels == Picture::kChannels && sample.decodes()) {
    rules.refuse({"sample.autoencoder", "model.channels"}, "none for a model of pixels",
                 sample.autoencoder.string());
  }
  if (!data.class_names.empty() && data.train.empty() && data.drawn > 0) {
    rules.refuse({"data.class_names", "data.drawn"}, "none for drawn pictures, whose names are known",
                 data.class_names.front().string());
  }
}

EvaluationWork DiffusionRun::evaluation_work() const {
  EvaluationWork work{held_out_work(data, evaluated)};
  const bool draws = model.channels == Picture::kChannels || sample.decodes();
  if (draws) work.samples = sample.pictures * model_passes(preview_options());
  return work;
}

void DiffusionRun::require_data(config::Rules& rules) const {
  if (data.train.empty() && data.drawn == 0) {
    rules.refuse({"data.train"}, "pictures to train on", "no path",
                 "name a folder with a folder of pictures for each class: data.train=pictures");
  }
}

SampleOptions DiffusionRun::preview_options() const {
  return settled(diffusion, sample.options, {.of_steps = SamplerKind::kDdim, .of_flow = SamplerKind::kEuler});
}

std::vector<std::string> DiffusionRun::presets() const {
  return preset_names(dit_presets());
}

DitConfig DiffusionRun::model_of_preset(std::string_view name) {
  return preset_config(dit_presets(), name);
}

DitConfig DiffusionRun::normal_form(DitConfig c) {
  c.moh = spelt_out(c.moh, c.layers);
  c.head_dim = c.head_width();
  if (c.heads.each.empty())
    c.heads = std::vector<std::int64_t>(static_cast<std::size_t>(c.layers), c.heads.every);
  return c;
}

void DiffusionRun::remember(std::span<const std::pair<std::string, std::string>> identity) {
  class_names = class_names_in(identity, class_names);
  for (const auto& [name, value] : identity) {
    if (name == kAutoencoderHash) trained_autoencoder = value;
  }
}

TrainedIdentity DiffusionRun::identity() const {
  TrainedIdentity identity;
  if (!class_names.empty()) identity.push_back(identity_of(class_names));
  if (!trained_autoencoder.empty()) identity.emplace_back(kAutoencoderHash, trained_autoencoder);
  return identity;
}

const DiffusionRun& diffusion_run(const FamilyConfig& family) {
  return DiffusionRun::of(family);
}

const DiffusionRun& diffusion_run(const RunConfig& run) {
  return diffusion_run(*run.family);
}

}  // namespace moh
