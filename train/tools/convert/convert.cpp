#include "train/tools/convert/convert.h"

#include <algorithm>
#include <vector>

#include "core/error.h"
#include "train/io/durable_file.h"
#include "train/io/printable.h"
#include "train/tasks/model_source.h"
#include "train/tools/convert/destination.h"
#include "train/tools/convert/write_model_checkpoint.h"
#include "train/weights/fold_names.h"
#include "train/weights/hf/hf_folder.h"
#include "train/weights/load_weights.h"

namespace moh {

namespace fs = std::filesystem;

namespace {

/// What is known of the model, and from where.
struct KnownModel {
  std::unique_ptr<FamilyConfig> model;  ///< null where it is not
  fs::path config;
  std::string problem;
};

KnownModel know_model(const ConvertOptions& options, const Families& families, ModelLocation location) {
  if (!options.config.empty()) location.config = options.config;
  try {
    return {read_model_config(location, families), location.config, ""};
  } catch (const ConfigError& error) {
    // A container for tensors needs no model.
    if (options.format != WeightFormat::kSafetensors || !options.config.empty()) throw;
    return {nullptr, location.config, error.what()};
  }
}

void require_model(const ConvertOptions& options, const KnownModel& known) {
  if (known.model || options.format == WeightFormat::kSafetensors) return;
  throw ConfigError(error_message(options.from.string(), "model", "a configuration beside the tensors",
                                  "none",
                                  "describe the model with --config CONFIG.yaml, or convert to safetensors"));
}

/// Refuses differences that were not allowed, or that `format` cannot bear.
void check_differences(const ConvertOptions& options, const KnownModel& known,
                       const WeightDifferences& found) {
  if (found.none()) return;
  const bool needs_all = options.format != WeightFormat::kSafetensors;
  const bool complete = found.missing.empty() && found.mismatched.empty();
  if (options.allow_differences && (complete || !needs_all)) return;
  throw CheckpointError(
      options.from.string() + ": the tensors are not those of the model that " + known.config.string() +
      " describes: " + list(found) + "\n" +
      (complete || !needs_all
           ? "--allow-differences converts all the same" +
                 std::string(needs_all ? ", without what is unexpected" : "")
           : "a model in this format needs all its parameters; name the right one with --config"));
}

/// The tensors to write: all, or, where the format is one of models, the model's in its order.
std::vector<const WeightInfo*> choose_tensors(const ConvertOptions& options, const WeightFile& weights,
                                              std::span<const WeightInfo> model) {
  std::vector<const WeightInfo*> chosen;
  if (options.format == WeightFormat::kSafetensors) {
    for (const WeightInfo& tensor : weights.tensors()) chosen.push_back(&tensor);
    return chosen;
  }
  for (const WeightInfo& parameter : model) chosen.push_back(weights.find(parameter.name));
  return chosen;
}

std::vector<TensorToWrite> with_types(const ConvertOptions& options, const WeightFile& weights,
                                      std::span<const WeightInfo* const> chosen) {
  std::vector<TensorToWrite> tensors;
  for (const WeightInfo* tensor : chosen) {
    const std::string_view type = options.dtype.empty() ? tensor->stored_dtype : options.dtype;
    if (!can_convert(tensor->stored_dtype, type)) {
      throw CheckpointError(error_message(weights.path().string(), printable(tensor->name),
                                          "a type that converts to " + std::string(type),
                                          tensor->stored_dtype, "convert with --dtype keep"));
    }
    tensors.push_back({tensor, type});
    written_bytes(tensors.back());  // refuses what the format has no type for, before anything is written
  }
  return tensors;
}

void write_file(const ConvertOptions& options, const WeightFile& weights,
                std::span<const TensorToWrite> tensors, WriteProgress progress) {
  std::uint64_t bytes = 0;
  for (const TensorToWrite& tensor : tensors) bytes += written_bytes(tensor);
  DurableFile file(options.to, bytes);
  stream_safetensors(
      weights, tensors, [&](std::span<const std::byte> piece) { file.write(piece); }, progress);
  file.commit();
}

std::size_t write_output(const ConvertOptions& options, const Families& families,
                         const ModelLocation& location, const WeightFile& weights, const KnownModel& known,
                         std::span<const TensorToWrite> tensors, WriteProgress progress) {
  if (is_file_output(options)) {
    write_file(options, weights, tensors, progress);
    return 1;
  }
  DurableFolder folder(options.to);
  std::size_t files = 1;
  switch (options.format) {
    case WeightFormat::kSafetensors:
      files = write_model_files(folder.temporary(), weights, tensors, options.shard_bytes, progress);
      break;
    case WeightFormat::kHuggingFace:
      // First what may be refused, and is small.
      families.of(*known.model)
          .weight_names()
          .write_files(folder.temporary(), *known.model, location, tensors);
      copy_companions(location, folder.temporary());
      files = write_model_files(folder.temporary(), weights, tensors, options.shard_bytes, progress);
      break;
    case WeightFormat::kMohCheckpoint:
      write_model_checkpoint(folder.temporary(), options.to, *known.model, known.config, families, weights,
                             tensors, progress);
      break;
  }
  folder.commit();
  return files;
}

}  // namespace

ConvertReport convert_model(const ConvertOptions& asked, const Families& families,
                            const ConvertEvents& events) {
  const ModelLocation location = locate_model(asked.from);
  ConvertOptions options = asked;
  if (!is_file_output(asked) && !asked.to.has_filename()) options.to = asked.to.parent_path();  // "out/"
  check_destination(options, location);
  const auto weights = open_weights(location, options.part);
  const KnownModel known = know_model(options, families, location);
  require_model(options, known);

  ConvertReport report;
  report.source_format = weights->format();
  if (known.model) report.model_config = known.config;
  report.model_problem = known.problem;
  std::vector<WeightInfo> model;
  if (known.model) {
    const Family& family = families.of(*known.model);
    model = expected_tensors(family, *known.model);
    report.differences = compare_weights(model, *weights, &family.weight_names());
    check_differences(options, known, report.differences);
  }
  const std::vector<TensorToWrite> tensors =
      with_types(options, *weights, choose_tensors(options, *weights, model));
  if (options.format != WeightFormat::kSafetensors) {
    report.left_out = report.differences.unexpected;
    report.left_out.insert(report.left_out.end(), report.differences.redundant.begin(),
                           report.differences.redundant.end());
  }
  for (const TensorToWrite& tensor : tensors) {
    report.bytes += written_bytes(tensor);
    report.parameters += tensor.tensor->shape.numel();
  }
  report.tensors = tensors.size();
  events.begin(report, report.bytes);
  remove_abandoned_temporaries(options.to);
  report.files = write_output(options, families, location, *weights, known, tensors, events.progress);
  return report;
}

}  // namespace moh
