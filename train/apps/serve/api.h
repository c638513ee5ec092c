#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "train/apps/serve/chat_template.h"
#include "train/apps/serve/completion_json.h"
#include "train/apps/serve/engine.h"
#include "train/apps/serve/requests.h"
#include "train/base/http/http_parser.h"
#include "train/base/http/http_reply.h"

namespace moh {

/// The endpoints of a server: OpenAI's completions, chats and models, the tokenizer as vLLM serves it, and
/// what watches over a service. Thread-safe.
class Api {
 public:
  struct Options {
    std::string model;  ///< the name that clients give
    std::int64_t max_positions = 0;
    RequestLimits limits;
    std::string key;  ///< that clients have to give, but for GET /health; empty: none
  };

  /// All must outlive the object.
  Api(Engine& engine, const TokenText& text, const ChatTemplate& chat, Options options,
      ServerMetrics& metrics);

  /// Never waits: a completion is answered by a source. Throws RequestError for what is wrong with a request.
  HttpReply answer(const HttpRequest& request);
  /// The path of an endpoint; "other" for any other path, of which clients can invent many.
  static std::string label_of(const std::string& path);
  /// From now on GET /health says 503, so that no more requests are sent here.
  void drain() { draining_ = true; }

 private:
  HttpReply get(const std::string& path) const;
  HttpReply post(const HttpRequest& request);
  HttpReply complete(std::string_view body);
  HttpReply chat(std::string_view body);
  HttpReply generate(const CompletionRequest& request, const std::vector<std::vector<TokenId>>& ids,
                     std::vector<TextJob> jobs, AnswerForm form, double begin);
  HttpReply tokenize(std::string_view body) const;
  HttpReply detokenize(std::string_view body) const;
  std::vector<std::vector<TokenId>> ids_of(const std::vector<Prompt>& prompts) const;
  void require_model(const std::string& name) const;
  std::string models() const;

  Engine& engine_;
  const TokenText& text_;
  const ChatTemplate& chat_;
  const Options options_;
  ServerMetrics& metrics_;
  const std::int64_t started_;
  std::atomic<bool> draining_ = false;
};

}  // namespace moh
