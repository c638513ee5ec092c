#include <CLI/CLI.hpp>
#include <cstdio>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/parallel.h"
#include "train/cli/commands.h"
#include "train/log/logging.h"
#include "train/tasks/language/generate_text.h"
#include "train/tasks/language/language_family.h"

namespace moh::cli {

namespace {

struct GenerateArgs {
  std::string checkpoint;
  std::string prompt;
  GenerateOptions options;
  std::int64_t threads = 0;
  std::string device;  ///< empty: that of the training run
};

int generate(const GenerateArgs& args, const Families& families) {
  set_num_threads(args.threads);
  std::vector<std::string> overrides;
  if (!args.device.empty()) overrides.push_back("device=" + args.device);
  if (args.device == "cpu") overrides.emplace_back("tf32=false");
  const LoadedModel loaded = load_model(args.checkpoint, families, overrides);
  const auto& [model, tokenizer] = as_language_model(loaded, "generate");
  const auto print = [](std::string_view text) {
    std::fwrite(text.data(), 1, text.size(), stdout);
    std::fflush(stdout);
  };
  // With the first piece, when the arguments have turned out to be in order.
  bool prompt_is_shown = false;
  const auto show = [&](std::string_view text) {
    if (!std::exchange(prompt_is_shown, true)) print(args.prompt);
    print(text);
  };
  const GenerateReport report = generate_text(model, *tokenizer, args.prompt, args.options, show);
  print("\n");
  if (report.seconds > 0) {
    char line[96];
    std::snprintf(line, sizeof line, "%lld tokens, %.1f tokens/s", static_cast<long long>(report.new_tokens),
                  static_cast<double>(report.new_tokens) / report.seconds);
    log_info(line);
  }
  return kDone;
}

}  // namespace

void add_generate(const Commands& commands) {
  const auto [command, args] =
      add_command(commands, "generate", "Continue a text with a trained model", generate);
  add_checkpoint(command, args.checkpoint);
  command.add_option("--prompt", args.prompt, "Text to continue")->required();
  command.add_option("--tokens", args.options.tokens, "New tokens at most");
  command.add_option("--temperature", args.options.pick.temperature, "0: always the most probable token");
  command.add_option("--top-k", args.options.pick.top_k, "Only the k most probable tokens; 0: all");
  command.add_option("--top-p", args.options.pick.top_p,
                     "Only the most probable tokens that hold this probability");
  command.add_option("--seed", args.options.seed, "Of the random choice");
  command.add_option("--threads", args.threads, "0: all processors");
  command.add_option("--device", args.device, "cpu, cuda or cuda:N; by default that of the training run");
  command.footer(R"(Examples:
  moh generate --checkpoint runs/quickstart --prompt "The licence"
  moh generate --checkpoint runs/quickstart --prompt "The" --tokens 500 --temperature 0.8 --top-p 0.95 --seed 7)");
}

}  // namespace moh::cli
