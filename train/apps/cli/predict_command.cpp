#include <CLI/CLI.hpp>
#include <iostream>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/error.h"
#include "core/parallel.h"
#include "train/apps/cli/commands.h"
#include "train/apps/eval/evaluation_report.h"
#include "train/apps/eval/prediction_file.h"
#include "train/base/io/durable_file.h"
#include "train/base/log/logging.h"
#include "train/trainer/task/load_model.h"

namespace moh::cli {

namespace {

struct PredictArgs {
  std::string checkpoint, config;
  std::vector<std::string> files, settings, features;
  std::filesystem::path out;
  std::int64_t top = 5;
  bool json = false, overwrite = false;
};

/// With settings apart from files.
PredictArgs separated(PredictArgs args) {
  move_settings(args.files, args.settings);
  if (args.files.empty())
    throw ConfigError(error_message("moh predict", "FILE", "a picture or more", "none"));
  return args;
}

/// The classes of a file, and with --out its arrays; a broken one is named, and does not keep others from
/// being read.
FilePredictions predictions_of(const Predictor& predictor, const std::string& file, const PredictArgs& args,
                               std::vector<PredictedArray>& arrays) {
  FilePredictions predictions{.file = file};
  try {
    predictions.classes =
        predictor.predict(file, args.top, args.features, args.out.empty() ? nullptr : &arrays);
  } catch (const DataError& error) {
    log_error(error.what());
    predictions.error = error.what();
  }
  return predictions;
}

int predict(const PredictArgs& given, const Families& families) {
  const PredictArgs args = separated(given);
  if (args.out.empty() && !args.features.empty())
    throw ConfigError(
        error_message("--features", "", "--out FILE.npz with it, to which they are written", "none"));
  if (!args.out.empty()) require_replaceable("--out", args.out, args.overwrite);
  if (args.top < 1) throw ConfigError(error_message("--top", "", "1 or more", std::to_string(args.top)));
  const LoadedModel loaded =
      load_model(args.checkpoint, families, args.settings, ConfigUse::kModel, one_process(), args.config);
  set_num_threads(loaded.config.threads);
  const std::unique_ptr<Predictor> predictor = loaded.family->make_predictor(loaded.config, *loaded.model);
  std::optional<PredictionFile> out;
  if (!args.out.empty()) out.emplace(args.out, args.files, predictor->arrays(args.features));
  int code = kDone;
  for (const std::string& file : args.files) {
    std::vector<PredictedArray> arrays;
    const FilePredictions predictions = predictions_of(*predictor, file, args, arrays);
    if (out) out->add(arrays);
    if (!predictions.error.empty()) code = kInputError;
    if (args.json)
      write_json_line(std::cout, predictions);
    else if (predictions.error.empty())
      write_table(std::cout, predictions);
    std::cout << std::flush;
  }
  if (out) out->commit();
  return code;
}

}  // namespace

void add_predict(const Commands& commands) {
  const auto [command, args] =
      add_command(commands, "predict", "Classify image files with a trained model", predict);
  add_checkpoint(command, args.checkpoint);
  add_description(command, args.config);
  command.add_option("files", args.files, "Files to classify; key.path=value is a setting of the run")
      ->type_name("FILE")
      ->required();
  command.add_option("--top", args.top, "Number of classes to show, the most probable first");
  add_set(command, args.settings);
  command.add_flag("--json", args.json, "Print a JSON object for each file");
  command
      .add_option(
          "--out", args.out,
          "Also write the logits of all files to this file, float32 [files, classes], with the files' "
          "names and --features")
      ->type_name("FILE.npz")
      ->default_str("");
  command
      .add_option(
          "--features", args.features,
          "With --out: features to write, too: pooled, the input of the classifier; tokens, of which it "
          "is made; or the tokens after blocks, by name (blocks.3, block3.1)")
      ->type_name("NAME")
      ->allow_extra_args(false)  // files follow
      ->delimiter(',')
      ->default_str("");
  command.add_flag("--overwrite", args.overwrite, "Replace the file of --out");
  command.footer(
      R"(A file that cannot be read or decoded is reported on stderr, the others are classified, and the exit code is 3.

Examples:
  moh predict --checkpoint runs/vit/quickstart picture.jpg
  moh predict --checkpoint runs/imagenet --top 3 --json holiday/*.jpg
  moh predict --checkpoint model data.class_names=names.txt picture.png
  moh predict --checkpoint runs/imagenet --out features.npz --features pooled,blocks.5 holiday/*.jpg)");
}

}  // namespace moh::cli
