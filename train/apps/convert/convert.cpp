#include "train/apps/convert/convert.h"

#include <algorithm>
#include <system_error>
#include <vector>

#include "core/error.h"
#include "models/llm/lora.h"
#include "train/apps/convert/write_model_checkpoint.h"
#include "train/base/formats/stored_dtype.h"
#include "train/base/io/durable_file.h"
#include "train/base/io/file_ops.h"
#include "train/base/io/printable.h"
#include "train/trainer/task/load_model.h"
#include "train/trainer/task/model_config.h"
#include "train/trainer/task/stored_model.h"
#include "train/weights/describe_weights.h"
#include "train/weights/load_weights.h"
#include "train/weights/renamed_weights.h"

namespace moh {

namespace fs = std::filesystem;

namespace {

constexpr std::string_view kAdapterFile = "adapter_model.safetensors";

// ---- The destination ----

[[noreturn]] void refuse(const fs::path& to, std::string_view expected, std::string_view found,
                         std::string_view fix = "") {
  throw ConfigError(error_message("--to " + to.string(), "", expected, found, fix));
}

fs::path resolved(const fs::path& path) {
  std::error_code ignored;
  const fs::path whole = fs::weakly_canonical(path, ignored);
  return whole.has_filename() ? whole : whole.parent_path();
}

bool contains(const fs::path& folder, const fs::path& path) {
  const fs::path outer = resolved(folder), inner = resolved(path);
  return std::mismatch(outer.begin(), outer.end(), inner.begin(), inner.end()).first == outer.end();
}

/// Throws unless the folder contains only files that a conversion may have written, and no state of a run.
void check_replaceable(const fs::path& folder) {
  std::error_code error;
  bool is_model = fs::is_empty(folder, error);
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    const std::string name = it->path().filename().string();
    if (name == kCompanionFolder && it->is_directory() && !it->is_symlink()) continue;
    if (!it->is_regular_file() || it->is_symlink()) {
      refuse(folder, "a folder of files, which --overwrite may replace", printable(name) + " in it");
    }
    if (name.starts_with("optimizer-")) {
      refuse(folder, "a folder without the state of a run", printable(name) + " in it");
    }
    is_model = is_model || name == "model.safetensors" || name == "model.safetensors.index.json" ||
               name == kAdapterFile;
  }
  if (error) refuse(folder, "a readable folder", error.message());
  if (!is_model) refuse(folder, "a model, which --overwrite may replace", "a folder with other files");
}

/// Whether a conversion writes one file, not a folder.
bool is_file_output(const ConvertOptions& options) {
  return options.format == WeightFormat::kSafetensors && options.shard_bytes == 0;
}

/// Refuses a path inside a checkpoint: it could replace files of the manifest, and pruning the checkpoint
/// would remove the new file.
void check_outside_checkpoints(const fs::path& to) {
  for (fs::path folder = resolved(to).parent_path();; folder = folder.parent_path()) {
    if (is_step_folder(folder)) refuse(to, "a path outside of checkpoints", "one in " + folder.string());
    if (folder == folder.parent_path()) return;
  }
}

/// Refuses the path of an input file, and of a folder that contains one.
void check_apart(const ConvertOptions& options, const StoredModel& source) {
  std::vector<fs::path> files = source.weights().files();
  files.insert(files.end(), {source.location().config, options.config});
  for (const fs::path& file : files) {
    if (!file.empty() && contains(options.to, file))
      refuse(options.to, "a path apart from the source", "one that contains it");
  }
}

/// Throws ConfigError if options.to exists and --overwrite is not given, if it contains things that a
/// conversion cannot have written (folders, optimiser state), or if it contains the source.
void check_destination(const ConvertOptions& options, const StoredModel& source) {
  check_outside_checkpoints(options.to);
  std::error_code ignored;
  const fs::file_status status = fs::symlink_status(options.to, ignored);
  const bool file = is_file_output(options);
  if (!file && options.to.extension() == ".safetensors") {
    refuse(options.to, "the name of a folder", "that of a file",
           options.shard_bytes != 0 ? "shards are written to a folder" : "");
  }
  if (fs::exists(status)) check_apart(options, source);
  if (file) return require_replaceable("--to", options.to, options.overwrite);
  if (!fs::exists(status)) return;
  if (!fs::is_directory(status))
    refuse(options.to, "the name of a folder", fs::is_regular_file(status) ? "a file" : "something else");
  if (!options.overwrite)
    refuse(options.to, "a path that does not exist", "a folder", "replace it with --overwrite");
  check_replaceable(options.to);
}

// ---- The model ----

/// Contradictions between the model of --config and the configuration next to the tensors; empty if none.
std::string contradictions(const FamilyConfig& model, const StoredModel& source) {
  try {
    std::string text;
    for (const config::Difference& d : model.other_results(*source.config()))
      text += "\n  " + error_message(d.key, "", d.expected, d.found);
    return text;
  } catch (const ConfigError& error) {
    return std::string("\n  ") + error.what();
  }
}

/// The model of options.config. It must not contradict a configuration next to the tensors: names and shapes
/// alone determine neither the number of heads nor the base of the rotary embedding.
std::unique_ptr<FamilyConfig> read_given_config(const ConvertOptions& options, const StoredModel& source,
                                                ConvertReport& report) {
  std::unique_ptr<FamilyConfig> model = read_model_config(options.config, source.families());
  if (source.location().config.empty()) {
    const std::string assumed = assumed_values(options.config, source.families());
    if (!assumed.empty()) {
      report.warnings.push_back(options.config.string() +
                                " lacks values that the tensors do not determine; assumed: " + assumed);
    }
    return model;
  }
  const std::string found = contradictions(*model, source);
  if (found.empty()) return model;
  const std::string text = options.config.string() + ": differs from the model that " +
                           source.described_by().string() + " describes:" + found;
  if (!options.allow_differences) {
    throw ConfigError(text + "\nleave --config out, or correct it; --allow-differences uses it nevertheless");
  }
  report.warnings.push_back(text);
  return model;
}

/// The model, if it is described and supported; the report gets the file, or a warning with the reason.
std::unique_ptr<FamilyConfig> know_model(const ConvertOptions& options, const StoredModel& source,
                                         ConvertReport& report) {
  const bool needs_model = options.format != WeightFormat::kSafetensors;
  if (!options.config.empty()) {
    report.model_config = options.config;
    return read_given_config(options, source, report);
  }
  const FamilyConfig* model = nullptr;
  try {
    model = source.config();
  } catch (const ConfigError& error) {
    // Safetensors can be converted without knowing the model.
    if (needs_model) throw;
    report.warnings.push_back(std::string("names are not compared with a model: ") + error.what());
  }
  if (model != nullptr) {
    report.model_config = source.described_by();
    return model->clone();
  }
  if (!needs_model) return nullptr;
  throw ConfigError(error_message(options.from.string(), "model", "a configuration next to the tensors",
                                  "none",
                                  "describe the model with --config CONFIG.yaml, or convert to safetensors"));
}

/// Refuses differences that are not allowed, or that the output format does not permit.
void check_differences(const ConvertOptions& options, const ConvertReport& report) {
  const WeightDifferences& found = report.differences;
  if (found.none()) return;
  const bool needs_all = options.format != WeightFormat::kSafetensors;
  const bool complete = found.missing.empty() && found.mismatched.empty();
  if (options.allow_differences && (complete || !needs_all)) return;
  throw CheckpointError(
      options.from.string() + ": the tensors do not match the model that " + report.model_config.string() +
      " describes: " + list(found) + "\n" +
      (complete || !needs_all
           ? "--allow-differences converts nevertheless" +
                 std::string(needs_all ? ", without unexpected tensors" : "")
           : "a model in this format needs all its parameters; name the right one with --config"));
}

/// The tensors of a model that the format keeps.
std::vector<WeightInfo> kept_by(WeightFormat format, std::vector<WeightInfo> tensors,
                                const WeightNames& names, const FamilyConfig& model) {
  if (format == WeightFormat::kPeft)
    std::erase_if(tensors, [&](const WeightInfo& tensor) { return !names.adapter_name(tensor.name, model); });
  return tensors;
}

/// Where the format has no adapters, takes the weights with those of the model merged into them, and the
/// model without any.
void merge_adapters(const ConvertOptions& options, StoredModel& source, FamilyConfig& model) {
  LoraConfig* const lora = model.lora();
  if (options.format != WeightFormat::kHuggingFace || lora == nullptr || !lora->used()) return;
  source.take_merged(lora->scale(), options.dtype);
  *lora = {};
}

/// The tensors to write, with their output types: all, or, for formats that need a model, those of the model
/// in its order.
std::vector<WeightInfo> tensors_to_write(const ConvertOptions& options, const WeightFile& weights,
                                         std::span<const WeightInfo> model) {
  std::vector<WeightInfo> tensors;
  for (const WeightInfo& listed : options.format == WeightFormat::kSafetensors ? weights.tensors() : model) {
    const WeightInfo& tensor = *weights.find(listed.name);
    const std::string_view type = options.dtype.empty() ? tensor.stored_dtype : options.dtype;
    if (!can_convert(tensor.stored_dtype, type)) {
      throw CheckpointError(error_message(weights.path().string(), printable(tensor.name),
                                          "a type that converts to " + std::string(type), tensor.stored_dtype,
                                          dtype_advice({&tensor, 1})));
    }
    const auto bytes = stored_bytes(type, tensor.shape);
    if (!bytes) {
      throw ValueError(error_message("safetensors", printable(tensor.name), "a type of this format", type,
                                     "convert it with --dtype, or leave it out"));
    }
    tensors.push_back({tensor.name, type, tensor.shape, *bytes});
  }
  return tensors;
}

/// The companion files of a Hugging Face folder, made for people, outlive the way through a checkpoint, which
/// itself carries the files that its model is used with.
void keep_companions(const ModelLocation& source, const fs::path& folder) {
  Companions files = companions(source);
  std::erase_if(files, [](const auto& file) { return is_carried_file(file.first); });
  if (files.empty()) return;
  make_directories(folder);
  copy_companions(files, folder);
  sync_directory(folder);
}

/// Tensors of a file under the names that a format has for them.
struct Renamed {
  template <class NameOf>
  Renamed(const WeightFile& from, std::span<const WeightInfo> listed, const NameOf& name_of)
      : tensors(listed.begin(), listed.end()) {
    NewNames names;
    for (WeightInfo& tensor : tensors) {
      std::string in_format = name_of(tensor.name);
      names[tensor.name] = in_format;
      tensor.name = std::move(in_format);
    }
    weights = renamed(from, names);
  }

