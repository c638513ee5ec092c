#include <unistd.h>
#include <CLI/CLI.hpp>
#include <cstdio>
#include <filesystem>
#include <iostream>
#include <memory>
#include <string>

#include "core/error.h"
#include "core/parallel.h"
#include "train/apps/cli/commands.h"
#include "train/apps/cli/picture_features.h"
#include "train/apps/eval/picture_scores.h"
#include "train/base/io/durable_file.h"
#include "train/base/io/printable.h"
#include "train/base/log/logging.h"
#include "train/base/log/progress.h"

namespace moh::cli {

namespace {

struct FidArgs {
  std::string reference, samples, reference_out;
  FeatureOptions features;
  std::int64_t threads = 0;
  bool overwrite = false, json = false;
};

/// Before features are computed, which takes minutes.
void check_reference_out(const std::string& path, bool overwrite) {
  if (path.empty()) return;
  require_replaceable("--write-reference", path, overwrite);
  if (std::filesystem::path(path).extension() != ".npz")
    throw ConfigError(
        error_message("--write-reference", "", "a name that ends in .npz", printable_path(path)));
}

int eval_fid(const FidArgs& args, const Families& families) {
  check_reference_out(args.reference_out, args.overwrite);
  const auto console = std::make_shared<Console>(STDERR_FILENO);
  start_logging(console);
  set_num_threads(args.threads);
  const std::unique_ptr<FeatureMaker> made = feature_maker(args.features, families, *console);
  const auto features_of = [&](const std::string& path) {
    return made ? made->of(path) : read_picture_features(path);
  };
  const PictureFeatures reference = features_of(args.reference);
  if (!args.reference_out.empty()) write_picture_features(args.reference_out, reference);
  const PictureFeatures samples = features_of(args.samples);
  StatusLine line(*console);
  const PictureScores scores = score_pictures(reference, samples, [&](double share) {
    constexpr std::int64_t kParts = 1000;
    line.update([&] {
      return describe_progress("precision and recall",
                               static_cast<std::int64_t>(share * static_cast<double>(kParts)), kParts,
                               "parts", line.elapsed());
    });
  });
  line.finish();
  for (const std::string& remark : remarks_on_counts(reference, samples)) log_warning("eval fid: " + remark);
  if (args.json) {
    write_json_line(std::cout, reference, samples, scores);
    return kDone;
  }
  if (made) std::cout << "features         " << made->describe() << '\n';
  write_table(std::cout, reference, samples, scores);
  return kDone;
}

}  // namespace

void add_eval_fid(const Commands& eval) {
  const auto [command, args] =
      add_command(eval, "fid", "Score images by their features: FID, sFID, IS, precision, recall", eval_fid);
  command
      .add_option("reference", args.reference,
                  "Features or statistics of the reference (.npz, .npy), or images")
      ->type_name("REFERENCE")
      ->required();
  command
      .add_option("samples", args.samples, "Features or statistics of the samples (.npz, .npy), or images")
      ->type_name("SAMPLES")
      ->required();
  CLI::Option* from = command.add_option(
      "--features-from", args.features.classifier,
      "A classifier, trained by moh or released, that computes features of images: files are then images "
      "(.npz of moh sample, folders), or features (.npz)");
  CLI::Option* inception = command.add_option(
      "--features", args.features.inception,
      "A published weight file of Inception that computes features of images: files are then images (.npz "
      "with arr_0, folders), or features or statistics (.npz)");
  inception->excludes(from);
  command
      .add_option(
          "--resize", args.features.resize,
          "Resize images as guided-diffusion and TensorFlow 1 (adm), or as pytorch-fid (with --features)")
      ->check(CLI::IsMember({"adm", "pytorch-fid"}))
      ->needs(inception);
  command.add_option("--device", args.features.device, "cpu, cuda or cuda:N (with --features)")
      ->needs(inception);
  command.add_option("--batch-size", args.features.batch_size, "Images of a forward pass (with --features)")
      ->check(CLI::Range(1, 4096))
      ->needs(inception);
  command
      .add_option("--write-reference", args.reference_out,
                  "Write the features of the reference to a file that later calls take in its place")
      ->type_name("FILE.npz");
  command.add_flag("--overwrite", args.overwrite, "Replace the file of --write-reference");
  command.add_option("--threads", args.threads, "CPU threads; 0: all processors");
  command.add_flag("--json", args.json, "Print one JSON object instead of a table");
  command.footer(
      R"(Arrays of an .npz file: activations, activations_s (spatial) and probabilities, one row per image, and mu, sigma, mu_s,
sigma_s as in the reference batches of guided-diffusion. An .npy file is of features. Each score is computed whose arrays
are there. Only features of its Inception network compare with published numbers: --features computes them with
classify_image_graph_def.pb, or with the weights of pytorch-fid or torch-fidelity.

Examples:
  moh eval fid reference_features.npz sample_features.npz
  moh eval fid --features classify_image_graph_def.pb VIRTUAL_imagenet256_labeled.npz fid/samples.npz
  moh eval fid --features-from runs/cifar10_classifier cifar10/test samples/samples.npz
  moh eval fid --features classify_image_graph_def.pb --write-reference test.npz cifar10/test step_100000
  moh eval fid --features classify_image_graph_def.pb test.npz step_200000)");
}

}  // namespace moh::cli
