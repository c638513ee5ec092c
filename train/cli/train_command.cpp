#include <unistd.h>

#include <array>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <system_error>

#include "core/cuda/backend.h"
#include "core/error.h"
#include "core/parallel.h"
#include "train/cli/commands.h"
#include "train/cli/exit_code.h"
#include "train/config/load_run_config.h"
#include "train/generate/generate_text.h"
#include "train/init/initialise_model.h"
#include "train/init/load_source.h"
#include "train/io/durable_file.h"
#include "train/io/file_ops.h"
#include "train/io/run_lock.h"
#include "train/metrics/logging.h"
#include "train/tasks/configured_device.h"
#include "train/tasks/language_model.h"
#include "train/tasks/llama_from_config.h"
#include "train/tasks/load_language_model.h"
#include "train/tasks/model_presets.h"
#include "train/trainer/config_change.h"
#include "train/trainer/trainer.h"

namespace moh::cli {

namespace {

void make_folder(const std::filesystem::path& folder) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) throw StorageError("output.dir: " + folder.string() + ": cannot be created: " + error.message());
}

/// The files of a run, beside its checkpoints.
constexpr std::array kRunFiles = {"metrics.jsonl", "config.yaml", "sample.txt"};

/// Removes what moh wrote there and nothing else: the folder may hold notes of its owner.
void remove_run(const std::filesystem::path& folder) {
  remove_tree(folder / "checkpoints");
  for (const char* name : kRunFiles) remove_tree(folder / name);
}

/// What a killed process was writing. CheckpointStore does the same for checkpoints.
void clear_leftovers(const std::filesystem::path& folder) {
  for (const char* name : kRunFiles) remove_abandoned_temporaries(folder / name);
}

/// The checkpoint to go on from; nothing for a run that starts anew.
std::optional<StoredCheckpoint> find_resume_point(CheckpointStore& store, const RunConfig& config,
                                                  const TrainArgs& args) {
  if (args.overwrite) return std::nullopt;
  if (!args.resume) {
    const std::vector<CheckpointInfo> found = store.list();
    if (found.empty()) return std::nullopt;
    throw ConfigError(
        error_message("output.dir", config.output.dir.string(), "a folder without a run",
                      "checkpoints up to step " + std::to_string(found.back().step),
                      "go on with --resume, start over with --overwrite, or set another output.dir"));
  }
  std::optional<StoredCheckpoint> newest = store.open_newest(args.allow_older);
  if (!newest) {
    log_info("resume: no checkpoint in " + config.output.dir.string() + " yet; starting at step 0");
    return std::nullopt;
  }
  require_resumable(*newest);
  const std::filesystem::path saved = newest->folder() / "config.yaml";
  review_config_changes(load_run_config(saved.string(), {}, llama_model_presets()), config,
                        args.allow_changes);
  log_info("resume: from step " + std::to_string(newest->step()));
  return newest;
}

/// The model of the newest checkpoint in a run's folder whose configuration can be read; damage is reported
/// when the checkpoint is loaded.
std::optional<ModelConfig> saved_model(const std::filesystem::path& run_folder) {
  std::vector<CheckpointInfo> checkpoints = list_checkpoints(run_folder / "checkpoints");
  for (auto info = checkpoints.rbegin(); info != checkpoints.rend(); ++info) {
    try {
      return load_run_config((info->folder / "config.yaml").string(), {}, llama_model_presets()).model;
    } catch (const ConfigError&) {
      continue;
    }
  }
  return std::nullopt;
}

/// The run's configuration. What a resumed run begins with is the model of its checkpoint: the one that
/// init.from names may be gone, and what was measured on it is in the checkpoint.
RunConfig load_config(const TrainArgs& args) {
  ModelPresets models = llama_model_presets();
  if (args.resume) {
    models.of_source = [](const RunConfig& run, bool sizes_given) {
      const std::optional<ModelConfig> saved = saved_model(run.output.dir);
      return saved ? saved : model_of_source(run, sizes_given);
    };
  }
  return load_run_config(args.config, args.overrides, models);
}

