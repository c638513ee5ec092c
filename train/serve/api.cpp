#include "train/serve/api.h"

#include <algorithm>
#include <cctype>
#include <ctime>
#include <memory>
#include <nlohmann/json.hpp>
#include <random>
#include <utility>

#include "train/log/progress.h"
#include "train/serve/completion_json.h"
#include "train/serve/request_error.h"
#include "train/serve/tokenizer_info.h"

namespace moh {

namespace {

using Json = nlohmann::ordered_json;

/// How long a waiting thread goes without a look at its client.
constexpr double kLookSeconds = 0.2;
/// As in nginx: nobody reads this answer.
constexpr int kClientGone = 499;

constexpr std::string_view kGetPaths[] = {"/health", "/metrics", "/tokenizer_info", "/v1/models"};
constexpr std::string_view kPostPaths[] = {"/v1/completions", "/tokenize", "/detokenize"};

HttpReply json_reply(const Json& body) {
  return {.body = body.dump(-1, ' ', false, Json::error_handler_t::replace)};
}

/// Browsers send other types to servers that did not ask for them.
void require_json(const HttpRequest& request) {
  std::string type = request.content_type.substr(0, request.content_type.find(';'));
  std::erase(type, ' ');
  std::ranges::transform(type, type.begin(), [](unsigned char c) { return std::tolower(c); });
  if (type != "application/json")
    throw RequestError(415, "expected a body of type application/json (header Content-Type), found " +
                                (type.empty() ? std::string("none") : "'" + type + "'"));
}

/// The tokens of the prompts.
std::vector<std::vector<TokenId>> ids_of(const std::vector<Prompt>& prompts, const TokenText& text) {
  std::vector<std::vector<TokenId>> all;
  for (const Prompt& prompt : prompts) {
    if (const auto* const given = std::get_if<std::string>(&prompt)) {
      all.push_back(text.encode("prompt", *given, /*with_start=*/true));
    } else {
      all.push_back(std::get<std::vector<TokenId>>(prompt));
      text.require_known("prompt", all.back());
    }
  }
  return all;
}

std::vector<TextJob> jobs_of(const CompletionRequest& request, const std::vector<std::vector<TokenId>>& ids) {
  const std::uint64_t seed = request.seed ? *request.seed : std::random_device{}();
  std::vector<TextJob> jobs;
  for (const std::vector<TokenId>& prompt : ids) {
    jobs.push_back({.prompt = prompt,
                    .max_tokens = request.max_tokens,
                    .pick = request.pick,
                    .seed = seed,
                    .stop = request.stop,
                    .n = request.n,
                    .scores_prompt = request.echo && request.logprobs.has_value(),
                    .logprobs = request.logprobs});
  }
  return jobs;
}

/// A stream of server-sent events.
struct EventStream {
  std::shared_ptr<Completion> completion;
  CompletionJson json;
  bool include_usage;
  std::function<void()> first_token;

  static std::string event(const std::string& data) { return data.empty() ? "" : "data: " + data + "\n\n"; }

