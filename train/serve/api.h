#pragma once

#include <cstdint>
#include <string>

#include "train/serve/engine.h"
#include "train/serve/http_server.h"
#include "train/serve/requests.h"

namespace moh {

/// The endpoints of a server: OpenAI's completions and models, the tokenizer as vLLM serves it, and what
/// watches over a service. Thread-safe.
class Api {
 public:
  struct Options {
    std::string model;  ///< the name that clients give
    std::int64_t max_positions = 0;
  };

  /// All must outlive the object.
  Api(Engine& engine, const TokenText& text, Options options, ServerMetrics& metrics);

  /// Answers what is wrong with a request, too; throws what is no request's fault.
  HttpReply answer(const HttpRequest& request);
  /// From now on GET /health says 503, so that no more requests are sent here.
  void drain() { draining_ = true; }

 private:
  HttpReply route(const HttpRequest& request);
  HttpReply get(const std::string& path) const;
  HttpReply post(const HttpRequest& request);
  HttpReply complete(const HttpRequest& request);
  HttpReply tokenize(const HttpRequest& request) const;
  HttpReply detokenize(const HttpRequest& request) const;
  void require_model(const std::string& name) const;
  std::string models() const;

  Engine& engine_;
  const TokenText& text_;
  const Options options_;
  ServerMetrics& metrics_;
  const std::int64_t started_;
  std::atomic<bool> draining_ = false;
};

}  // namespace moh
