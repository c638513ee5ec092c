#include "train/apps/serve/completion_json.h"

#include <algorithm>
#include <chrono>
#include <nlohmann/json.hpp>
#include <utility>

#include "train/base/io/system_random.h"

namespace moh {

namespace {

using OrderedJson = nlohmann::ordered_json;

std::string dump(const OrderedJson& value) {
  return value.dump(-1, ' ', false, OrderedJson::error_handler_t::replace);
}

/// Counts the characters of a text as it is sent, in which bytes that are no character are U+FFFD.
class CharacterCount {
 public:
  void push(std::string_view bytes) { count_ += characters_in(text_.push(bytes)); }
  /// Ends a character: the following bytes begin another.
  void finish() { count_ += characters_in(text_.finish()); }
  /// Characters that have begun.
  std::int64_t begun() const { return count_ + characters_in(Utf8Stream(text_).finish()); }

 private:
  static std::int64_t characters_in(std::string_view text) {
    return std::ranges::count_if(text,
                                 [](char byte) { return (static_cast<unsigned char>(byte) & 0xC0) != 0x80; });
  }

  Utf8Stream text_{ControlCharacters::kKeep};
  std::int64_t count_ = 0;
};

/// The most probable tokens and the token itself. Each id has an entry of its own: clients compare the
/// largest value with the token's, so that a name that two ids share would hide one of them.
OrderedJson top_of(const TokenLogprobs& score, const TokenText& text) {
  OrderedJson top = OrderedJson::object();
  const auto add = [&](TokenId id, float logprob) {
    std::string name = text.name(id);
    if (top.contains(name)) name = TokenText::number_name(id);
    top[name] = static_cast<double>(logprob);
  };
  for (const TokenLogprob& token : score.top) add(token.id, token.logprob);
  const bool listed = std::ranges::find(score.top, score.id, &TokenLogprob::id) != score.top.end();
  if (!listed) add(score.id, *score.logprob);
  return top;
}

std::string new_id(AnswerForm form) {
  char text[40];
  std::snprintf(text, sizeof text, "%s-%016llx", form == AnswerForm::kChat ? "chatcmpl" : "cmpl",
                static_cast<unsigned long long>(system_random()));
  return text;
}

/// A token of an answer to a chat.
OrderedJson chat_token(TokenId id, float logprob, const TokenText& text) {
  OrderedJson bytes = OrderedJson::array();
  for (const char byte : text.bytes(id)) bytes.push_back(static_cast<unsigned char>(byte));
  OrderedJson token = {{"token", text.name(id)}, {"logprob", static_cast<double>(logprob)}};
  token["bytes"] = std::move(bytes);
  return token;
}

const char* name_of(Finish finish) {
  return finish == Finish::kStop ? "stop" : "length";
}

}  // namespace

struct CompletionJson::State {
  struct Choice {
    std::string text;
    OrderedJson finish = nullptr;
    OrderedJson tokens = OrderedJson::array(), logprobs = OrderedJson::array(), top = OrderedJson::array(),
                offsets = OrderedJson::array();
    CharacterCount characters;     ///< of the tokens so far
    std::int64_t prompt_left = 0;  ///< tokens of the prompt whose scores come first
    std::string echo;              ///< until the first piece
    bool begun = false;            ///< a chunk was sent, which had the role
    bool is_text = false;          ///< the prompt came as text, which has no special tokens
  };

  /// The scores of a piece; those of earlier ones are forgotten if `fresh`.
  void add_scores(Choice& choice, const TextPiece& piece) const {
    for (const TokenLogprobs& score : piece.scores) {
      if (form == AnswerForm::kChat) {
        add_chat_score(choice, score);
        continue;
      }
      const bool of_prompt = choice.prompt_left > 0;
      choice.tokens.push_back(text.name(score.id));
      choice.logprobs.push_back(score.logprob ? OrderedJson(static_cast<double>(*score.logprob))
                                              : OrderedJson(nullptr));
      choice.top.push_back(score.logprob ? top_of(score, text) : OrderedJson(nullptr));
      choice.offsets.push_back(choice.characters.begun());
      choice.characters.push(shown_bytes(choice, score.id, of_prompt));
      // The prompt and what follows it become text apart.
      if (of_prompt && --choice.prompt_left == 0) choice.characters.finish();
    }
  }

  /// Scores of generated tokens, all of which have a log-probability.
  void add_chat_score(Choice& choice, const TokenLogprobs& score) const {
    OrderedJson token = chat_token(score.id, *score.logprob, text);
    OrderedJson top = OrderedJson::array();
    for (const TokenLogprob& other : score.top) top.push_back(chat_token(other.id, other.logprob, text));
    token["top_logprobs"] = std::move(top);
    choice.tokens.push_back(std::move(token));
  }

  /// The bytes that a token adds to the text.
  std::string_view shown_bytes(const Choice& choice, TokenId token, bool of_prompt) const {
    if (token >= text.tokenizer().vocab_size()) return {};
    std::string_view bytes =
        of_prompt && !choice.is_text ? text.bytes(token) : text.tokenizer().token_bytes(token);
    const bool begins = of_prompt && choice.characters.begun() == 0;
    if (begins && text.tokenizer().drops_leading_space() && bytes.starts_with(' ')) bytes.remove_prefix(1);
    return bytes;
  }

