#include "train/apps/serve/requests.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <span>

#include "train/base/http/request_error.h"
#include "train/base/io/printable.h"

namespace moh {

namespace {

using Json = nlohmann::json;

/// A list of lists of ids inside an object needs 3. A hostile body nests a million.
constexpr std::size_t kMaxDepth = 8;

/// Tokens that are turned into text at once; any model has fewer positions.
constexpr std::int64_t kMostDetokenized = 4 << 20;

constexpr std::string_view kOfCompletions[] = {"model",
                                               "prompt",
                                               "max_tokens",
                                               "temperature",
                                               "top_p",
                                               "top_k",
                                               "seed",
                                               "stop",
                                               "n",
                                               "echo",
                                               "logprobs",
                                               "stream",
                                               "stream_options",
                                               "suffix",
                                               "frequency_penalty",
                                               "presence_penalty",
                                               "logit_bias",
                                               "best_of",
                                               "user"};
constexpr std::string_view kOfChats[] = {"model",
                                         "messages",
                                         "max_tokens",
                                         "max_completion_tokens",
                                         "temperature",
                                         "top_p",
                                         "top_k",
                                         "seed",
                                         "stop",
                                         "n",
                                         "logprobs",
                                         "top_logprobs",
                                         "stream",
                                         "stream_options",
                                         "frequency_penalty",
                                         "presence_penalty",
                                         "logit_bias",
                                         "user",
                                         "tools",
                                         "tool_choice",
                                         "response_format"};
constexpr std::string_view kOfTokenize[] = {"model", "prompt", "messages", "add_special_tokens"};
constexpr std::string_view kOfDetokenize[] = {"model", "tokens"};

std::string shown(const Json& value) {
  if (value.is_array()) return "a list of " + std::to_string(value.size());
  if (value.is_object()) return "an object";
  return printable(value.dump(-1, ' ', true, Json::error_handler_t::replace), 60);
}

/// The reason why a text is not JSON, with the place.
std::string reason_of(std::string_view what, std::size_t position) {
  constexpr std::string_view kPlace = "parse error at ";
  if (const std::size_t end = what.find("] "); what.starts_with('[') && end != std::string_view::npos)
    what.remove_prefix(end + 2);  // the library's number of the error
  const bool has_place = what.starts_with(kPlace);
  if (has_place) what.remove_prefix(kPlace.size());
  return (has_place ? "" : "byte " + std::to_string(position) + ": ") + printable(what, 200);
}

/// Builds the value of a body from its parts, as long as they are few and, at the top, known.
class BodyBuilder final : public nlohmann::json_sax<Json> {
 public:
  using Names = std::span<const std::string_view>;

  BodyBuilder(Names known, std::int64_t most_numbers, std::int64_t most_others)
      : known_(known), numbers_{"numbers", most_numbers}, others_{"texts, lists and keys", most_others} {}

  Json& result() { return result_; }

  bool null() override { return add_other(nullptr); }
  bool boolean(bool value) override { return add_other(value); }
  bool number_integer(number_integer_t value) override { return add_number(value); }
  bool number_unsigned(number_unsigned_t value) override { return add_number(value); }
  bool number_float(number_float_t value, const string_t& /*digits*/) override { return add_number(value); }
  bool string(string_t& value) override { return add_other(std::move(value)); }
  bool binary(binary_t& /*value*/) override { return false; }  // JSON has none
  bool start_object(std::size_t /*size*/) override { return open(Json::object()); }
  bool start_array(std::size_t /*size*/) override { return open(Json::array()); }
  bool end_object() override { return close(); }
  bool end_array() override { return close(); }

  bool key(string_t& name) override {
    spend(others_);
    if (open_.size() == 1 && std::ranges::find(known_, name) == known_.end())
      throw RequestError(400, "unknown parameter '" + printable(name) + "'", printable(name));
    if (open_.back()->contains(name))
      throw RequestError(400, error_message("body", "", "each key once", "'" + printable(name) + "' twice"));
    key_ = std::move(name);
    return true;
  }

