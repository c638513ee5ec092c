#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "train/base/http/http_server.h"

namespace moh::watch {

/// A page about runs, for a browser: see docs/watch.md.
class WatchServer {
 public:
  /// Listens from now on. Throws DataError if a path has no run, ConfigError if the address cannot be
  /// listened at, ValueError for options out of range.
  WatchServer(std::vector<std::filesystem::path> paths, const HttpOptions& options);
  ~WatchServer();

  /// "http://127.0.0.1:8010".
  std::string address() const;

 private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

}  // namespace moh::watch
