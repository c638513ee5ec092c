#include <unistd.h>
#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "core/error.h"
#include "train/apps/cli/commands.h"
#include "train/apps/cli/in_processes.h"
#include "train/apps/cli/sampler_options.h"
#include "train/base/formats/pictures/picture.h"
#include "train/base/io/durable_file.h"
#include "train/base/io/printable.h"
#include "train/base/log/format.h"
#include "train/base/log/logging.h"
#include "train/base/log/progress.h"
#include "train/families/diffusion/diffusion_data.h"
#include "train/families/diffusion/diffusion_run.h"
#include "train/families/diffusion/load_autoencoder.h"
#include "train/families/diffusion/sampling/sample_folder.h"
#include "train/families/diffusion/sampling/trained_guidance.h"
#include "train/trainer/run/several_processes.h"
#include "train/trainer/run/stop_signal.h"
#include "train/trainer/task/load_model.h"

namespace moh::cli {

namespace {

constexpr std::int64_t kMostPictures = 1'000'000;

struct SampleArgs {
  std::string checkpoint, config, autoencoder;
  std::vector<std::string> classes, settings, set;
  SamplerArgs sampler;
  SampleFolderOptions to;
  bool overwrite = false;
};

std::vector<std::string> settings_of(const SampleArgs& args) {
  std::vector<std::string> settings = args.settings;
  settings.insert(settings.end(), args.set.begin(), args.set.end());
  return settings;
}

/// Classes by name or number, of a model whose classes have these names.
std::vector<std::int64_t> classes_of(const std::vector<std::string>& given,
                                     const std::vector<std::string>& names) {
  std::vector<std::int64_t> classes;
  for (const std::string& one : given) {
    const auto named = std::ranges::find(names, one);
    std::int64_t number = named - names.begin();
    if (named == names.end()) {
      const bool digits = !one.empty() && one.size() < 10 &&
                          std::ranges::all_of(one, [](char c) { return c >= '0' && c <= '9'; });
      if (digits) number = std::stoll(one);
    }
    if (number >= std::ssize(names))
      throw ConfigError(error_message(
          "--classes", "",
          "names of the model's classes, or numbers from 0 to " + std::to_string(names.size() - 1), one));
    classes.push_back(number);
  }
  return classes;
}

void check_counts(const SampleArgs& args) {
  const auto positive = [](const char* option, std::int64_t value, std::int64_t most) {
    if (value < 1 || value > most)
      throw ConfigError(error_message(option, "", "1 to " + std::to_string(most), std::to_string(value)));
  };
  positive("-n", args.to.count, kMostPictures);
  positive("--batch-size", args.to.batch_size, kMostPictures);
  positive("--columns", args.to.columns, kMostPictures);
}

/// The text of a line of progress: pictures, step, and the time that is left by those that were made.
std::string progress_text(const SampleProgress& p, std::int64_t begun, std::int64_t total, std::int64_t batch,
                          std::int64_t steps, double seconds) {
  const double in_batch =
      static_cast<double>(std::min(batch, total - p.pictures) * p.step) / static_cast<double>(steps);
  const double done = static_cast<double>(p.pictures - begun) + in_batch;
  std::string text = "sampling: " + std::to_string(p.pictures) + " of " + std::to_string(total) +
                     " pictures, step " + std::to_string(p.step) + " of " + std::to_string(steps);
  if (done > 0)
    text += ", " + format_duration(seconds * (static_cast<double>(total - begun) - done) / done) + " left";
  return text;
}

/// Throws unless the options say where pictures go, or latents of a model that makes such.
void check_outputs(const SampleArgs& args, const DitConfig& model) {
  const auto refuse = [](const char* option, std::string_view expected, std::string_view found,
                         std::string_view fix = "") {
    throw ConfigError(error_message(option, "", expected, found, fix));
  };
  const bool pixels = model.channels == Picture::kChannels, latents = !args.to.latents.empty();
  if (pixels && !args.autoencoder.empty())
    refuse("--autoencoder", "none, as the model makes pixels", args.autoencoder);
  if (pixels && latents) refuse("--latents", "none, as the model makes pixels", args.to.latents.string());
  if (latents && !args.autoencoder.empty())
    refuse("--latents", "none with --autoencoder, which decodes them", args.to.latents.string());
  if (latents && args.to.npz) refuse("--npz", "not with --latents, of which there are no pictures", "both");
  if (!pixels && !latents && args.autoencoder.empty())
    refuse("--autoencoder", "a folder of diffusers' AutoencoderKL", "none",
           "the model makes latents of " + std::to_string(model.channels) +
               " channels, to be decoded; --latents FILE.npz writes them as they are");
  if (!latents && args.to.folder.empty()) refuse("--out", "a folder for the pictures", "none");
  if (latents) require_replaceable("--latents", args.to.latents, args.overwrite);
}

/// The autoencoder of a model of latents, in float32 beside it; none for a model of pixels, and for
/// --latents.
LoadedAutoencoder autoencoder_for(const SampleArgs& args, const DiffusionRun& run, const Dit& model) {
  check_outputs(args, run.model);
  if (args.autoencoder.empty()) return {};
  LoadedAutoencoder loaded =
      load_decoder("--autoencoder", args.autoencoder, run.model.channels, model.device());
  if (!run.trained_autoencoder.empty() && run.trained_autoencoder != loaded.hash)
    log_warning("--autoencoder: " + printable_path(args.autoencoder) + " (" + loaded.hash +
                ") is not the one that made the latents of the training (" + run.trained_autoencoder +
                "); pictures are right only if both encode alike, as with a decoder that was tuned alone");
  return loaded;
}

int sample_in(const SampleArgs& args, const Families& families, StopSignal& stop, Communicator& processes) {
  const std::shared_ptr<Console> console = console_of(processes, STDERR_FILENO);
  start_logging(console);
  check_counts(args);
  const LoadedModel loaded =
      load_model(args.checkpoint, families, settings_of(args), ConfigUse::kModel, processes, args.config);
  begin_together(loaded.config, processes);
  require_same_model(loaded, processes);
  const DiffusionRun& run = diffusion_run(loaded.config);
  const auto& model = static_cast<const Dit&>(*loaded.model);
  const LoadedAutoencoder autoencoder = autoencoder_for(args, run, model);
  SampleFolderOptions to = args.to;
  to.class_names = class_names_of(run);
  to.classes = classes_of(args.classes, to.class_names);
  to.model = loaded.path.string();
  to.autoencoder = autoencoder.hash;
  const SampleOptions options = options_of(args.sampler, run);
  if (!options.labels && !args.classes.empty())
    throw ConfigError(
        error_message("--classes", "", "none, as " + reason_against_guidance(run), args.classes.front()));
  const PictureSampler sampler(model, options, autoencoder.model.get());
  stop.defer();
  processes.set_deadline(loaded.config.comm.timeout);
  StatusLine line(*console);
  std::int64_t begun = -1;
  int signal_number = 0;
  const auto show = [&](const SampleProgress& p) {
    if (begun < 0) begun = p.pictures;
    const std::int64_t together = to.batch_size * processes.size();
    line.update([&] { return progress_text(p, begun, to.count, together, sampler.steps(), line.elapsed()); });
    signal_number = static_cast<int>(processes.max(stop.number()));
    return signal_number != 0;
  };
  const bool finished = sample_folder(sampler, model, options, to, show, processes);
  line.finish();
  if (!finished) {
    log_info("sample: stopped by " + std::string(StopSignal::name_of(signal_number)) +
             "; the same command goes on from here");
    return kPreempted;
  }
  log_info(
      "sample: " + std::to_string(to.count) +
      (to.latents.empty() ? " pictures in " + to.folder.string() : " latents in " + to.latents.string()));
  return kDone;
}

int sample(const SampleArgs& given, const Families& families) {
  SampleArgs args = given;
  move_settings(args.classes, args.settings);
  StopSignal stop;  // before threads of the communicator begin
  return in_processes([&](Communicator& processes) { return sample_in(args, families, stop, processes); });
}

}  // namespace

void add_sample(const Commands& commands) {
  const auto [command, args] =
      add_command(commands, "sample", "Generate images with a trained diffusion model", sample);
  add_checkpoint(command, args.checkpoint);
  add_description(command, args.config);
  command.add_option("--out", args.to.folder, "Folder for the images; existing images are kept")
      ->type_name("DIR")
      ->default_str("");
  command
      .add_option("--latents", args.to.latents,
                  "For a model of latents: write the latents to this file, in place of images, as arr_0 "
                  "[N, C, H, W] in float32, times the scaling factor of their autoencoder, with labels and "
                  "seed. With "
                  "--out a stopped command can continue")
      ->type_name("FILE.npz")
      ->default_str("");
  command.add_flag("--overwrite", args.overwrite, "Replace the file of --latents");
  command
      .add_option(
          "--autoencoder", args.autoencoder,
          "For a model of latents: a folder with diffusers' AutoencoderKL, which decodes them in float32")
      ->type_name("DIR")
      ->default_str("");
  command.add_option("-n", args.to.count, "Number of images");
  command.add_option("--classes", args.classes, "Names or numbers of classes, in turns; default: at random")
      ->type_name("CLASS")
      ->delimiter(',')
      ->default_str("");
  add_sampler_options(command, args.sampler);
  command.add_option("--batch-size", args.to.batch_size,
                     "Images that a process generates together; does not change them");
  command.add_option("--columns", args.to.columns, "Images in a row of grid.png");
  command.add_flag("--npz", args.to.npz, "Write samples.npz, which the evaluator of guided-diffusion reads");
  command.add_option("overrides", args.settings, "Any setting of the run")
      ->type_name("key.path=value")
      ->default_str("");
  add_set(command, args.set);
  command.footer(
      R"(Image number n depends on --seed and n, not on the number of images or the batch size. sample.json has all settings;
a stopped command continues where it was. Several processes (mpirun -np 8 moh sample ...) share the work.

Examples:
  moh sample --checkpoint runs/shapes --out shapes -n 64 --steps 50
  moh sample --checkpoint runs/cifar10 --classes cat,dog --cfg 1.5 --out pets
  moh sample --checkpoint runs/cifar10 --out fid -n 50000 --cfg 1 --batch-size 256 --npz
  moh sample --checkpoint DiT-XL-2-256x256.pt --autoencoder sd-vae-ft-ema --cfg 4 --out pictures
  moh sample --checkpoint DiT-XL-2-256x256.pt --cfg 4 -n 8 --latents latents.npz
  moh sample --checkpoint runs/cifar10 --out weights -n 64 ema.evaluate=false)");
}

}  // namespace moh::cli
