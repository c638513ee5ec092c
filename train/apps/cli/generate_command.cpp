#include <CLI/CLI.hpp>
#include <array>
#include <cstdint>
#include <cstdio>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/error.h"
#include "core/parallel.h"
#include "train/apps/cli/commands.h"
#include "train/base/io/input_file.h"
#include "train/base/io/printable.h"
#include "train/base/log/logging.h"
#include "train/families/language/generate_text.h"
#include "train/families/language/language_family.h"

namespace moh::cli {

namespace {

constexpr std::uint64_t kMaxPromptBytes = std::uint64_t{64}
                                          << 20;  // far more than the context length of any model

struct GenerateArgs : PlacementArgs {
  std::string checkpoint;
  std::vector<std::string> prompts;
  std::string prompt_file;  ///< "-": standard input
  GenerateOptions options;
  std::int64_t num_samples = 1;
};

std::string read_standard_input() {
  std::string text;
  std::array<char, 1 << 16> block;
  while (const std::size_t count = std::fread(block.data(), 1, block.size(), stdin)) {
    text.append(block.data(), count);
    if (text.size() > kMaxPromptBytes)
      throw DataError(error_message("standard input", "prompt",
                                    "at most " + std::to_string(kMaxPromptBytes) + " bytes", "more"));
  }
  if (std::ferror(stdin) != 0) throw DataError("standard input: cannot be read");
  return text;
}

std::vector<std::string> prompts_of(const GenerateArgs& args) {
  if (!args.prompts.empty()) return args.prompts;
  if (args.prompt_file.empty())
    throw ConfigError(error_message("generate", "", "--prompt or --prompt-file", "neither"));
  if (args.prompt_file == "-") return {read_standard_input()};
  return {read_text_file(args.prompt_file, InputKind::kData, kMaxPromptBytes)};
}

void print(std::string_view text) {
  std::fwrite(text.data(), 1, text.size(), stdout);
  std::fflush(stdout);
}

/// Why the text has fewer tokens than --tokens; "" if it has not.
std::string_view early_end(TextEnd end) {
  switch (end) {
    case TextEnd::kTokens:
    case TextEnd::kInterrupted:
      return "";
    case TextEnd::kEndOfDocument:
      return "; the model ended the document";
    case TextEnd::kStop:
      return "; ended at a text of --stop";
  }
  fail_check(__FILE__, __LINE__, "end", "unknown TextEnd");
}

void log_report(const GenerateReport& report) {
  char line[96];
  const double speed = report.seconds > 0 ? static_cast<double>(report.new_tokens) / report.seconds : 0;
  std::snprintf(line, sizeof line, "%lld tokens, %.1f tokens/s", static_cast<long long>(report.new_tokens),
                speed);
  if (report.new_tokens > 0) log_info(std::string(line).append(early_end(report.end)));
}

/// The line above a text where there are several; "" for the only one.
std::string heading(const GenerateArgs& args, std::size_t prompt, std::int64_t sample, std::uint64_t seed) {
  if (args.prompts.size() <= 1 && args.num_samples == 1) return "";
  const std::string of_prompt = args.prompts.size() <= 1 ? "" : "prompt " + std::to_string(prompt + 1) + ", ";
  return "--- " + of_prompt + "sample " + std::to_string(sample) + ", --seed " + std::to_string(seed) +
         " ---\n";
}

/// Prints a continued prompt, after `heading`.
void continue_prompt(const LanguageModel& model, const std::string& prompt, const GenerateOptions& options,
                     const std::string& heading) {
  Utf8Stream safe;
  const std::string shown_prompt = safe.push(prompt) + safe.finish();
  // The prompt is printed with the first piece of text, when the arguments have been checked.
  bool prompt_is_shown = false;
  const auto show = [&](std::string_view text) {
    if (!std::exchange(prompt_is_shown, true)) print(heading + shown_prompt);
    print(text);
  };
  const GenerateReport report = generate_text(model.model, *model.tokenizer, prompt, options, show);
  print("\n");
  log_report(report);
}

/// The beginning of a message about a prompt: where the prompt comes from.
std::string source_of(const GenerateArgs& args, std::size_t prompt) {
  if (args.prompt_file == "-") return "standard input: ";
  if (!args.prompt_file.empty()) return printable_path(args.prompt_file) + ": ";
  return args.prompts.size() <= 1 ? "" : "prompt " + std::to_string(prompt + 1) + ": ";
}

int generate(const GenerateArgs& args, const Families& families) {
  if (args.num_samples < 1)
    throw ConfigError(error_message("--num-samples", "", "1 or more", std::to_string(args.num_samples)));
  set_num_threads(args.threads);
  const std::vector<std::string> prompts = prompts_of(args);
  const LoadedModel loaded = load_model(args.checkpoint, families, args.settings());
  const LanguageModel model = as_language_model(loaded, "generate");
  for (std::size_t i = 0; i < prompts.size(); ++i) {
    GenerateOptions options = args.options;
    options.ends = model.ends;
    try {
      for (std::int64_t sample = 1; sample <= args.num_samples; ++sample, ++options.seed)
        continue_prompt(model, prompts[i], options, heading(args, i, sample, options.seed));
    } catch (const DataError& error) {
      throw DataError(source_of(args, i) + error.what());
    }
  }
  return kDone;
}

}  // namespace

void add_generate(const Commands& commands) {
  const auto [command, args] =
      add_command(commands, "generate", "Continue a text with a trained model", generate);
  add_checkpoint(command, args.checkpoint);
  CLI::Option* prompt = command.add_option("--prompt", args.prompts, "Text to continue; repeatable")
                            ->default_str("")
                            ->allow_extra_args(false);
  command.add_option("--prompt-file", args.prompt_file, "File with the text to continue; -: standard input")
      ->type_name("FILE")
      ->excludes(prompt);
  command.add_option("--tokens", args.options.tokens, "Maximum number of new tokens");
  command.add_option("--temperature", args.options.pick.temperature,
                     "Divides the logits; 0: always the most probable token");
  command.add_option("--top-k", args.options.pick.top_k,
                     "Sample from the k most probable tokens only; 0: all");
  command.add_option("--top-p", args.options.pick.top_p,
                     "Sample from the most probable tokens whose probabilities sum to this");
  command.add_option("--seed", args.options.seed, "Seed of the sampling");
  command.add_option("--stop", args.options.stop, "Stop before this text; repeatable")
      ->type_name("TEXT")
      ->default_str("")
      ->allow_extra_args(false);
  command.add_option("--num-samples", args.num_samples,
                     "Number of texts per prompt; each uses the next --seed");
  add_placement(command, args);
  command.footer(
      R"(A text ends after --tokens, at --stop, or where the model ends the document; a line on stderr reports which.

Examples:
  moh generate --checkpoint runs/llm/quickstart --prompt "The licence"
  moh generate --checkpoint runs/llm/quickstart --prompt "The" --tokens 500 --temperature 0.8 --top-p 0.95 --seed 7
  echo -n "def " | moh generate --checkpoint runs/llm/quickstart --prompt-file - --stop "def " --num-samples 3)");
}

}  // namespace moh::cli
