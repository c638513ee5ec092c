#include <unistd.h>
#include <CLI/CLI.hpp>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <iostream>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/error.h"
#include "train/apps/cli/commands.h"
#include "train/apps/cli/in_processes.h"
#include "train/base/io/durable_file.h"
#include "train/base/io/printable.h"
#include "train/base/log/format.h"
#include "train/base/log/logging.h"
#include "train/base/log/progress.h"
#include "train/heads/analyze/analyze_heads.h"
#include "train/trainer/run/run_facts.h"
#include "train/trainer/run/several_processes.h"
#include "train/trainer/run/stop_signal.h"
#include "train/trainer/task/load_model.h"

namespace moh::cli {

namespace {

struct AnalyzeArgs : CheckpointArgs {
  std::string config;
  std::vector<std::string> sources;  ///< NAME=PATH
  AnalyzeOptions options;
  std::string out;  ///< JSON file; empty: none
  bool overwrite = false;
  std::string dump;  ///< safetensors file; empty: none
  std::int64_t dump_sequences = 16;
  std::vector<std::int64_t> dump_layers;
};

/// The command line, split into overrides of the run and inputs to analyse.
struct Inputs {
  std::vector<std::string> settings;
  std::vector<AnalyzedFiles> files;
};

AnalyzedFiles parse_source(const std::string& text) {
  const std::size_t equals = text.find('=');
  if (equals == std::string::npos || equals == 0 || equals + 1 == text.size())
    throw ConfigError(error_message("--source", "", "NAME=PATH", "'" + printable(text) + "'"));
  return {text.substr(0, equals), {text.substr(equals + 1)}};
}

Inputs inputs_of(const AnalyzeArgs& args) {
  constexpr std::string_view kData = "data=";  // repeated ones form one source
  Inputs inputs;
  AnalyzedFiles data{"data", {}};
  for (const std::string& text : args.overrides) {
    if (text.starts_with(kData))
      data.paths.push_back(text.substr(kData.size()));
    else
      inputs.settings.push_back(text);
  }
  if (!data.paths.empty()) inputs.files.push_back(std::move(data));
  for (const std::string& text : args.sources) {
    AnalyzedFiles source = parse_source(text);
    if (std::ranges::find(inputs.files, source.name, &AnalyzedFiles::name) != inputs.files.end()) {
      throw ConfigError(error_message("--source", "", "names that differ",
                                      "'" + printable(source.name) + "' twice",
                                      "put the texts into one folder to count them together"));
    }
    inputs.files.push_back(std::move(source));
  }
  return inputs;
}

/// The options on which the numbers of the report depend.
SharedFacts options_of(const AnalyzeArgs& args) {
  const AnalyzeOptions& o = args.options;
  const auto joined = [](const std::vector<std::string>& texts) {
    std::string all;
    for (const std::string& text : texts) all += (all.empty() ? "" : " ") + text;
    return all;
  };
  const auto option = [](const char* name, std::string value) {
    return SharedFact{FactKind::kSettings, name, std::move(value)};
  };
  return {option("data=PATH", joined(args.overrides)),
          option("--source", joined(args.sources)),
          option("--max-tokens", std::to_string(o.max_tokens)),
          option("--similarity-tokens", std::to_string(o.similarity_tokens)),
          option("--rank-tolerance", std::to_string(o.rank_tolerance)),
          option("--top-tokens", std::to_string(o.top_tokens)),
          option("--token", joined(o.tokens)),
          option("--text", o.text)};
}

/// A progress line, after `seconds` of analysis.
std::string describe(const AnalyzeProgress& progress, const std::string& unit, double seconds) {
  if (!progress.ranks) return describe_progress("analyze", progress.done, progress.total, unit, seconds);
  return "analyze: ranks of " + std::to_string(progress.done) + " of " + std::to_string(progress.total) +
         " layers";
}

/// Checks the options of a dump, whose layers the model has.
void check_dump(const AnalyzeArgs& args, const Model& model, const Communicator& processes) {
  if (args.dump.empty() && !args.dump_layers.empty())
    throw ConfigError(error_message("--dump-layers", "", "--dump FILE with it", "none"));
  if (args.dump.empty()) return;
  if (processes.size() > 1)
    throw ConfigError(error_message("--dump", "", "one process", std::to_string(processes.size())));
  if (args.dump_sequences < 1)
    throw ConfigError(
        error_message("--dump-sequences", "", "1 or more", std::to_string(args.dump_sequences)));
  const auto layers = static_cast<std::int64_t>(model.routing().size());
  for (auto layer = args.dump_layers.begin(); layer != args.dump_layers.end(); ++layer) {
    const bool twice = std::find(args.dump_layers.begin(), layer, *layer) != layer;
    if (*layer >= 0 && *layer < layers && !twice) continue;
    throw ConfigError(error_message("--dump-layers", "",
                                    "numbers from 0 to " + std::to_string(layers - 1) + ", each once",
                                    std::to_string(*layer) + (twice ? " twice" : "")));
  }
  if (args.dump_layers.empty() && !is_routed(model))
    throw ConfigError(error_message("--dump", "", "a model with routers", "a dense model, which has no gates",
                                    "name layers by --dump-layers"));
  require_replaceable("--dump", args.dump, args.overwrite);
}

WeightFile::Metadata dump_metadata(const HeadReport& report, std::string_view family) {
  std::string sources;
  for (const AnalyzedSource& source : report.sources)
    sources += (sources.empty() ? "" : "\n") + printable(source.name);
  WeightFile::Metadata metadata = {{"model", report.checkpoint},
                                   {"family", std::string(family)},
                                   {"layers", std::to_string(report.layers.size())},
                                   {"source_names", sources}};
  std::string layers;
  for (const AnalyzedLayer& layer : report.model.layer_kinds)
    layers += (layers.empty() ? "" : "\n") + name_of(layer);
  if (!layers.empty()) metadata["layer_names"] = layers;
  return metadata;
}

int analyze_in(const AnalyzeArgs& args, const Families& families, StopSignal& stop, Communicator& processes) {
  const std::shared_ptr<Console> console = console_of(processes, STDERR_FILENO);
  start_logging(console);
  const Inputs inputs = inputs_of(args);
  if (!args.out.empty()) require_replaceable("--out", args.out, args.overwrite);
  const LoadedModel loaded =
      load_model(args.checkpoint, families, inputs.settings, ConfigUse::kModel, processes, args.config);
  begin_together(loaded.config, processes, options_of(args));
  require_same_model(loaded, processes);
  check_dump(args, *loaded.model, processes);
  // Created before the analysis, so that a path that cannot be written is reported at once.
  std::optional<HeadDump> dump;
  if (!args.dump.empty()) dump.emplace(args.dump, args.dump_sequences, args.dump_layers);
  std::optional<DurableFile> file;
  if (!args.out.empty() && processes.is_rank0()) file.emplace(args.out);
  stop.defer();
  const AnalysisInputs analysis =
      loaded.family->analysis_inputs(loaded.config, *loaded.model, inputs.files, args.options);
  require_same(data_facts(analysis.contents), processes);
  std::int64_t tokens = 0;
  for (const AnalyzedSource& source : analysis.sources) tokens += source.available;
  log_info("analyze: sources " + std::to_string(analysis.sources.size()) + ", " + analysis.unit + " " +
           format_count(static_cast<double>(tokens)));
  StatusLine line(*console);
  const auto show = [&](const AnalyzeProgress& progress) {
    line.update([&] {
      return describe(progress, analysis.unit, line.elapsed())
          .substr(0, static_cast<std::size_t>(console->width()));
    });
    return !stop.requested();
  };
  std::optional<HeadReport> report =
      analyze_heads(*loaded.model, analysis, show, processes, dump ? &*dump : nullptr);
  line.finish();
  if (!report) {
    log_info("analyze: stopped by " + std::string(stop.name()) + "; nothing was written");
    return kInterrupted;
  }
  if (!processes.is_rank0()) return kDone;
  report->checkpoint = loaded.path.string();
  if (file) {
    file->write(to_json(*report));
    file->commit();
  }
  if (dump) {
    dump->write(dump_metadata(*report, loaded.model->family()));
    log_info("analyze: " + printable(args.dump) + ": sequences " + std::to_string(dump->sequences()));
  }
  std::cout << "checkpoint       " << printable_path(report->checkpoint) << '\n';
  write_tables(std::cout, *report);
  return kDone;
}

int analyze(const AnalyzeArgs& args, const Families& families) {
  StopSignal stop;
  return in_processes([&](Communicator& processes) { return analyze_in(args, families, stop, processes); });
}

}  // namespace

void add_analyze(const Commands& commands) {
  const auto [command, args] = add_command(
      commands, "analyze",
      "Analyse the attention heads of a checkpoint: load, gates, tokens, similarity, rank", analyze);
  AnalyzeOptions& options = args.options;
  add_checkpoint_and_text(command, args);
  add_description(command, args.config);
  command
      .add_option("--source", args.sources,
                  "Texts, images or sentence pairs under a name, which are analysed separately; repeatable")
      ->type_name("NAME=PATH")
      ->default_str("")
      ->allow_extra_args(false);
  command.add_option("--max-tokens", options.max_tokens,
                     "Tokens to read of each source, spread evenly over it; 0: all");
  command.add_option("--similarity-tokens", options.similarity_tokens,
                     "Tokens, of all sources together, for which heads are compared pairwise");
  command.add_option("--rank-tolerance", options.rank_tolerance,
                     "Singular values above this share of the largest count for the rank");
  command.add_option("--top-tokens", options.top_tokens,
                     "Number of most frequent tokens in the table of tokens");
  command.add_option("--token", options.tokens, "Show this token in the table instead; repeatable")
      ->default_str("")
      ->allow_extra_args(false);
  command.add_option("--text", options.text, "Also show the selected heads of each token of this text");
  command.add_option("--out", args.out, "Write the complete report to this file")->type_name("FILE.json");
  command
      .add_option("--dump", args.dump,
                  "Write gates and selections of all layers to this file, for Python (docs/analyze.md)")
      ->type_name("FILE.safetensors");
  command.add_option("--dump-sequences", args.dump_sequences,
                     "Sequences, images or sentence pairs of --dump");
  command
      .add_option("--dump-layers", args.dump_layers,
                  "Layers of which --dump has x, queries, keys, values and head outputs, too, as 0,5")
      ->delimiter(',')
      ->default_str("")
      ->allow_extra_args(false);
  command.add_flag("--overwrite", args.overwrite, "Replace existing files of --out and --dump");
  command.footer(
      R"(Without data=PATH and --source, the data that the run held out are used. docs/analyze.md explains the numbers,
scripts/plot_heads.py draws them. Ctrl-C ends it with exit code 130 and nothing written.

Examples:
  moh analyze --checkpoint runs/llm/quickstart --out heads.json
  moh analyze --checkpoint runs/llm/quickstart --source code=train --source prose=docs --max-tokens 20000
  moh analyze --checkpoint runs/llm/quickstart data=novel.txt threads=1 --text "Give me a short introduction.")");
}

}  // namespace moh::cli
