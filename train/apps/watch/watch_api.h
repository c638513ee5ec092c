#pragma once

#include <string>
#include <string_view>

#include "train/apps/watch/watched_runs.h"
#include "train/base/http/http_connection.h"

namespace moh::watch {

/// Answers the requests of a browser: the page, the list of runs, curves, heads and files of runs.
class WatchApi {
 public:
  /// `host`: the address that the server listens at, as it was given. `runs` must outlive the object.
  WatchApi(WatchedRuns& runs, std::string host) : runs_(runs), host_(std::move(host)) {}

  /// Throws RequestError. A Host header that is neither an address, localhost nor `host` is refused with 403:
  /// the page of another site, whose name has been given this machine's address, must not read runs.
  HttpReply answer(const HttpRequest& request);

 private:
  HttpReply list() const;
  HttpReply curves(std::string_view query);
  HttpReply heads(std::string_view query);
  HttpReply files(std::string_view query) const;
  HttpReply file(std::string_view path) const;

  WatchedRuns& runs_;
  const std::string host_;
};

/// Whether a Host header, with or without port, names a server at `host` without DNS, which others could
/// control: by an address, "localhost" or `host` itself.
bool is_own_host(std::string_view header, std::string_view host);

}  // namespace moh::watch
