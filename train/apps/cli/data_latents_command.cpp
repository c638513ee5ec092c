#include <unistd.h>
#include <CLI/CLI.hpp>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "core/device.h"
#include "core/error.h"
#include "core/parallel.h"
#include "train/apps/cli/commands.h"
#include "train/base/io/printable.h"
#include "train/base/log/logging.h"
#include "train/base/log/progress.h"
#include "train/families/diffusion/latents/latent_source.h"
#include "train/families/diffusion/latents/make_latents.h"
#include "train/families/images/class_names.h"
#include "train/trainer/run/stop_signal.h"

namespace moh::cli {

namespace {

struct LatentsArgs {
  std::vector<std::string> inputs;
  std::vector<std::filesystem::path> class_names;
  std::string autoencoder, device = "cpu", dtype = "float32", on_error = "stop";
  std::int64_t threads = 0;
  LatentOptions options;
};

void print(const LatentShardInfo& info, std::int64_t pictures, std::int64_t shards) {
  std::printf(
      "pictures    %lld in %lld classes, as they are and mirrored\nshards      %lld\nlatents     %lld x %lld "
      "x %lld of %lld "
      "pixels, %s\nautoencoder %s, latents are trained times %g\n",
      static_cast<long long>(pictures), static_cast<long long>(std::ssize(info.class_names)),
      static_cast<long long>(shards), static_cast<long long>(info.channels),
      static_cast<long long>(info.side), static_cast<long long>(info.side),
      static_cast<long long>(info.image_size), info.stored_dtype == "BF16" ? "bfloat16" : "float32",
      printable(info.autoencoder).c_str(), info.scaling_factor);
}

LatentOptions options_of(const LatentsArgs& args) {
  LatentOptions options = args.options;
  options.dtype = args.dtype == "bfloat16" ? DType::kBFloat16 : DType::kFloat32;
  options.on_error = args.on_error == "skip" ? OnError::kSkip : OnError::kStop;
  if (options.shard_pictures < 1 || options.shard_pictures > kMostLatentPictures)
    throw ConfigError(error_message("--shard-pictures", "", "1 to " + std::to_string(kMostLatentPictures),
                                    std::to_string(options.shard_pictures)));
  return options;
}

int data_latents(const LatentsArgs& args, const Families&) {
  StopSignal stop;  // before threads begin
  const auto console = std::make_shared<Console>(STDERR_FILENO);
  start_logging(console);
  set_num_threads(args.threads);
  const LatentOptions options = options_of(args);
  const Device device = parse_device(args.device);
  open_device(device);
  const LoadedAutoencoder autoencoder = load_autoencoder(args.autoencoder, {DType::kFloat32, device});
  const PictureSourcePtr pictures = open_pictures(args.inputs, given_names({args.class_names, {}, 0}));
  stop.defer();
  StatusLine line(*console);
  const LatentReport report = make_latents(*pictures, autoencoder, options, [&](const LatentProgress& p) {
    line.update(
        [&] { return describe_progress("encoding", p.done, p.total, "pictures", line.elapsed(), p.kept); });
    return stop.requested();
  });
  line.finish();
  if (!report.finished) {
    log_info("data latents: stopped by " + std::string(stop.name()) +
             "; complete shards are kept, and the same command goes on from there");
    return kPreempted;
  }
  if (!report.broken.empty()) log_warning("data: left out " + report.broken);
  std::printf("wrote %s\n", printable_path(options.folder).c_str());
  print(report.info, report.pictures, report.shards);
  return kDone;
}

}  // namespace

int latents_info(const std::string& path, bool verify) {
  std::vector<LatentShard> shards;
  if (std::filesystem::is_directory(path)) {
    shards = shards_of(path);
  } else {
    shards.emplace_back(path);
  }
  std::int64_t pictures = 0, covered = 0;
  for (const LatentShard& shard : shards) {
    pictures += shard.info().count;
    covered += shard.info().count + shard.info().skipped;
    if (verify) shard.verify();
  }
  const LatentShardInfo& info = shards.front().info();
  print(info, pictures, std::ssize(shards));
  if (covered < info.total)
    std::printf("part        of the latents of %lld pictures\n", static_cast<long long>(info.total));
  if (verify) std::puts("verified: the latents match their checksums");
  return kDone;
}

void add_data_latents(const Commands& data) {
  const auto [command, args] =
      add_command(data, "latents", "Encode images as shards of an autoencoder's latents", data_latents);
  command
      .add_option("--input", args.inputs,
                  "A folder with a folder of images for each class, tar archives (WebDataset) or a folder of "
                  "them, or files of CIFAR-10's binary version")
      ->required()
      ->default_str("");
  command
      .add_option("--autoencoder", args.autoencoder,
                  "A folder with diffusers' AutoencoderKL, which computes in float32")
      ->type_name("DIR")
      ->required();
  command.add_option("--output", args.options.folder, "Folder for the shards; existing shards are kept")
      ->type_name("DIR")
      ->required();
  command.add_option("--image-size", args.options.image_size,
                     "Side of the encoded square in the middle of an image, in pixels");
  command.add_option("--dtype", args.dtype, "Type in which mean and deviation are stored")
      ->check(CLI::IsMember({"float32", "bfloat16"}));
  command.add_option("--shard-pictures", args.options.shard_pictures,
                     "Images per shard, which is kept in memory until it is written");
  command
      .add_option(
          "--class-names", args.class_names,
          "Files with the name of a class on each line, in the order of the labels; default: those of "
          "the images")
      ->default_str("");
  command.add_option("--on-error", args.on_error, "At a broken image: stop and report its name, or skip it")
      ->check(CLI::IsMember({"stop", "skip"}));
  command.add_option("--device", args.device, "cpu, cuda or cuda:N");
  command.add_option("--threads", args.threads, "CPU threads; 0: all processors");
  command.footer(
      R"(A command that was stopped or killed goes on with the first shard that is missing; docs/latents.md has the format.

Examples:
  moh data latents --input imagenet/train --autoencoder sd-vae-ft-ema --output imagenet_latents/train --device cuda
  moh data latents --input imagenet/val --autoencoder sd-vae-ft-ema --output imagenet_latents/val --dtype bfloat16)");
}

}  // namespace moh::cli
