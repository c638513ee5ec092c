#include <CLI/CLI.hpp>
#include <cstdio>
#include <map>
#include <optional>

#include "core/error.h"
#include "train/apps/cli/commands.h"
#include "train/apps/convert/convert.h"
#include "train/base/io/printable.h"
#include "train/base/log/format.h"
#include "train/base/log/logging.h"
#include "train/base/log/progress.h"
#include "train/weights/fold_names.h"

namespace moh::cli {

namespace {

struct ConvertArgs {
  ConvertOptions options;      ///< format, dtype and shard_bytes come from the fields below
  std::string format;          ///< hf, safetensors, moh or peft; empty: by the name of `to`
  std::string dtype = "keep";  ///< keep, float32, bfloat16 or float16
  std::string shard_size;      ///< "5GB"; empty: one file
};

std::uint64_t bytes_of_text(const std::string& text) {
  if (const std::optional<std::int64_t> bytes = parse_bytes(text)) return static_cast<std::uint64_t>(*bytes);
  throw ConfigError(error_message("--shard-size", "", "a size such as 5GB or 500MiB", "'" + text + "'"));
}

WeightFormat format_of(const ConvertArgs& args) {
  if (args.format == "hf") return WeightFormat::kHuggingFace;
  if (args.format == "moh") return WeightFormat::kMohCheckpoint;
  if (args.format == "peft") return WeightFormat::kPeft;
  if (args.format == "safetensors" || args.options.to.extension() == ".safetensors") {
    return WeightFormat::kSafetensors;
  }
  throw ConfigError(error_message("--format", "", "hf, safetensors, moh or peft", "none",
                                  "without --format, --to must be the name of a .safetensors file"));
}

std::string_view stored_dtype_of(const std::string& name) {
  static const std::map<std::string_view, std::string_view> types = {
      {"keep", ""}, {"float32", "F32"}, {"bfloat16", "BF16"}, {"float16", "F16"}};
  return types.at(name);
}

ConvertOptions options_of(const ConvertArgs& args) {
  ConvertOptions options = args.options;
  options.format = format_of(args);
  options.dtype = stored_dtype_of(args.dtype);
  if (args.shard_size.empty()) return options;
  if (options.format == WeightFormat::kMohCheckpoint) {
    throw ConfigError(error_message("--shard-size", "", "--format hf or safetensors", "moh",
                                    "a checkpoint of moh has one file of weights"));
  }
  if (options.format == WeightFormat::kPeft) {
    throw ConfigError(error_message("--shard-size", "", "--format hf or safetensors", "peft",
                                    "PEFT reads one file of adapters"));
  }
  options.shard_bytes = bytes_of_text(args.shard_size);
  return options;
}

void warn_of_names(const char* text, std::span<const std::string> names) {
  for (const std::string& name : fold_lines(names)) log_warning("convert: " + name + text);
}

/// Warns about missing and unexpected names, before the conversion starts.
void report_names(const ConvertOptions& options, const ConvertReport& report) {
  for (const std::string& warning : report.warnings) log_warning("convert: " + warning);
  warn_of_names(" is missing", report.differences.missing);
  for (const std::string& text : fold_lines(report.differences.mismatched)) log_warning("convert: " + text);
  if (options.format == WeightFormat::kSafetensors) {
    warn_of_names(" is no tensor of the model", report.differences.unexpected);
  } else {
    warn_of_names(" is left out: no tensor of the model", report.differences.unexpected);
    warn_of_names(" is left out: the model has it otherwise", report.differences.redundant);
  }
}

void print_summary(const ConvertOptions& options, const ConvertReport& report) {
  std::printf("read        %s (%s)\n", printable_path(options.from).c_str(), report.source_format.c_str());
  if (!report.model_config.empty()) {
    std::printf("model       %s; differences: %s\n", printable_path(report.model_config).c_str(),
                describe(report.differences).c_str());
  }
  std::printf("wrote       %s (%zu tensor file%s)\n", printable_path(options.to).c_str(), report.files,
              report.files == 1 ? "" : "s");
  std::printf("tensors     %zu\n", report.tensors);
  std::printf("parameters  %lld\n", static_cast<long long>(report.parameters));
  std::printf("size        %s\n", format_bytes(static_cast<std::int64_t>(report.bytes)).c_str());
}

int convert(const ConvertArgs& args, const Families& families) {
  const ConvertOptions options = options_of(args);
  std::optional<ByteProgress> progress;
  const auto begin = [&](const ConvertReport& report) {
    report_names(options, report);
    progress.emplace("converting", report.bytes);
  };
  const auto add = [&](std::uint64_t bytes) { progress->add(bytes); };
  const ConvertReport report = convert_model(options, families, {begin, add});
  progress->finish();
  print_summary(options, report);
  return kDone;
}

}  // namespace

void add_convert(const Commands& commands) {
  const auto [command, args] = add_command(commands, "convert", "Convert weights between formats", convert);
  ConvertOptions& options = args.options;
  command
      .add_option("--from", options.from, "File, folder or run with weights, as for `moh checkpoint info`")
      ->required();
  command.add_option("--to", options.to, "File or folder to write")->required();
  command
      .add_option(
          "--format", args.format,
          "hf: a folder for transformers, timm or PyTorch; safetensors: one file, or with "
          "--shard-size a folder; moh: a checkpoint; peft: the adapters of model.lora alone, for PEFT "
          "(hf merges them); default: safetensors if --to ends in .safetensors")
      ->check(CLI::IsMember({"hf", "safetensors", "moh", "peft"}));
  command.add_option("--part", options.part, "The model to read from a PyTorch file: model, ema, ...");
  command
      .add_option(
          "--average", options.average,
          "Convert the mean of the weights of so many checkpoints of a run: the newest, or those up to "
          "the one of --from; or of the checkpoints of several steps, separated by commas")
      ->delimiter(',')
      ->check(CLI::PositiveNumber);
  command.add_option("--dtype", args.dtype, "Element type of the result")
      ->check(CLI::IsMember({"keep", "float32", "bfloat16", "float16"}));
  command.add_option("--shard-size", args.shard_size, "Split into files of at most this size: 5GB, 500MiB");
  command
      .add_option("--config", options.config,
                  "Configuration that describes the model, if there is none next to the tensors")
      ->type_name("CONFIG.yaml");
  command.add_flag(
      "--allow-differences", options.allow_differences,
      "Convert although names, shapes or the configuration next to the tensors differ from the "
      "model's, or an index gives another size; the formats hf, moh and peft omit unexpected tensors");
  command.add_flag("--overwrite", options.overwrite, "Replace what an earlier conversion has written");
  command.footer(
      R"(Where the model is known, names and shapes are compared with it first. Memory does not depend on the size of the model.

Examples:
  moh convert --from runs/llm/quickstart --to model.safetensors
  moh convert --from llama3-8b/ --to llama3-8b-moh --format moh
  moh convert --from runs/llm/quickstart --to exported --format hf --dtype bfloat16 --shard-size 5GB
  moh convert --from runs/llm/llama3_8b_lora --to adapters --format peft
  moh convert --from runs/translation/base --average 10 --to averaged --format moh
  moh convert --from runs/llm/base --average 2000,3000,4000 --to averaged --format moh
  moh convert --from dit.pt --part ema --to dit.safetensors)");
}

}  // namespace moh::cli