  std::vector<WeightInfo> tensors;
  std::unique_ptr<WeightFile> weights;
};

/// Writes the folder of other programs. The small files come first, as writing them may fail because the
/// format cannot express the model.
std::size_t write_exported(const fs::path& folder, const ConvertOptions& options, const StoredModel& source,
                           const FamilyConfig& model, std::span<const WeightInfo> tensors,
                           WriteProgress progress) {
  const WeightNames& names = source.families().of(model).weight_names();
  names.write_files(folder, model, source.location(), tensors);
  const Renamed of_format(source.weights(), tensors,
                          [&](std::string_view name) { return names.exported_name(name, model); });
  return write_model_files(folder, *of_format.weights, of_format.tensors, options.shard_bytes, progress);
}

/// The model that a run began with; empty: none, or not known.
std::string base_of(const StoredModel& source) {
  return source.location().is_checkpoint ? source.run({}, ConfigUse::kModel).init.from : "";
}

/// Writes the folder of adapters, likewise.
std::size_t write_adapters(const fs::path& folder, const StoredModel& source, const FamilyConfig& model,
                           std::span<const WeightInfo> tensors, WriteProgress progress) {
  const WeightNames& names = source.families().of(model).weight_names();
  names.write_adapter_files(folder, model, base_of(source), source.location(), tensors);
  const Renamed of_format(source.weights(), tensors,
                          [&](std::string_view name) { return *names.adapter_name(name, model); });
  write_safetensors_file(folder / kAdapterFile, *of_format.weights, of_format.tensors, progress);
  return 1;
}

std::size_t write_output(const ConvertOptions& options, const StoredModel& source, const FamilyConfig* model,
                         std::span<const WeightInfo> tensors, const ConvertReport& report,
                         WriteProgress progress) {
  if (is_file_output(options)) {
    DurableFile file(options.to, report.bytes);
    stream_safetensors(
        source.weights(), tensors, [&](std::span<const std::byte> piece) { file.write(piece); }, progress);
    file.commit();
    return 1;
  }
  DurableFolder folder(options.to);
  std::size_t files = 1;
  switch (options.format) {
    case WeightFormat::kSafetensors:
      files = write_model_files(folder.temporary(), source.weights(), tensors, options.shard_bytes, progress);
      break;
    case WeightFormat::kHuggingFace:
      files = write_exported(folder.temporary(), options, source, *model, tensors, progress);
      break;
    case WeightFormat::kMohCheckpoint:
      keep_companions(source.location(), folder.temporary() / kCompanionFolder);
      write_model_checkpoint(folder.temporary(), options.to, *model, report.model_config, source, tensors,
                             progress);
      break;
    case WeightFormat::kPeft:
      files = write_adapters(folder.temporary(), source, *model, tensors, progress);
      break;
  }
  folder.commit();
  return files;
}

}  // namespace

