#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "train/apps/serve/completion.h"
#include "train/apps/serve/requests.h"
#include "train/apps/serve/token_text.h"

namespace moh {

/// The form of an answer.
enum class AnswerForm {
  kText,  ///< to POST /v1/completions: OpenAI's objects of type text_completion
  kChat   ///< to POST /v1/chat/completions: chat.completion, chat.completion.chunk
};

/// The JSON of an answer, whole or as the chunks of a stream.
class CompletionJson {
 public:
  /// `ids` are the tokens of the request's prompts. `text` must outlive the object.
  CompletionJson(const CompletionRequest& request, const std::vector<std::vector<TokenId>>& ids,
                 std::string model, const TokenText& text, AnswerForm form = AnswerForm::kText);
  ~CompletionJson();
  CompletionJson(CompletionJson&&) noexcept;

  /// Adds a piece to the whole answer.
  void add(const TextPiece& piece);
  /// The whole answer, once.
  std::string whole();
  /// The chunk of a stream with this piece; "" for one that says nothing.
  std::string chunk(const TextPiece& piece);
  /// The last chunk of a stream, with the numbers of tokens.
  std::string usage_chunk() const;
  /// Tokens of the prompts, and generated so far.
  std::int64_t prompt_tokens() const;
  std::int64_t generated_tokens() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace moh