  /// Appends what is new; false at the end.
  bool more(std::string& out) {
    try {
      if (const std::optional<TextPiece> piece = completion->next(kLookSeconds)) {
        if (first_token && piece->tokens > 0) std::exchange(first_token, nullptr)();
        out += event(json.chunk(*piece));
      }
    } catch (const RequestError& error) {
      out += event(error_reply(error.status(), error.what()).body);
      return false;
    }
    if (!completion->done()) return true;
    if (include_usage) out += event(json.usage_chunk());
    out += event("[DONE]");
    return false;
  }
};

}  // namespace

Api::Api(Engine& engine, const TokenText& text, Options options, ServerMetrics& metrics)
    : engine_(engine),
      text_(text),
      options_(std::move(options)),
      metrics_(metrics),
      started_(std::time(nullptr)) {}

HttpReply Api::answer(const HttpRequest& request) {
  const double begin = monotonic_seconds();
  HttpReply reply;
  try {
    reply = route(request);
  } catch (const RequestError& error) {
    reply = error_reply(error.status(), error.what(), error.param());
  }
  const bool known =
      std::ranges::count(kGetPaths, request.path) + std::ranges::count(kPostPaths, request.path) > 0;
  reply.written = [this, begin, path = known ? request.path : "other", status = reply.status,
                   then = std::move(reply.written)](bool success) {
    if (then) then(success);
    metrics_.answered(path, success ? status : kClientGone, monotonic_seconds() - begin);
  };
  return reply;
}

HttpReply Api::route(const HttpRequest& request) {
  const bool is_get = request.method == "GET" || request.method == "HEAD";
  const bool gets =
      std::ranges::count(kGetPaths, request.path) > 0 || request.path.starts_with("/v1/models/");
  const bool posts = std::ranges::count(kPostPaths, request.path) > 0;
  if (gets && is_get) return get(request.path);
  if (posts && request.method == "POST") return post(request);
  if (!gets && !posts) throw RequestError(404, "there is nothing at this path");
  HttpReply reply = error_reply(405, "expected method " + std::string(gets ? "GET" : "POST"));
  reply.headers.emplace_back("Allow", gets ? "GET, HEAD" : "POST");
  return reply;
}

HttpReply Api::get(const std::string& path) const {
  if (path == "/metrics")
    return {.content_type = "text/plain; version=0.0.4; charset=utf-8", .body = metrics_.text()};
  if (path == "/tokenizer_info") return {.body = tokenizer_info(text_)};
  if (path == "/health") {
    if (draining_) throw overloaded("the server is stopping");
    return json_reply({{"status", "ok"}});
  }
  const Json model = {{"id", options_.model},
                      {"object", "model"},
                      {"created", started_},
                      {"owned_by", "moh"},
                      {"max_model_len", options_.max_positions}};
  if (path == "/v1/models") return json_reply({{"object", "list"}, {"data", Json::array({model})}});
  require_model(path.substr(std::string_view("/v1/models/").size()));
  return json_reply(model);
}

HttpReply Api::post(const HttpRequest& request) {
  require_json(request);
  if (request.path == "/v1/completions") return complete(request);
  return request.path == "/tokenize" ? tokenize(request) : detokenize(request);
}

void Api::require_model(const std::string& name) const {
  if (name != options_.model)
    throw RequestError(404, error_message("model", "", "'" + options_.model + "'", "'" + name + "'"),
                       "model");
}

HttpReply Api::complete(const HttpRequest& request) {
  const double begin = monotonic_seconds();
  const CompletionRequest wanted = parse_completion_request(request.body);
  if (!wanted.model.empty()) require_model(wanted.model);
  const std::vector<std::vector<TokenId>> ids = ids_of(wanted.prompts, text_);
  CompletionJson json(wanted, ids, options_.model, text_);
  std::shared_ptr<Completion> completion = engine_.submit(jobs_of(wanted, ids));
  std::function<void()> first_token = [this, begin] {
    metrics_.first_token_seconds.observe(monotonic_seconds() - begin);
  };
  if (wanted.stream) {
    const auto stream = std::make_shared<EventStream>(
        EventStream{completion, std::move(json), wanted.include_usage, std::move(first_token)});
    return {.content_type = "text/event-stream",
            .headers = {{"Cache-Control", "no-cache"}},
            .more = [stream](std::string& out) { return stream->more(out); },
            .written =
                [completion](bool success) {
                  if (!success) completion->cancel();
                }};
  }
  while (!completion->done()) {
    if (const std::optional<TextPiece> piece = completion->next(kLookSeconds)) {
      if (first_token && piece->tokens > 0) std::exchange(first_token, nullptr)();
      json.add(*piece);
    }
    if (!request.gone()) continue;
    completion->cancel();
    throw RequestError(kClientGone, "the client has closed the connection");
  }
  return {.body = json.whole()};
}

HttpReply Api::tokenize(const HttpRequest& request) const {
  const TokenizeRequest wanted = parse_tokenize_request(request.body);
  if (!wanted.model.empty()) require_model(wanted.model);
  const std::vector<TokenId> ids = text_.encode("prompt", wanted.prompt, wanted.add_special_tokens);
  return json_reply({{"count", ids.size()}, {"max_model_len", options_.max_positions}, {"tokens", ids}});
}

HttpReply Api::detokenize(const HttpRequest& request) const {
  const DetokenizeRequest wanted = parse_detokenize_request(request.body);
  if (!wanted.model.empty()) require_model(wanted.model);
  text_.require_known("tokens", wanted.tokens);
  return json_reply({{"prompt", text_.decode(wanted.tokens)}});
}

}  // namespace moh
