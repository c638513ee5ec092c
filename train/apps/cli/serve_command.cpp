#include <CLI/CLI.hpp>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/error.h"
#include "core/parallel.h"
#include "train/apps/cli/commands.h"
#include "train/apps/serve/server.h"
#include "train/base/log/format.h"
#include "train/base/log/logging.h"
#include "train/families/language/language_family.h"
#include "train/trainer/run/stop_signal.h"

namespace moh::cli {

namespace {

struct ServeArgs : PlacementArgs {
  std::string checkpoint;
  ServeOptions options;
  std::optional<std::int64_t> max_body_mib;
  std::string prefix_cache = "1GiB";
};

std::int64_t prefix_bytes_of(const std::string& text) {
  if (text == "0") return 0;
  if (const std::optional<std::int64_t> bytes = parse_bytes(text)) return *bytes;
  throw ConfigError(
      error_message("--prefix-cache", "", "a size such as 2GB or 500MiB, or 0 for none", "'" + text + "'"));
}

int serve(const ServeArgs& args, const Families& families) {
  StopSignal signal;
  set_num_threads(args.threads);
  ServeOptions options = args.options;
  options.engine.prefix_bytes = prefix_bytes_of(args.prefix_cache);
  const LoadedModel loaded = load_model(args.checkpoint, families, args.settings());
  const LanguageModel model = as_language_model(loaded, "serve");
  options.http.limits.body_bytes = static_cast<std::size_t>(args.max_body_mib.value_or(0)) << 20;
  Server server(model, options);
  signal.defer();  // before the line that others wait for
  log_info("serving " + loaded.path.string() + " as '" + options.model + "' at " + server.address());
  bool announced = false;
  const bool finished = server.run([&] {
    if (!signal.requested()) return false;
    if (!std::exchange(announced, true))
      log_info("received " + std::string(signal.name()) + ": finishing the requests that have begun");
    return true;
  });
  if (finished) {
    log_info("all requests are answered");
  } else {
    log_warning("requests were still running after --drain " + std::to_string(options.drain_seconds) +
                " s, and were ended with an error");
  }
  return kDone;
}

}  // namespace

void add_serve(const Commands& commands) {
  const auto [command, args] = add_command(
      commands, "serve", "Serve a language model over HTTP, as OpenAI's API of completions and chats", serve);
  ServeOptions& options = args.options;
  add_checkpoint(command, args.checkpoint);
  command.add_option("--host", options.http.host, "Address to listen at; 0.0.0.0: all, for other machines");
  command.add_option("--port", options.http.port, "Port to listen at; 0: any free one, which is logged");
  command.add_option("--name", options.model, "Name of the model for clients");
  command
      .add_option(
          "--api-key", options.key,
          "Key that clients have to give as 'Authorization: Bearer KEY'; others can read it in the list of "
          "processes, but not in the variable")
      ->envname("MOH_API_KEY");
  command.add_option("--max-batch", options.engine.max_batch, "Texts that are computed together");
  command.add_option("--max-queue", options.engine.max_queue,
                     "Texts that may wait; further requests are answered with 503");
  command.add_option(
      "--cache-tokens", options.engine.cache_tokens,
      "Tokens of the KV caches of all texts together; 0: --max-batch times the model's positions");
  command.add_option(
      "--prefix-cache", args.prefix_cache,
      "Memory for what prompts began with, such as 500MiB: prompts that begin alike are computed "
      "from where they differ; 0: none");
  command.add_option("--max-connections", options.http.max_connections,
                     "Open connections; further ones are answered with 503");
  command
      .add_option("--max-body", args.max_body_mib,
                  "Largest body of a request in MiB; by default enough for prompts of the model's positions, "
                  "1 to 16")
      ->check(CLI::Range(1, 4096));
  command.add_option("--request-timeout", options.http.limits.request_seconds,
                     "Seconds in which a request has to arrive");
  command.add_option("--drain", options.drain_seconds,
                     "Seconds in which requests may end after a signal to stop");
  add_placement(command, args);
  command.footer(
      R"(Ctrl-C and SIGTERM finish the requests that have begun; a second signal ends the process at once.

Examples:
  moh serve --checkpoint runs/llm/quickstart --port 8000
  curl http://127.0.0.1:8000/v1/completions -H 'Content-Type: application/json' -d '{"prompt": "The licence", "max_tokens": 20}'
  curl http://127.0.0.1:8000/v1/chat/completions -H 'Content-Type: application/json' -d '{"messages": [{"role": "user", "content": "Who may copy it?"}]}'
  lm_eval --model local-completions --tasks hellaswag --model_args model=moh,base_url=http://127.0.0.1:8000/v1/completions)");
}

}  // namespace moh::cli
