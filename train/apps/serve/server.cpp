#include "train/apps/serve/server.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <thread>
#include <utility>

#include "core/error.h"
#include "train/apps/serve/api.h"
#include "train/base/io/printable.h"
#include "train/base/log/logging.h"
#include "train/base/log/progress.h"

namespace moh {

namespace {

void pause() {
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
}

/// The ids of as many prompts as may wait, with their commas; a text of one prompt needs less.
std::size_t needed_body_bytes(const EngineOptions& engine, const LlamaConfig& model) {
  constexpr std::size_t kBytesOfToken = 8, kLeast = 1 << 20, kMost = 16 << 20;
  const double needed = static_cast<double>(kBytesOfToken) * static_cast<double>(engine.max_queue) *
                        static_cast<double>(model.max_positions);
  return needed >= kMost ? kMost : std::max(static_cast<std::size_t>(std::max(needed, 0.0)), kLeast);
}

ServeOptions checked(ServeOptions options, const LlamaConfig& model) {
  constexpr double kMostSeconds = 1e6;
  const auto require = [](bool holds, const char* what, const char* expected, const std::string& found) {
    if (!holds) throw ValueError(error_message("serve", what, expected, found));
  };
  HttpOptions& http = options.http;
  require(http.port >= 0 && http.port <= 65535, "--port", "0 to 65535", std::to_string(http.port));
  require(http.max_connections >= 1 && http.max_connections <= 10000, "--max-connections", "1 to 10000",
          std::to_string(http.max_connections));
  const double arrival = http.limits.request_seconds;
  require(arrival > 0 && arrival <= kMostSeconds, "--request-timeout", "above 0 s, up to 1000000 s",
          std::to_string(arrival));
  require(options.drain_seconds >= 0 && options.drain_seconds <= kMostSeconds, "--drain", "0 s to 1000000 s",
          std::to_string(options.drain_seconds));
  require(!options.model.empty(), "--name", "a name", "none");
  const bool sendable = std::ranges::all_of(options.key, [](char c) { return c > ' ' && c < '\x7f'; });
  require(sendable, "--api-key", "printable ASCII without spaces", "other characters");
  if (http.limits.body_bytes == 0) http.limits.body_bytes = needed_body_bytes(options.engine, model);
  return options;
}

/// One line of the log, and a sample, for each request.
void report(const AnsweredRequest& request, ServerMetrics& metrics) {
  char seconds[32];
  std::snprintf(seconds, sizeof seconds, "%.3f s", request.seconds);
  const std::string what =
      request.method.empty() ? "a request that was not read" : request.method + " " + request.path;
  const std::string line =
      printable(what, 200) + ": " + std::to_string(request.status) + ", " + request.note + seconds;
  if (request.arrived) {
    metrics.answered(Api::label_of(request.path), request.status, request.seconds);
    log_info(line);
  } else {
    metrics.refused(request.status);
    log_debug(line);
  }
}

}  // namespace

struct Server::Parts {
  Parts(const LanguageModel& model, const ServeOptions& given)
      : options(checked(given, model.model.config())),
        text(*model.tokenizer),
        chat(text, model.message_template),
        rules{text, model.ends},
        engine(model.model, rules, options.engine, metrics),
        api(engine, text, chat,
            {options.model,
             model.model.config().max_positions,
             {.prompts = options.engine.max_queue, .prompt_tokens = model.model.config().max_positions},
             options.key},
            metrics),
        http(
            options.http, [this](const HttpRequest& request) { return api.answer(request); },
            [this](const AnsweredRequest& request) { report(request, metrics); }, metrics.connections) {}
  ~Parts() { engine.stop(); }  // its texts wake connections
  Parts(const Parts&) = delete;
  Parts& operator=(const Parts&) = delete;

  const ServeOptions options;
  ServerMetrics metrics;
  TokenText text;
  ChatTemplate chat;
  TextRules rules;
  Engine engine;
  Api api;
  HttpServer http;
};

Server::Server(const LanguageModel& model, const ServeOptions& options)
    : parts_(std::make_unique<Parts>(model, options)) {
  if (!parts_->chat.fault().empty()) log_info("no chats: " + printable(parts_->chat.fault(), 400));
}

Server::~Server() = default;

std::string Server::address() const {
  return parts_->http.address();
}

bool Server::run(FunctionRef<bool()> stop) {
  Parts& parts = *parts_;
  while (!stop()) pause();
  parts.api.drain();
  parts.engine.close();
  parts.http.drain();
  const double end = monotonic_seconds() + parts.options.drain_seconds;
  while (parts.metrics.connections.open > 0 && monotonic_seconds() < end) pause();
  const bool finished = parts.metrics.connections.open == 0;
  parts.engine.stop();
  constexpr double kLastWords = 1;  // for answers that say so
  while (parts.metrics.connections.open > 0 && monotonic_seconds() < end + kLastWords) pause();
  return finished;
}

}  // namespace moh