  bool parse_error(std::size_t position, const std::string& /*token*/,
                   const nlohmann::detail::exception& error) override {
    throw RequestError(400, "body: not JSON: " + reason_of(error.what(), position));
  }

 private:
  struct Budget {
    const char* what;
    std::int64_t most;
    std::int64_t used = 0;
  };

  static void spend(Budget& budget) {
    if (budget.used++ == budget.most)
      throw RequestError(
          400,
          error_message("body", "", "at most " + std::to_string(budget.most) + " " + budget.what, "more"));
  }
  bool add_number(Json value) {
    spend(numbers_);
    add(std::move(value));
    return true;
  }
  bool add_other(Json value) {
    spend(others_);
    add(std::move(value));
    return true;
  }
  Json& add(Json value) {
    if (open_.empty()) return result_ = std::move(value);
    Json& parent = *open_.back();
    if (parent.is_array()) return parent.emplace_back(std::move(value));
    return parent[key_] = std::move(value);
  }
  bool open(Json value) {
    if (open_.size() == kMaxDepth)
      throw RequestError(
          400,
          error_message("body", "", "JSON nested at most " + std::to_string(kMaxDepth) + " deep", "more"));
    spend(others_);
    open_.push_back(&add(std::move(value)));  // the last of its parent, which grows no more until it ends
    return true;
  }
  bool close() {
    open_.pop_back();
    return true;
  }

  const Names known_;
  Budget numbers_, others_;
  Json result_;
  std::vector<Json*> open_;
  std::string key_;
};

Json parse_object(std::string_view body, BodyBuilder::Names known, const RequestLimits& limits) {
  constexpr std::int64_t kMostNumbers = 1 << 28, kOthers = 1024;  // besides prompts
  const std::int64_t prompts = std::max<std::int64_t>(limits.prompts, 1);
  const std::int64_t numbers =
      limits.prompt_tokens < kMostNumbers / prompts ? prompts * (limits.prompt_tokens + 1) : kMostNumbers;
  BodyBuilder builder(known, numbers + kOthers, prompts + kOthers);
  Json::sax_parse(body, &builder);
  Json& object = builder.result();
  if (!object.is_object()) throw RequestError(400, error_message("body", "", "an object", shown(object)));
  return std::move(object);
}

/// The parameters of a request; null is as if it were absent.
class Parameters {
 public:
  Parameters(std::string_view body, BodyBuilder::Names known, const RequestLimits& limits = {})
      : object_(parse_object(body, known, limits)) {}

  /// The value; null if there is none.
  const Json& get(const std::string& name) {
    static const Json none;
    const auto found = object_.find(name);
    return found == object_.end() ? none : *found;
  }
  const Json& required(const std::string& name, std::string_view expected) {
    const Json& value = get(name);
    if (value.is_null()) throw bad_parameter(name, expected, "none");
    return value;
  }

  std::string text(const std::string& name) {
    const Json& value = get(name);
    if (value.is_null()) return {};
    if (!value.is_string()) throw bad_parameter(name, "a text", shown(value));
    return value.get<std::string>();
  }
  bool flag(const std::string& name, bool otherwise) {
    const Json& value = get(name);
    if (value.is_null()) return otherwise;
    if (!value.is_boolean()) throw bad_parameter(name, "true or false", shown(value));
    return value.get<bool>();
  }
  std::optional<std::int64_t> integer(const std::string& name, std::int64_t least, std::int64_t most) {
    const Json& value = get(name);
    if (value.is_null()) return std::nullopt;
    const bool fits = value.is_number_unsigned()
                          ? value.get<std::uint64_t>() <= std::numeric_limits<std::int64_t>::max()
                          : value.is_number_integer();
    if (fits) {
      const auto number = value.get<std::int64_t>();
      if (number >= least && number <= most) return number;
    }
    throw bad_parameter(name, "an integer from " + std::to_string(least) + " to " + std::to_string(most),
                        shown(value));
  }
  std::optional<double> number(const std::string& name) {
    const Json& value = get(name);
    if (value.is_null()) return std::nullopt;
    if (!value.is_number()) throw bad_parameter(name, "a number", shown(value));
    return value.get<double>();
  }

