#include <unistd.h>
#include <CLI/CLI.hpp>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <iostream>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "core/error.h"
#include "core/parallel.h"
#include "train/apps/cli/commands.h"
#include "train/apps/eval/translation_report.h"
#include "train/base/io/durable_file.h"
#include "train/base/io/printable.h"
#include "train/base/log/logging.h"
#include "train/base/log/progress.h"
#include "train/families/translation/data/text_lines.h"
#include "train/families/translation/decode/translate_text.h"
#include "train/families/translation/translation_data.h"
#include "train/trainer/task/load_model.h"
#include "train/trainer/task/stored_model.h"

namespace moh::cli {

namespace {

struct TranslateArgs : PlacementArgs {
  std::string checkpoint, input = "-", early_stopping = "no";
  std::filesystem::path output;  ///< empty: standard output
  std::filesystem::path references;
  TranslateTextOptions options;
  bool held_out = false, overwrite = false, json = false;
};

/// The lines of standard input.
std::vector<std::string> standard_input_lines() {
  constexpr std::size_t kMostBytes = std::size_t{1} << 30;
  std::vector<std::string> lines;
  std::size_t bytes = 0;
  for (std::string line; std::getline(std::cin, line); lines.push_back(std::move(line))) {
    bytes += line.size();
    if (line.size() > TextLines::kMaxLineBytes || bytes > kMostBytes)
      throw DataError(error_message("standard input:" + std::to_string(lines.size() + 1), "",
                                    "lines of at most " + std::to_string(TextLines::kMaxLineBytes) +
                                        " bytes, and " + std::to_string(kMostBytes) + " in all",
                                    "more"));
  }
  if (std::cin.bad()) throw DataError("standard input: cannot be read");
  return lines;
}

std::vector<std::string> lines_of(const std::string& input) {
  if (input == "-") return standard_input_lines();
  std::vector<std::string> lines;
  TextLines file(input);
  for (std::string line; file.next(line);) lines.push_back(line);
  return lines;
}

/// Standard output, or a file that is complete once commit() has been called.
class Output {
 public:
  Output(const char* option, const std::filesystem::path& path, bool overwrite) {
    if (path.empty()) return;
    require_replaceable(option, path, overwrite);
    file_.emplace(path);
  }

  void write(const std::string& text) {
    if (file_) return file_->write(text);
    std::cout << text << std::flush;
  }
  void commit() {
    if (file_) file_->commit();
  }

 private:
  std::optional<DurableFile> file_;
};

/// The sources of the held-out pairs, whose targets are the references.
std::vector<std::string> held_out_lines(const TranslateArgs& args, const RunConfig& run) {
  std::vector<std::string> lines;
  std::string references;
  for (TextPair& pair : held_out_text(run)) {
    references += pair.target + "\n";
    lines.push_back(std::move(pair.source));
  }
  if (args.references.empty()) return lines;
  Output file("--references", args.references, args.overwrite);
  file.write(references);
  file.commit();
  return lines;
}

std::string place_of(const TranslateArgs& args) {
  if (args.held_out) return "held-out pairs";
  return args.input == "-" ? "standard input" : printable_path(args.input);
}

std::string words_of(const TranslateArgs& args, const TranslatedLine& line) {
  if (args.json) return json_line(line);
  return args.options.n_best > 1 ? n_best_lines(line) : text_line(line);
}

TranslateTextOptions options_of(const TranslateArgs& args) {
  TranslateTextOptions options = args.options;
  if (args.early_stopping == "yes") options.search.beam.early_stopping = EarlyStopping::kYes;
  if (args.early_stopping == "never") options.search.beam.early_stopping = EarlyStopping::kNever;
  return options;
}

int translate(const TranslateArgs& args, const Families& families) {
  set_num_threads(args.threads);
  Output output("--output", args.output, args.overwrite);
  std::vector<std::string> lines;
  if (!args.held_out) lines = lines_of(args.input);
  StoredModel stored(args.checkpoint, families);
  const std::vector<std::string> settings =
      args.held_out ? evaluation_settings(args.settings(), stored.family()) : args.settings();
  const LoadedModel loaded = load_model(std::move(stored), settings, ConfigUse::kModel, one_process());
  const TrainedTranslation model = as_translation(loaded, "translate");
  if (args.held_out) lines = held_out_lines(args, loaded.config);
  Console console(STDERR_FILENO);
  StatusLine status(console);
  std::int64_t number = 0;
  translate_text(
      model, lines, place_of(args), options_of(args),
      [&](std::span<const TranslatedText> translations) {
        status.finish();
        const std::string& source = lines[static_cast<std::size_t>(number)];
        output.write(words_of(args, {++number, source, translations}));
      },
      [&](std::int64_t done) {
        status.update([&] {
          return describe_progress("translating", done, std::ssize(lines), "lines", status.elapsed());
        });
      });
  status.finish();
  output.commit();
  return kDone;
}

}  // namespace

void add_translate(const Commands& commands) {
  const auto [command, args] =
      add_command(commands, "translate", "Translate text with a trained model", translate);
  TranslateTextOptions& options = args.options;
  BeamOptions& beam = options.search.beam;
  add_checkpoint(command, args.checkpoint);
  CLI::Option& input = *command
                            .add_option("--input", args.input,
                                        "Text to translate, a sentence on each line, plain or compressed "
                                        "(.gz, .zst); -: standard input")
                            ->type_name("FILE");
  CLI::Option& held_out =
      *command
           .add_flag("--held-out", args.held_out,
                     "Translate the sources of the pairs that the run holds out, or of data=PATH")
           ->excludes(&input);
  command.add_option("--references", args.references, "File for the targets of the held-out pairs")
      ->type_name("FILE")
      ->needs(&held_out);
  command.add_option("--output", args.output, "File for the translations; default: standard output")
      ->type_name("FILE")
      ->default_str("");
  command.add_flag("--overwrite", args.overwrite, "Replace the files of --output and --references");
  command.add_option("--beam", beam.beams, "Number of beams; 1: greedy");
  command.add_option("--length-penalty", beam.length_penalty,
                     "Exponent of the length in a translation's score: log probability / length ^ PENALTY");
  command
      .add_option("--early-stopping", args.early_stopping,
                  "End the search when it has as many translations as beams: yes; if also none that goes on "
                  "can become better, by its score at its present length: no; or at the greatest: never")
      ->check(CLI::IsMember({"yes", "no", "never"}));
  command.add_option("--max-length", options.search.max_length,
                     "Greatest number of tokens of a translation, its end included; 0: those of the source "
                     "and " +
                         std::to_string(kLengthMargin));
  command.add_option("--n-best", options.n_best,
                     "Number of translations of each line, at most --beam; from 2 on printed as \"LINE ||| "
                     "TEXT ||| SCORE\", lines counted from 0");
  command.add_option("--batch-tokens", options.batch_tokens,
                     "Source tokens that are translated together; changes rounding alone");
  command.add_flag("--json", args.json, "Print a JSON object for each line");
  add_placement(command, args);
  command.footer(
      R"(Lines are printed in the order of the input, after each 1024. An empty line stays one. A signal ends the command at once;
a file appears when it is complete.

Examples:
  moh translate --checkpoint runs/translation/quickstart --input test.en --output test.de.txt --beam 4 --length-penalty 0.6
  echo "The file cannot be opened." | moh translate --checkpoint runs/translation/quickstart
  moh translate --checkpoint runs/translation/quickstart --held-out --references held_out.de --output held_out.de.txt
  moh translate --checkpoint opus-mt-en-de --input test.en --n-best 4 --json)");
}

}  // namespace moh::cli
