#include "train/serve/requests.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>

#include "train/io/printable.h"
#include "train/serve/request_error.h"

namespace moh {

namespace {

using Json = nlohmann::json;

/// A list of lists of ids inside an object needs 3. A hostile body nests a million.
constexpr int kMaxDepth = 8;

std::string shown(const Json& value) {
  if (value.is_array()) return "a list of " + std::to_string(value.size());
  if (value.is_object()) return "an object";
  return printable(value.dump(-1, ' ', true, Json::error_handler_t::replace), 60);
}

Json parse_object(std::string_view body) {
  std::vector<std::set<std::string>> keys;  // of the objects that are open
  const auto check = [&](int depth, Json::parse_event_t event, Json& parsed) {
    if (depth > kMaxDepth)
      throw RequestError(
          400,
          error_message("body", "", "JSON nested at most " + std::to_string(kMaxDepth) + " deep", "more"));
    if (event == Json::parse_event_t::object_start) keys.emplace_back();
    if (event == Json::parse_event_t::object_end) keys.pop_back();
    if (event == Json::parse_event_t::key && !keys.back().insert(parsed.get<std::string>()).second)
      throw RequestError(400, error_message("body", "", "each key once",
                                            "'" + printable(parsed.get<std::string>()) + "' twice"));
    return true;
  };
  Json object;
  try {
    object = Json::parse(body, check);
  } catch (const Json::exception& error) {
    throw RequestError(400, "body: not JSON: " + printable(error.what(), 200));
  }
  if (!object.is_object()) throw RequestError(400, error_message("body", "", "an object", shown(object)));
  return object;
}

/// The parameters of a request, each of which is read once; null is as if it were absent.
class Parameters {
 public:
  explicit Parameters(std::string_view body) : object_(parse_object(body)) {}

  /// The value; null if there is none.
  const Json& get(const std::string& name) {
    static const Json none;
    read_.insert(name);
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

  /// Refuses what has not been read.
  void refuse_others() const {
    for (const auto& [name, value] : object_.items()) {
      if (!read_.contains(name))
        throw RequestError(400, "unknown parameter '" + printable(name) + "'", printable(name));
    }
  }

 private:
  Json object_;
  std::set<std::string> read_;
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
  if (!value.is_array()) {
    add(value);
    return stops;
  }
  if (std::ssize(value) > kMaxStops)
    throw bad_parameter("stop", "at most " + std::to_string(kMaxStops) + " texts", shown(value));
  for (const Json& stop : value) add(stop);
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

}  // namespace

CompletionRequest parse_completion_request(std::string_view body) {
  constexpr std::int64_t kMostTokens = 1 << 30;  // the model has fewer positions
  Parameters parameters(body);
  CompletionRequest request;
  request.model = parameters.text("model");
  request.prompts = prompts_of(parameters);
  request.max_tokens = parameters.integer("max_tokens", 0, kMostTokens).value_or(request.max_tokens);
  request.pick = pick_of(parameters);
  constexpr auto kAny = std::numeric_limits<std::int64_t>::max();
  if (const std::optional<std::int64_t> seed = parameters.integer("seed", -kAny, kAny))
    request.seed = static_cast<std::uint64_t>(*seed);
  request.stop = stops_of(parameters);
  request.n = parameters.integer("n", 1, kMaxTextsOfPrompt).value_or(1);
  request.echo = parameters.flag("echo", false);
  request.logprobs = parameters.integer("logprobs", 0, kMaxLogprobs);
  request.stream = parameters.flag("stream", false);
  request.include_usage = includes_usage(parameters, request.stream);
  refuse_unsupported(parameters, request.n);
  parameters.refuse_others();
  if (request.max_tokens == 0 && !request.echo)
    throw bad_parameter("max_tokens", "1 or more without echo", "0");
  return request;
}

TokenizeRequest parse_tokenize_request(std::string_view body) {
  Parameters parameters(body);
  TokenizeRequest request;
  request.model = parameters.text("model");
  parameters.required("prompt", "a text");
  request.prompt = parameters.text("prompt");
  request.add_special_tokens = parameters.flag("add_special_tokens", true);
  parameters.refuse_others();
  return request;
}

DetokenizeRequest parse_detokenize_request(std::string_view body) {
  Parameters parameters(body);
  DetokenizeRequest request;
  request.model = parameters.text("model");
  const Json& tokens = parameters.required("tokens", "a list of token ids");
  if (!tokens.is_array()) throw bad_parameter("tokens", "a list of token ids", shown(tokens));
  request.tokens = token_ids("tokens", tokens);
  parameters.refuse_others();
  return request;
}

}  // namespace moh
