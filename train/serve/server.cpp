#include "train/serve/server.h"

#include <chrono>
#include <thread>

#include "core/error.h"
#include "train/log/progress.h"
#include "train/serve/api.h"

namespace moh {

namespace {

void pause() {
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
}

const ServeOptions& checked(const ServeOptions& options) {
  const auto require = [](bool holds, const char* what, const char* expected, const std::string& found) {
    if (!holds) throw ValueError(error_message("serve", what, expected, found));
  };
  const HttpOptions& http = options.http;
  require(http.port >= 0 && http.port <= 65535, "--port", "0 to 65535", std::to_string(http.port));
  require(http.max_connections >= 1 && http.max_connections <= 10000, "--max-connections", "1 to 10000",
          std::to_string(http.max_connections));
  require(http.limits.body_bytes >= 1, "--max-body", "1 byte or more",
          std::to_string(http.limits.body_bytes));
  require(http.limits.request_seconds > 0, "--request-timeout", "above 0 s",
          std::to_string(http.limits.request_seconds));
  require(options.drain_seconds >= 0, "--drain", "0 s or more", std::to_string(options.drain_seconds));
  require(!options.model.empty(), "--name", "a name", "none");
  return options;
}

}  // namespace

struct Server::Parts {
  Parts(const LanguageModel& model, const ServeOptions& given)
      : options(checked(given)),
        text(*model.tokenizer),
        rules{text, model.ends},
        engine(model.model, rules, options.engine, metrics),
        api(engine, text, {options.model, model.model.config().max_positions}, metrics),
        http(
            options.http, [this](const HttpRequest& request) { return api.answer(request); }, metrics) {}

  const ServeOptions options;
  ServerMetrics metrics;
  TokenText text;
  TextRules rules;
  Engine engine;
  Api api;
  HttpServer http;
};

Server::Server(const LanguageModel& model, const ServeOptions& options)
    : parts_(std::make_unique<Parts>(model, options)) {}

Server::~Server() = default;

std::string Server::address() const {
  const std::string& host = parts_->options.http.host;
  const bool is_v6 = host.find(':') != std::string::npos;
  return "http://" + (is_v6 ? "[" + host + "]" : host) + ":" + std::to_string(parts_->http.port());
}

bool Server::run(FunctionRef<bool()> stop) {
  Parts& parts = *parts_;
  std::thread accepting([&] { parts.http.run(); });
  while (!stop()) pause();
  parts.api.drain();
  parts.engine.close();
  parts.http.drain();
  const double end = monotonic_seconds() + parts.options.drain_seconds;
  while (parts.metrics.connections > 0 && monotonic_seconds() < end) pause();
  const bool finished = parts.metrics.connections == 0;
  parts.engine.stop();
  constexpr double kLastWords = 1;  // for answers that say so
  while (parts.metrics.connections > 0 && monotonic_seconds() < end + kLastWords) pause();
  parts.http.stop();
  accepting.join();
  return finished;
}

}  // namespace moh
