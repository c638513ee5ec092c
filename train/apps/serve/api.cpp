#include "train/apps/serve/api.h"

#include <algorithm>
#include <cctype>
#include <ctime>
#include <functional>
#include <iterator>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "train/apps/serve/api_key.h"
#include "train/apps/serve/token_text.h"
#include "train/base/http/request_error.h"
#include "train/base/io/system_random.h"
#include "train/base/log/progress.h"

namespace moh {

namespace {

using OrderedJson = nlohmann::ordered_json;

constexpr std::string_view kGetPaths[] = {"/health", "/metrics", "/tokenizer_info", "/v1/models"};
constexpr std::string_view kPostPaths[] = {"/v1/completions", "/v1/chat/completions", "/tokenize",
                                           "/detokenize"};

HttpReply json_reply(const OrderedJson& body) {
  return {.body = body.dump(-1, ' ', false, OrderedJson::error_handler_t::replace)};
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

/// Bounds the scores of a request: an answer takes far more memory while it is made than its request.
void require_few_scores(const CompletionRequest& request, const std::vector<std::vector<TokenId>>& ids) {
  if (!request.logprobs) return;
  std::int64_t tokens = request.n * request.max_tokens * std::ssize(ids);
  for (const std::vector<TokenId>& prompt : ids) tokens += request.echo ? request.n * std::ssize(prompt) : 0;
  if (const std::int64_t numbers = tokens * (*request.logprobs + 1); numbers > kMaxScores)
    throw bad_parameter("logprobs",
                        "at most " + std::to_string(kMaxScores) + " numbers (tokens times logprobs + 1)",
                        std::to_string(numbers));
}

std::vector<TextJob> jobs_of(const CompletionRequest& request, const std::vector<std::vector<TokenId>>& ids) {
  const std::uint64_t seed = request.seed ? *request.seed : system_random();
  std::vector<TextJob> jobs;
  for (const std::vector<TokenId>& prompt : ids) {
    jobs.push_back({.prompt = prompt,
                    .max_tokens = request.max_tokens,
                    .pick = request.pick,
                    .seed = seed,
                    .stop = request.stop,
                    .ends = {},
                    .n = request.n,
                    .scores_prompt = request.echo && request.logprobs.has_value(),
                    .logprobs = request.logprobs});
  }
  return jobs;
}

/// An answer to POST /v1/completions or /v1/chat/completions, whole or as a stream of server-sent events, as
/// its tokens come.
class CompletionReply final : public ReplySource {
 public:
  CompletionReply(std::shared_ptr<Completion> completion, CompletionJson json,
                  const CompletionRequest& request, std::function<void()> first_token)
      : completion_(std::move(completion)),
        json_(std::move(json)),
        streams_(request.stream),
        include_usage_(request.include_usage),
        first_token_(std::move(first_token)) {}

  void watch(std::function<void()> wake) override { completion_->watch(std::move(wake)); }
  void cancel() override { completion_->cancel(); }

  bool advance(HttpReply& reply) override {
    reply.streams = streams_;
    bool goes_on = false;
    try {
      take_in(reply.body);
      goes_on = !completion_->done();
      if (!goes_on) finish(reply.body);
    } catch (...) {
      completion_->cancel();
      HttpReply failure = current_exception_reply();
      if (streams_) {
        reply.body += event(failure.body);
      } else {
        reply = std::move(failure);
      }
    }
    reply.note = std::to_string(json_.prompt_tokens()) + " + " + std::to_string(json_.generated_tokens()) +
                 " tokens, ";
    return goes_on;
  }

 private:
  static std::string event(const std::string& data) { return data.empty() ? "" : "data: " + data + "\n\n"; }

  void take_in(std::string& out) {
    while (const std::optional<TextPiece> piece = completion_->next(0)) {
      if (first_token_ && piece->tokens > 0) std::exchange(first_token_, nullptr)();
      if (streams_) {
        out += event(json_.chunk(*piece));
      } else {
        json_.add(*piece);
      }
    }
  }

  void finish(std::string& out) {
    if (!streams_) {
      out = json_.whole();
      return;
    }
    if (include_usage_) out += event(json_.usage_chunk());
    out += event("[DONE]");
  }

  const std::shared_ptr<Completion> completion_;
  CompletionJson json_;
  const bool streams_, include_usage_;
  std::function<void()> first_token_;
};

}  // namespace

Api::Api(Engine& engine, const TokenText& text, const ChatTemplate& chat, Options options,
         ServerMetrics& metrics)
    : engine_(engine),
      text_(text),
      chat_(chat),
      options_(std::move(options)),
      metrics_(metrics),
      started_(std::time(nullptr)) {}

std::string Api::label_of(const std::string& path) {
  const bool known = std::ranges::count(kGetPaths, path) + std::ranges::count(kPostPaths, path) > 0;
  return known ? path : "other";
}

HttpReply Api::answer(const HttpRequest& request) {
  if (!options_.key.empty() && request.path != "/health" &&
      !has_api_key(request.authorization, options_.key)) {
    HttpReply refusal =
        error_reply(401, "expected the header 'Authorization: Bearer KEY' with the server's API key", "",
                    "invalid_api_key");
    refusal.headers.emplace_back("WWW-Authenticate", "Bearer");
    return refusal;
  }
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
  const OrderedJson model = {{"id", options_.model},
                             {"object", "model"},
                             {"created", started_},
                             {"owned_by", "moh"},
                             {"max_model_len", options_.max_positions}};
  if (path == "/v1/models") return json_reply({{"object", "list"}, {"data", OrderedJson::array({model})}});
  require_model(path.substr(std::string_view("/v1/models/").size()));
  return json_reply(model);
}

HttpReply Api::post(const HttpRequest& request) {
  require_json(request);
  if (request.path == "/v1/completions") return complete(request.body);
  if (request.path == "/v1/chat/completions") return chat(request.body);
  return request.path == "/tokenize" ? tokenize(request.body) : detokenize(request.body);
}

/// The tokens of the prompts.
std::vector<std::vector<TokenId>> Api::ids_of(const std::vector<Prompt>& prompts) const {
  std::vector<std::vector<TokenId>> all;
  for (const Prompt& prompt : prompts) {
    if (const auto* const given = std::get_if<std::string>(&prompt)) {
      if (text_.tokens_at_least(given->size()) > options_.max_positions)
        throw bad_parameter("prompt", "1 to " + std::to_string(options_.max_positions) + " tokens",
                            "a text of " + std::to_string(given->size()) + " bytes, which are more");
      all.push_back(text_.encode("prompt", *given, /*with_start=*/true));
    } else {
      all.push_back(std::get<std::vector<TokenId>>(prompt));
      text_.require_known("prompt", all.back());
    }
  }
  return all;
}

void Api::require_model(const std::string& name) const {
  if (name != options_.model)
    throw RequestError(404, error_message("model", "", "'" + options_.model + "'", "'" + name + "'"),
                       "model");
}

HttpReply Api::complete(std::string_view body) {
  const double begin = monotonic_seconds();
  const CompletionRequest wanted = parse_completion_request(body, options_.limits);
  if (!wanted.model.empty()) require_model(wanted.model);
  const std::vector<std::vector<TokenId>> ids = ids_of(wanted.prompts);
  return generate(wanted, ids, jobs_of(wanted, ids), AnswerForm::kText, begin);
}

HttpReply Api::chat(std::string_view body) {
  const double begin = monotonic_seconds();
  ChatRequest wanted = parse_chat_request(body);
  CompletionRequest& answer = wanted.answer;
  if (!answer.model.empty()) require_model(answer.model);
  const std::vector<TokenId> prompt = chat_.encode(wanted.messages, options_.max_positions - 1);
  answer.max_tokens = wanted.max_tokens.value_or(options_.max_positions - std::ssize(prompt));
  answer.prompts = {prompt};
  std::vector<TextJob> jobs = jobs_of(answer, {prompt});
  jobs[0].ends = chat_.ends();
  std::ranges::copy(chat_.stops(), std::back_inserter(jobs[0].stop));
  return generate(answer, {prompt}, std::move(jobs), AnswerForm::kChat, begin);
}

/// Begins what was asked for, which an object of `form` answers.
HttpReply Api::generate(const CompletionRequest& request, const std::vector<std::vector<TokenId>>& ids,
                        std::vector<TextJob> jobs, AnswerForm form, double begin) {
  engine_.check(jobs);  // before the answer has a copy of the prompt for each text
  require_few_scores(request, ids);
  CompletionJson json(request, ids, options_.model, text_, form);
  std::shared_ptr<Completion> completion = engine_.submit(std::move(jobs));
  HttpReply reply;
  reply.streams = request.stream;
  reply.source = std::make_shared<CompletionReply>(
      std::move(completion), std::move(json), request,
      [this, begin] { metrics_.first_token_seconds.observe(monotonic_seconds() - begin); });
  if (request.stream) {
    reply.content_type = "text/event-stream";
    reply.headers = {{"Cache-Control", "no-cache"}};
  }
  return reply;
}

HttpReply Api::tokenize(std::string_view body) const {
  const TokenizeRequest wanted = parse_tokenize_request(body);
  if (!wanted.model.empty()) require_model(wanted.model);
  const std::vector<TokenId> ids = wanted.messages.empty()
                                       ? text_.encode("prompt", wanted.prompt, wanted.add_special_tokens)
                                       : chat_.encode(wanted.messages, options_.max_positions);
  return json_reply({{"count", ids.size()}, {"max_model_len", options_.max_positions}, {"tokens", ids}});
}

HttpReply Api::detokenize(std::string_view body) const {
  const DetokenizeRequest wanted = parse_detokenize_request(body);
  if (!wanted.model.empty()) require_model(wanted.model);
  text_.require_known("tokens", wanted.tokens);
  return json_reply({{"prompt", text_.decode(wanted.tokens)}});
}

}  // namespace moh