/// A checkpoint that a new run begins from. Shared heads that are to be chosen by measuring are chosen here.
struct Beginning {
  Beginning(RunConfig& config, const LanguageData& data)
      : source(open_source(config)), batches(data, config) {
    settle_shared_heads(config, source, batches);
  }

  ModelSource source;
  CalibrationBatches batches;
};

void describe_model(const Llama& model) {
  const LlamaConfig& c = model.config();
  char text[160];
  std::snprintf(
      text, sizeof text, "model: %.2fM parameters, %lld layers, %lld heads of %lld, %.0f%% of them active",
      static_cast<double>(count_parameters(model)) / 1e6, static_cast<long long>(c.layers),
      static_cast<long long>(c.heads), static_cast<long long>(c.head_dim), 100 * activated_heads(c));
  log_info(text);
}

/// The sample that ends a run: printed, and kept as sample.txt.
void write_sample(const LanguageModelTask& task, const Llama& model, const RunConfig& config,
                  Console& console) {
  const SampleConfig& sample = config.sample;
  if (sample.tokens == 0) return;
  GenerateOptions options{.tokens = sample.tokens,
                          .pick = {sample.temperature, sample.top_k, sample.top_p},
                          .seed = static_cast<std::uint64_t>(config.seed)};
  std::string text = sample.prompt;
  generate_text(model, task.tokenizer(), sample.prompt, options,
                [&](std::string_view piece) { text += piece; });
  write_file_durably(config.output.dir / "sample.txt", text + "\n");
  console.print("--- sample ---\n" + text + "\n--------------");
}

}  // namespace

int train(const TrainArgs& args) {
  std::signal(SIGPIPE, SIG_IGN);  // training outlives the terminal, or the `| head`, that watches it
  StopSignal stop;
  RunConfig config = load_config(args);
  const auto console = std::make_shared<Console>(STDOUT_FILENO);
  start_logging(console, args.log_level);
  set_num_threads(static_cast<int>(config.threads));
  open_configured_device(config, NewProducts::kSearchAndKeep);
  make_folder(config.output.dir);
  const RunLock lock(config.output.dir);
  if (!lock.crashed_holder().empty())
    log_info("the last process of this run did not end cleanly: " + lock.crashed_holder());
  clear_leftovers(config.output.dir);
  CheckpointStore store(config.output.dir,
                        {static_cast<int>(config.checkpoint.keep_last), config.checkpoint.keep_best},
                        [](const std::string& warning) { log_warning(warning); });
  std::optional<StoredCheckpoint> resume_from = find_resume_point(store, config, args);

  if (config.device != kCpu) {
    log_info("device: " + cuda::describe_device());
    log_info("dense attention: " + describe_attention_backend(dtype_of_precision(config.precision)));
  }
  LanguageData data = open_language_data(config.data, config.model.vocab_size);
  std::optional<Beginning> beginning;
  if (!resume_from && !config.init.from.empty()) beginning.emplace(config, data);
  LanguageModelTask task(config, std::move(data));
  describe_model(task.llama());
  if (config.precision == Precision::kBFloat16 && config.device == kCpu) {
    log_warning(
        "precision: bfloat16 on the CPU saves memory, not time: its arithmetic is float32's, with "
        "conversions");
  }
  if (resume_from) {
    load_parameters(task.model(), *resume_from, "checkpoint " + checkpoint_folder_name(resume_from->step()));
  }
  if (beginning) initialise_from_source(task.llama(), beginning->source, config, beginning->batches);
  beginning.reset();
  // Only now: data that cannot be read, or a model too large for the memory, must not cost the old run.
  if (args.overwrite) remove_run(config.output.dir);
  write_file_durably(config.output.dir / "config.yaml", print_resolved(config));
  stop.defer();
  Trainer trainer(config, task, store, stop, console, resume_from ? &*resume_from : nullptr);
  resume_from.reset();
  const TrainOutcome outcome = trainer.run();
  if (outcome.finished) write_sample(task, task.llama(), config, *console);
  console->print(format_summary(outcome.summary));
  return outcome.finished ? kDone : kPreempted;
}

}  // namespace moh::cli
