#include <unistd.h>
#include <CLI/CLI.hpp>
#include <cstdio>
#include <iostream>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "core/error.h"
#include "core/parallel.h"
#include "train/apps/cli/commands.h"
#include "train/apps/eval/picture_scores.h"
#include "train/base/io/printable.h"
#include "train/base/log/logging.h"
#include "train/base/log/progress.h"
#include "train/families/images/classifier_features.h"
#include "train/families/images/data/loose_pictures.h"
#include "train/families/images/image_run.h"
#include "train/trainer/task/load_model.h"

namespace moh::cli {

namespace {

struct FidArgs {
  std::string reference, samples, classifier;
  std::int64_t threads = 0;
  bool json = false;
};

/// Makes features of pictures with a classifier.
class FeaturesFrom {
 public:
  FeaturesFrom(const std::string& checkpoint, const Families& families, Console& console)
      : loaded_(load_model(checkpoint, families)), console_(console) {
    if (loaded_.family->defaults().task() != ImageRun::kTask)
      throw ConfigError(error_message(
          "--features-from", "", "a classifier of pictures",
          printable_path(checkpoint) + ", of task " + std::string(loaded_.family->defaults().task())));
  }

  PictureFeatures of(const std::string& path) {
    const PictureSourcePtr pictures = open_loose_pictures(path);
    StatusLine line(console_);
    ClassifierFeatures made = classifier_features(
        loaded_.config, static_cast<const ImageModel&>(*loaded_.model), pictures, [&](std::int64_t done) {
          line.update([&] {
            return describe_progress("features", done, pictures->size(), "pictures", line.elapsed());
          });
        });
    PictureFeatures features{.name = path};
    features.features = std::move(made.features);
    features.probabilities = std::move(made.probabilities);
    return features;
  }

 private:
  LoadedModel loaded_;
  Console& console_;
};

int eval_fid(const FidArgs& args, const Families& families) {
  const auto console = std::make_shared<Console>(STDERR_FILENO);
  start_logging(console);
  set_num_threads(args.threads);
  std::optional<FeaturesFrom> made;
  if (!args.classifier.empty()) made.emplace(args.classifier, families, *console);
  const auto features_of = [&](const std::string& path) {
    return made ? made->of(path) : read_picture_features(path);
  };
  const PictureFeatures reference = features_of(args.reference), samples = features_of(args.samples);
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
  if (made)
    std::cout << "features         of the classifier " << printable_path(args.classifier)
              << ", not of Inception: no published number compares\n";
  write_table(std::cout, reference, samples, scores);
  return kDone;
}

}  // namespace

void add_eval_fid(const Commands& eval) {
  const auto [command, args] =
      add_command(eval, "fid", "Score images by their features: FID, sFID, IS, precision, recall", eval_fid);
  command.add_option("reference", args.reference, "Features or statistics of the reference (.npz, .npy)")
      ->type_name("REFERENCE")
      ->required();
  command.add_option("samples", args.samples, "Features or statistics of the samples (.npz, .npy)")
      ->type_name("SAMPLES")
      ->required();
  command.add_option("--features-from", args.classifier,
                     "A classifier, trained by moh or released, that computes features of images: both files "
                     "are then images (.npz of moh sample, folders)");
  command.add_option("--threads", args.threads, "CPU threads; 0: all processors");
  command.add_flag("--json", args.json, "Print one JSON object instead of a table");
  command.footer(
      R"(Arrays of an .npz file: activations, activations_s (spatial) and probabilities, one row per image, and mu, sigma, mu_s,
sigma_s as in the reference batches of guided-diffusion. An .npy file is of features. Each score is computed whose arrays
are there. Only features of its Inception network compare with published numbers.

Examples:
  moh eval fid reference_features.npz sample_features.npz
  moh eval fid --features-from runs/cifar10_classifier cifar10/test samples/samples.npz)");
}

}  // namespace moh::cli