  void add(Choice& choice, const TextPiece& piece) {
    choice.text += std::exchange(choice.echo, {}) + piece.text;
    if (piece.finish) choice.finish = name_of(*piece.finish);
    if (has_logprobs) add_scores(choice, piece);
    generated += piece.tokens;
  }

  /// The parts of a choice that are new, by the form of the answer. Takes the scores out of the choice: a
  /// copy of many would take much memory.
  OrderedJson json_of(Choice& choice, std::size_t index, bool is_chunk) const {
    OrderedJson logprobs = nullptr;
    if (has_logprobs && form == AnswerForm::kChat) {
      logprobs = OrderedJson::object();
      logprobs["content"] = std::exchange(choice.tokens, OrderedJson::array());
    } else if (has_logprobs) {
      logprobs = OrderedJson::object();
      logprobs["tokens"] = std::exchange(choice.tokens, OrderedJson::array());
      logprobs["token_logprobs"] = std::exchange(choice.logprobs, OrderedJson::array());
      logprobs["top_logprobs"] = std::exchange(choice.top, OrderedJson::array());
      logprobs["text_offset"] = std::exchange(choice.offsets, OrderedJson::array());
    }
    OrderedJson result = OrderedJson::object();
    result["index"] = index;
    if (form == AnswerForm::kChat) {
      OrderedJson message = OrderedJson::object();
      if (!std::exchange(choice.begun, true)) message["role"] = "assistant";
      if (!is_chunk || message.contains("role") || !choice.text.empty())
        message["content"] = std::exchange(choice.text, {});
      result[is_chunk ? "delta" : "message"] = std::move(message);
    } else {
      result["text"] = std::exchange(choice.text, {});
    }
    result["logprobs"] = std::move(logprobs);
    result["finish_reason"] = choice.finish;
    return result;
  }

  OrderedJson usage() const {
    return {{"prompt_tokens", prompt_tokens},
            {"completion_tokens", generated},
            {"total_tokens", prompt_tokens + generated}};
  }
  OrderedJson object(OrderedJson choice_list, bool is_chunk) const {
    const char* const kind = form == AnswerForm::kText ? "text_completion"
                             : is_chunk                ? "chat.completion.chunk"
                                                       : "chat.completion";
    OrderedJson result = {{"id", id}, {"object", kind}, {"created", created}, {"model", model}};
    result["choices"] = std::move(choice_list);  // a list of initial values would copy it
    return result;
  }

  const TokenText& text;
  std::string model;
  AnswerForm form = AnswerForm::kText;
  std::string id = new_id(form);
  std::int64_t created =
      std::chrono::duration_cast<std::chrono::seconds>(std::chrono::system_clock::now().time_since_epoch())
          .count();
  bool has_logprobs = false;
  std::int64_t prompt_tokens = 0, generated = 0;
  std::vector<Choice> choices = {};
};

CompletionJson::CompletionJson(const CompletionRequest& request, const std::vector<std::vector<TokenId>>& ids,
                               std::string model, const TokenText& text, AnswerForm form)
    : state_(new State{.text = text, .model = std::move(model), .form = form}) {
  state_->has_logprobs = request.logprobs.has_value();
  for (std::size_t i = 0; i < ids.size(); ++i) {
    state_->prompt_tokens += std::ssize(ids[i]);
    State::Choice choice;
    const auto* const given = std::get_if<std::string>(&request.prompts[i]);
    choice.is_text = given != nullptr;
    if (request.echo) {
      choice.echo = given != nullptr ? *given : text.decode(ids[i]);
      if (state_->has_logprobs) choice.prompt_left = std::ssize(ids[i]);
    }
    state_->choices.insert(state_->choices.end(), static_cast<std::size_t>(request.n), choice);
  }
}

std::int64_t CompletionJson::prompt_tokens() const {
  return state_->prompt_tokens;
}

std::int64_t CompletionJson::generated_tokens() const {
  return state_->generated;
}

CompletionJson::~CompletionJson() = default;
CompletionJson::CompletionJson(CompletionJson&&) noexcept = default;

void CompletionJson::add(const TextPiece& piece) {
  state_->add(state_->choices[piece.choice], piece);
}

std::string CompletionJson::whole() {
  OrderedJson choices = OrderedJson::array();
  for (std::size_t i = 0; i < state_->choices.size(); ++i)
    choices.push_back(state_->json_of(state_->choices[i], i, /*is_chunk=*/false));
  OrderedJson object = state_->object(std::move(choices), /*is_chunk=*/false);
  object["usage"] = state_->usage();
  return dump(object);
}

std::string CompletionJson::chunk(const TextPiece& piece) {
  State::Choice& choice = state_->choices[piece.choice];
  state_->add(choice, piece);
  if (choice.text.empty() && choice.tokens.empty() && choice.finish.is_null()) return {};
  return dump(state_->object(OrderedJson::array({state_->json_of(choice, piece.choice, /*is_chunk=*/true)}),
                             /*is_chunk=*/true));
}

std::string CompletionJson::usage_chunk() const {
  OrderedJson object = state_->object(OrderedJson::array(), /*is_chunk=*/true);
  object["usage"] = state_->usage();
  return dump(object);
}

}  // namespace moh
