#include "train/apps/watch/watch_server.h"

#include <utility>

#include "core/error.h"
#include "train/apps/watch/watch_api.h"
#include "train/apps/watch/watched_runs.h"
#include "train/base/io/printable.h"
#include "train/base/log/logging.h"

namespace moh::watch {

namespace {

/// The page sends no bodies.
HttpOptions checked(HttpOptions options) {
  if (options.port < 0 || options.port > 65535)
    throw ValueError(error_message(options.command, "--port", "0 to 65535", std::to_string(options.port)));
  options.limits.body_bytes = 1 << 10;
  return options;
}

void report(const AnsweredRequest& request) {
  log_debug(printable(request.method + " " + request.path, 200) + ": " + std::to_string(request.status));
}

}  // namespace

struct WatchServer::Parts {
  Parts(std::vector<std::filesystem::path> paths, const HttpOptions& given)
      : runs(std::move(paths)),
        api(runs, given.host),
        http(
            checked(given), [this](const HttpRequest& request) { return api.answer(request); }, report,
            connections) {}

  ConnectionCounts connections;
  WatchedRuns runs;
  WatchApi api;
  HttpServer http;
};

WatchServer::WatchServer(std::vector<std::filesystem::path> paths, const HttpOptions& options)
    : parts_(std::make_unique<Parts>(std::move(paths), options)) {}

WatchServer::~WatchServer() = default;

std::string WatchServer::address() const {
  return parts_->http.address();
}

}  // namespace moh::watch
