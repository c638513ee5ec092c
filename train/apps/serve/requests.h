#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "train/families/language/generate_text.h"
#include "train/tokenizers/token_id.h"

namespace moh {

/// A prompt as it came: text, or token ids.
using Prompt = std::variant<std::string, std::vector<TokenId>>;

/// The body of POST /v1/completions (OpenAI's API), checked as far as that is possible without the model.
struct CompletionRequest {
  std::string model;  ///< empty: not given
  std::vector<Prompt> prompts;
  std::int64_t max_tokens = 16;  ///< 0 is for `echo`
  PickOptions pick;
  std::optional<std::uint64_t> seed;  ///< not given: a new one for each request
  std::vector<std::string> stop;
  std::int64_t n = 1;                    ///< texts of each prompt
  bool echo = false;                     ///< the text begins with the prompt
  std::optional<std::int64_t> logprobs;  ///< log-probabilities of tokens, and of so many most probable ones
  bool stream = false;
  bool include_usage = false;  ///< a stream ends with a count of its tokens
};

/// A message of a chat.
struct ChatMessage {
  std::string role;  ///< "system", "user" or "assistant"
  std::string content;

  bool operator==(const ChatMessage&) const = default;
};

/// The body of POST /v1/chat/completions, likewise.
struct ChatRequest {
  CompletionRequest answer;  ///< without prompts and max_tokens
  std::vector<ChatMessage> messages;
  std::optional<std::int64_t> max_tokens;  ///< not given: as many as the model's positions have room for
};

/// The body of POST /tokenize: a text, or the messages of a chat.
struct TokenizeRequest {
  std::string model;
  std::string prompt;
  std::vector<ChatMessage> messages;  ///< empty: the prompt counts
  bool add_special_tokens = true;     ///< those that a text begins with
};

/// The body of POST /detokenize.
struct DetokenizeRequest {
  std::string model;
  std::vector<TokenId> tokens;
};

inline constexpr std::int64_t kMaxMessages = 2048, kMaxLogprobs = 20, kMaxTextsOfPrompt = 128,
                              kMaxStops = 256, kMaxStopBytes = 16 << 10,
                              kMaxScores = 1 << 20;  // log-probabilities of an answer

/// Bounds of the contents of a body: a short body can have a million values, each of which takes memory.
struct RequestLimits {
  std::int64_t prompts = 512;            ///< of a request
  std::int64_t prompt_tokens = 1 << 20;  ///< of a prompt
};

/// Each reads a body, value by value, and stops at the first that is too much or unknown: what is in memory
/// beside the body is bounded by `limits`. Throws RequestError, status 400, that names the parameter, or the
/// place: for what is not JSON or nested too deeply, unknown parameters, values of another type or range, and
/// what this server does not do (`suffix`, penalties, `best_of` other than `n`, `logit_bias`, tools).
CompletionRequest parse_completion_request(std::string_view body, const RequestLimits& limits = {});
ChatRequest parse_chat_request(std::string_view body);
TokenizeRequest parse_tokenize_request(std::string_view body);
DetokenizeRequest parse_detokenize_request(std::string_view body);

}  // namespace moh
