#pragma once

#include <memory>
#include <string>

#include "core/function_ref.h"
#include "train/apps/serve/engine.h"
#include "train/base/http/http_server.h"
#include "train/families/language/language_family.h"

namespace moh {

struct ServeOptions {
  HttpOptions http;  ///< limits.body_bytes 0: what prompts of the model's positions can need, 1 to 16 MiB
  EngineOptions engine;
  std::string model = "moh";  ///< the name that clients give
  std::string key;            ///< that clients have to give; empty: none
  double drain_seconds = 30;  ///< how long requests may take to end once the server stops
};

/// A language model behind HTTP: see docs/serve.md.
class Server {
 public:
  /// Listens from now on. `model` must outlive the server. Throws ConfigError and Error as HttpServer does,
  /// ValueError for options out of range.
  Server(const LanguageModel& model, const ServeOptions& options);
  ~Server();

  /// "http://127.0.0.1:8000".
  std::string address() const;
  /// Serves until `stop` returns true, then finishes the requests that have begun, for drain_seconds at most,
  /// and refuses others. Returns whether all of them were finished.
  bool run(FunctionRef<bool()> stop);

 private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

}  // namespace moh