ConvertReport convert_model(const ConvertOptions& asked, const Families& families,
                            const ConvertEvents& events) {
  StoredModel source(asked.from, families, asked.part,
                     asked.allow_differences ? TotalSize::kWarned : TotalSize::kChecked);
  ConvertOptions options = asked;
  if (!is_file_output(asked) && !asked.to.has_filename()) options.to = asked.to.parent_path();  // "out/"
  restore_replaced(options.to);
  if (options.average != std::vector<std::int64_t>{1}) source.take_mean(options.average);
  source.weights();  // errors of the source come before those of the destination
  check_destination(options, source);
  ConvertReport report;
  report.source_format = format_and_part(source.weights());
  if (options.part.empty() && !source.weights().parts().empty()) {
    report.warnings.push_back(options.from.string() + " holds several models: " + report.source_format +
                              " is taken; --part names another");
  }
  if (options.part.empty() && source.leaves_average_out()) {
    report.warnings.push_back(options.from.string() +
                              ": its weights are taken; evaluations of this run take their moving average, " +
                              "as does --part ema");
  }
  const std::unique_ptr<FamilyConfig> model = know_model(options, source, report);
  std::vector<WeightInfo> expected;
  if (model) {
    const Family& family = families.of(*model);
    expected = expected_tensors(family, *model);
    source.take_names_of(expected, family.weight_names());
    report.differences = compare_weights(expected, source.weights(), &family.weight_names());
    check_differences(options, report);
    merge_adapters(options, source, *model);
    expected = kept_by(options.format, expected_tensors(family, *model), family.weight_names(), *model);
  }
  const std::vector<WeightInfo> tensors = tensors_to_write(options, source.weights(), expected);
  for (const WeightInfo& tensor : tensors) {
    report.bytes += tensor.bytes;
    report.parameters += tensor.shape.numel();
  }
  report.tensors = tensors.size();
  events.begin(report);
  remove_abandoned_temporaries(options.to);
  report.files = write_output(options, source, model.get(), tensors, report, events.progress);
  return report;
}

}  // namespace moh
