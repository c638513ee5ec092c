#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <iostream>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/error.h"
#include "core/parallel.h"
#include "train/cli/commands.h"
#include "train/cli/exit_code.h"
#include "train/io/durable_file.h"
#include "train/io/printable.h"
#include "train/metrics/format.h"
#include "train/metrics/logging.h"
#include "train/metrics/progress.h"
#include "train/tasks/language_model.h"
#include "train/tasks/load_language_model.h"
#include "train/trainer/stop_signal.h"

namespace moh::cli {

namespace {

constexpr std::string_view kData = "data=";

/// What was named on the command line: settings of the run, and texts.
struct Inputs {
  std::vector<std::string> settings;
  std::vector<std::string> data;  ///< paths of data=PATH
};

Inputs split_inputs(const std::vector<std::string>& overrides) {
  Inputs inputs;
  for (const std::string& text : overrides) {
    if (text.starts_with(kData)) {
      inputs.data.push_back(text.substr(kData.size()));
    } else {
      inputs.settings.push_back(text);
    }
  }
  return inputs;
}

struct NamedPath {
  std::string name, path;
};

NamedPath parse_source(const std::string& text) {
  const std::size_t equals = text.find('=');
  if (equals == std::string::npos || equals == 0 || equals + 1 == text.size())
    throw ConfigError(error_message("--source", "", "NAME=PATH", "'" + printable(text) + "'"));
  return {text.substr(0, equals), text.substr(equals + 1)};
}

/// The texts to analyse; the one that the run held out when none is named.
std::vector<AnalysisSource> open_sources(const AnalyzeArgs& args, const std::vector<std::string>& data,
                                         const LanguageModel& loaded) {
  std::vector<AnalysisSource> sources;
  if (!data.empty()) sources.push_back({"data", open_text(data, *loaded.tokenizer)});
  for (const std::string& text : args.sources) {
    const NamedPath source = parse_source(text);
    const auto same_name = [&](const AnalysisSource& other) { return other.name == source.name; };
    if (std::ranges::any_of(sources, same_name)) {
      throw ConfigError(error_message("--source", "", "names that differ",
                                      "'" + printable(source.name) + "' twice",
                                      "put the texts into one folder to count them together"));
    }
    sources.push_back({source.name, open_text(std::vector{source.path}, *loaded.tokenizer)});
  }
  if (sources.empty())
    sources.push_back({"validation", open_held_out_text(loaded.config, *loaded.tokenizer)});
  return sources;
}

/// The file of the report, made before the long work begins, so that a place that cannot be written is told
/// of at once. It appears when all is done.
std::unique_ptr<DurableFile> create_report(const std::filesystem::path& path) {
  if (path.empty()) return nullptr;
  if (std::filesystem::is_directory(path))
    throw ConfigError(error_message("--out", "", "a file to write", "the folder " + path.string()));
  return std::make_unique<DurableFile>(path);
}

/// How far the analysis is, after `seconds`.
std::string describe(const AnalyzeProgress& progress, double seconds) {
  const std::string of = format_count(static_cast<double>(progress.done)) + " of " +
                         format_count(static_cast<double>(progress.total));
  if (progress.ranks) return "analyze: ranks of " + of + " layers";
  const double left =
      seconds * static_cast<double>(progress.total - progress.done) / static_cast<double>(progress.done);
  return "analyze: " + of + " tokens, " + format_duration(left) + " left";
}

void announce(const std::vector<AnalysisSource>& sources) {
  std::int64_t tokens = 0;
  for (const AnalysisSource& source : sources) tokens += source.tokens->size();
  log_info("analyze: sources " + std::to_string(sources.size()) + ", tokens " +
           format_count(static_cast<double>(tokens)));
}

}  // namespace

int analyze(const AnalyzeArgs& args) {
  StopSignal stop;
  const auto console = std::make_shared<Console>(STDERR_FILENO);
  start_logging(console);
  const Inputs inputs = split_inputs(args.overrides);
  const LanguageModel loaded = load_language_model(args.checkpoint, inputs.settings);
  set_num_threads(static_cast<int>(loaded.config.threads));
  const std::vector<AnalysisSource> sources = open_sources(args, inputs.data, loaded);
  const std::unique_ptr<DurableFile> file = create_report(args.out);
  AnalyzeOptions options = args.options;
  options.sequence_length = loaded.config.data.sequence_length;
  options.batch_size = loaded.config.train.batch_size;
  stop.defer();
  announce(sources);
  StatusLine line(*console);
  std::optional<HeadReport> report =
      analyze_heads(*loaded.model, *loaded.tokenizer, sources, options, [&](const AnalyzeProgress& progress) {
        line.update([&] {
          return describe(progress, line.elapsed()).substr(0, static_cast<std::size_t>(console->width()));
        });
        return !stop.requested();
      });
  line.finish();
  if (!report) {
    log_info("analyze: stopped by " + std::string(stop.name()) + "; nothing was written");
    return kInterrupted;
  }
  report->checkpoint = loaded.folder.string();
  if (file) {
    file->write(to_json(*report));
    file->commit();
  }
  std::cout << "checkpoint       " << report->checkpoint << '\n';
  write_tables(std::cout, *report);
  return kDone;
}

}  // namespace moh::cli