 private:
  Json object_;
};

std::vector<TokenId> token_ids(const std::string& name, const Json& list) {
  std::vector<TokenId> ids;
  ids.reserve(list.size());
  for (const Json& value : list) {
    const bool fits = value.is_number_unsigned() &&
                      value.get<std::uint64_t>() <= std::uint64_t{std::numeric_limits<TokenId>::max()};
    if (!fits) throw bad_parameter(name, "token ids", shown(value));
    ids.push_back(value.get<TokenId>());
  }
  return ids;
}

/// Text, a list of texts, a list of ids, or a list of lists of ids.
std::vector<Prompt> prompts_of(Parameters& parameters) {
  constexpr std::string_view kForms = "a text, a list of texts, a list of token ids, or a list of such lists";
  const Json& value = parameters.required("prompt", kForms);
  if (value.is_string()) return {value.get<std::string>()};
  if (!value.is_array() || value.empty()) throw bad_parameter("prompt", kForms, shown(value));
  if (value.front().is_number()) return {token_ids("prompt", value)};
  std::vector<Prompt> prompts;
  for (const Json& prompt : value) {
    if (prompt.type() != value.front().type())
      throw bad_parameter("prompt", kForms, "a list of several types");
    if (prompt.is_string()) {
      prompts.emplace_back(prompt.get<std::string>());
    } else if (prompt.is_array()) {
      prompts.emplace_back(token_ids("prompt", prompt));
    } else {
      throw bad_parameter("prompt", kForms, "a list with " + shown(prompt));
    }
  }
  return prompts;
}

std::vector<std::string> stops_of(Parameters& parameters) {
  const Json& value = parameters.get("stop");
  if (value.is_null()) return {};
  std::vector<std::string> stops;
  const auto add = [&](const Json& stop) {
    if (!stop.is_string() || stop.get_ref<const std::string&>().empty())
      throw bad_parameter("stop", "a text that is not empty, or a list of such texts", shown(stop));
    stops.push_back(stop.get<std::string>());
  };
  if (value.is_array() && std::ssize(value) > kMaxStops)
    throw bad_parameter("stop", "at most " + std::to_string(kMaxStops) + " texts", shown(value));
  if (value.is_array()) {
    for (const Json& stop : value) add(stop);
  } else {
    add(value);
  }
  std::int64_t bytes = 0;
  for (const std::string& stop : stops) bytes += std::ssize(stop);
  if (bytes > kMaxStopBytes)
    throw bad_parameter("stop", "texts of at most " + std::to_string(kMaxStopBytes) + " bytes together",
                        std::to_string(bytes));
  return stops;
}

PickOptions pick_of(Parameters& parameters) {
  PickOptions pick;
  pick.temperature = parameters.number("temperature").value_or(1.0);
  if (!(pick.temperature >= 0 && std::isfinite(pick.temperature)))
    throw bad_parameter("temperature", "0 or more", std::to_string(pick.temperature));
  pick.top_p = parameters.number("top_p").value_or(1.0);
  if (!(pick.top_p > 0 && pick.top_p <= 1))
    throw bad_parameter("top_p", "above 0, up to 1", std::to_string(pick.top_p));
  // -1 is what other servers have for all.
  pick.top_k = std::max<std::int64_t>(parameters.integer("top_k", -1, 1 << 30).value_or(0), 0);
  return pick;
}

/// Parameters of OpenAI's API that are accepted as long as they ask for nothing.
void refuse_unsupported(Parameters& parameters, std::int64_t n) {
  if (const Json& suffix = parameters.get("suffix"); !suffix.is_null())
    throw bad_parameter("suffix", "none (this server continues texts)", shown(suffix));
  for (const char* const penalty : {"frequency_penalty", "presence_penalty"}) {
    if (parameters.number(penalty).value_or(0) != 0)
      throw bad_parameter(penalty, "0 (this server has no penalties)", shown(parameters.get(penalty)));
  }
  if (const Json& bias = parameters.get("logit_bias"); !bias.is_null() && bias != Json::object())
    throw bad_parameter("logit_bias", "none (this server has no biases)", shown(bias));
  if (parameters.integer("best_of", 1, kMaxTextsOfPrompt).value_or(n) != n)
    throw bad_parameter("best_of", "n (" + std::to_string(n) + ")", shown(parameters.get("best_of")));
  parameters.text("user");
}

bool includes_usage(Parameters& parameters, bool stream) {
  const Json& options = parameters.get("stream_options");
  if (options.is_null()) return false;
  if (!stream) throw bad_parameter("stream_options", "none without stream", shown(options));
  const auto refuse = [&] {
    return bad_parameter("stream_options", "an object with include_usage: true or false", shown(options));
  };
  if (!options.is_object()) throw refuse();
  for (const auto& [name, value] : options.items()) {
    if (name != "include_usage" || !value.is_boolean()) throw refuse();
  }
  return options.value("include_usage", false);
}

constexpr std::int64_t kMostTokens = 1 << 30;  // the model has fewer positions

/// The parameters that requests for completions and chats have in common.
CompletionRequest common_of(Parameters& parameters) {
  CompletionRequest request;
  request.model = parameters.text("model");
  request.pick = pick_of(parameters);
  constexpr auto kAny = std::numeric_limits<std::int64_t>::max();
  if (const std::optional<std::int64_t> seed = parameters.integer("seed", -kAny, kAny))
    request.seed = static_cast<std::uint64_t>(*seed);
  request.stop = stops_of(parameters);
  request.n = parameters.integer("n", 1, kMaxTextsOfPrompt).value_or(1);
  request.stream = parameters.flag("stream", false);
  request.include_usage = includes_usage(parameters, request.stream);
  refuse_unsupported(parameters, request.n);
  return request;
}

/// Each message has a few values.
constexpr RequestLimits kLimitsOfChat = {.prompts = 16 * kMaxMessages, .prompt_tokens = 0};

/// The text of a message: a text, or a list of parts of the type text, which are lines.
std::string content_of(const std::string& where, const Json& content) {
  constexpr std::string_view kForms = "a text, or a list of parts {\"type\": \"text\", \"text\": TEXT}";
  if (content.is_string()) return content.get<std::string>();
  if (!content.is_array() || content.empty()) throw bad_parameter(where + ".content", kForms, shown(content));
  std::string text;
  for (const Json& part : content) {
    const bool is_text = part.is_object() && part.size() == 2 && part.contains("type") &&
                         part["type"] == "text" && part.contains("text") && part["text"].is_string();
    if (!is_text) throw bad_parameter(where + ".content", kForms, "a list with another part");
    if (&part != &content.front()) text += '\n';
    text += part["text"].get_ref<const std::string&>();
  }
  return text;
}

ChatMessage message_of(const std::string& where, const Json& value) {
  constexpr std::string_view kRoles[] = {"system", "user", "assistant"};
  constexpr std::string_view kForm = "an object with role and content";
  if (!value.is_object()) throw bad_parameter(where, kForm, shown(value));
  for (const auto& [key, part] : value.items()) {
    if (key != "role" && key != "content" && !part.is_null())
      throw bad_parameter(where, kForm,
                          "the key '" + printable(key, 60) + "', which this server does not know");
  }
  const Json role = value.value("role", Json());
  if (role == "tool" || role == "function")
    throw bad_parameter(where + ".role", "system, user or assistant (this server calls no tools)",
                        shown(role));
  if (!role.is_string() || std::ranges::count(kRoles, role.get_ref<const std::string&>()) == 0)
    throw bad_parameter(where + ".role", "system, user or assistant", shown(role));
  return {role.get<std::string>(), content_of(where, value.value("content", Json()))};
}

std::vector<ChatMessage> messages_of(Parameters& parameters) {
  const std::string expected = "a list of 1 to " + std::to_string(kMaxMessages) + " messages";
  const Json& value = parameters.required("messages", expected);
  if (!value.is_array() || value.empty() || std::ssize(value) > kMaxMessages)
    throw bad_parameter("messages", expected, shown(value));
  std::vector<ChatMessage> messages;
  for (std::size_t i = 0; i < value.size(); ++i)
    messages.push_back(message_of("messages[" + std::to_string(i) + "]", value[i]));
  return messages;
}

/// Parameters of chats that are accepted as long as they ask for nothing.
void refuse_tools(Parameters& parameters) {
  if (const Json& tools = parameters.get("tools"); !tools.is_null() && tools != Json::array())
    throw bad_parameter("tools", "none (this server calls no tools)", shown(tools));
  if (const Json& choice = parameters.get("tool_choice"); !choice.is_null() && choice != "none")
    throw bad_parameter("tool_choice", "none (this server calls no tools)", shown(choice));
  if (const Json& format = parameters.get("response_format");
      !format.is_null() && format != Json{{"type", "text"}})
    throw bad_parameter("response_format", "{\"type\": \"text\"} (this server writes text as it comes)",
                        shown(format));
}

std::optional<std::int64_t> chat_tokens_of(Parameters& parameters) {
  const auto tokens = parameters.integer("max_tokens", 1, kMostTokens);
  const auto completion = parameters.integer("max_completion_tokens", 1, kMostTokens);
  if (tokens && completion && *tokens != *completion)
    throw bad_parameter("max_tokens", "the number of max_completion_tokens, or none",
                        std::to_string(*tokens));
  return completion ? completion : tokens;
}

/// logprobs, with so many of the most probable tokens.
std::optional<std::int64_t> chat_logprobs_of(Parameters& parameters) {
  const bool wanted = parameters.flag("logprobs", false);
  const auto top = parameters.integer("top_logprobs", 0, kMaxLogprobs);
  if (top && !wanted) throw bad_parameter("top_logprobs", "none without logprobs", std::to_string(*top));
  return wanted ? std::optional(top.value_or(0)) : std::nullopt;
}

}  // namespace

CompletionRequest parse_completion_request(std::string_view body, const RequestLimits& limits) {
  Parameters parameters(body, kOfCompletions, limits);
  CompletionRequest request = common_of(parameters);
  request.prompts = prompts_of(parameters);
  request.max_tokens = parameters.integer("max_tokens", 0, kMostTokens).value_or(request.max_tokens);
  request.echo = parameters.flag("echo", false);
  request.logprobs = parameters.integer("logprobs", 0, kMaxLogprobs);
  if (request.max_tokens == 0 && !request.echo)
    throw bad_parameter("max_tokens", "1 or more without echo", "0");
  return request;
}

ChatRequest parse_chat_request(std::string_view body) {
  Parameters parameters(body, kOfChats, kLimitsOfChat);
  ChatRequest request{.answer = common_of(parameters), .messages = messages_of(parameters), .max_tokens = {}};
  request.answer.logprobs = chat_logprobs_of(parameters);
  request.max_tokens = chat_tokens_of(parameters);
  refuse_tools(parameters);
  return request;
}

TokenizeRequest parse_tokenize_request(std::string_view body) {
  Parameters parameters(body, kOfTokenize, kLimitsOfChat);
  TokenizeRequest request;
  request.model = parameters.text("model");
  if (const Json& prompt = parameters.get("prompt");
      !prompt.is_null() && !parameters.get("messages").is_null())
    throw bad_parameter("prompt", "none beside messages", shown(prompt));
  if (!parameters.get("messages").is_null()) {
    request.messages = messages_of(parameters);
    return request;
  }
  parameters.required("prompt", "a text, or messages");
  request.prompt = parameters.text("prompt");
  request.add_special_tokens = parameters.flag("add_special_tokens", true);
  return request;
}

DetokenizeRequest parse_detokenize_request(std::string_view body) {
  Parameters parameters(body, kOfDetokenize, {.prompts = 1, .prompt_tokens = kMostDetokenized});
  DetokenizeRequest request;
  request.model = parameters.text("model");
  const Json& tokens = parameters.required("tokens", "a list of token ids");
  if (!tokens.is_array()) throw bad_parameter("tokens", "a list of token ids", shown(tokens));
  request.tokens = token_ids("tokens", tokens);
  return request;
}

}  // namespace moh
