#include <cstdio>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/parallel.h"
#include "train/cli/commands.h"
#include "train/cli/exit_code.h"
#include "train/generate/generate_text.h"
#include "train/metrics/logging.h"
#include "train/tasks/load_language_model.h"

namespace moh::cli {

int generate(const GenerateArgs& args) {
  set_num_threads(static_cast<int>(args.threads));
  std::vector<std::string> overrides;
  if (!args.device.empty()) overrides.push_back("device=" + args.device);
  if (args.device == "cpu") overrides.emplace_back("tf32=false");
  const LanguageModel loaded = load_language_model(args.checkpoint, overrides);
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
  const GenerateReport report =
      generate_text(*loaded.model, *loaded.tokenizer, args.prompt, {args.tokens, args.pick, args.seed}, show);
  print("\n");
  if (report.seconds > 0) {
    char line[96];
    std::snprintf(line, sizeof line, "%lld tokens, %.1f tokens/s", static_cast<long long>(report.new_tokens),
                  static_cast<double>(report.new_tokens) / report.seconds);
    log_info(line);
  }
  return kDone;
}

}  // namespace moh::cli
