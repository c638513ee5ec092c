#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "train/apps/serve/requests.h"
#include "train/apps/serve/token_text.h"

namespace moh {

/// Turns the messages of a chat into a prompt, in the form that the model was trained with: by the chat
/// template in the files of its tokenizer (chat_template.jinja, else `chat_template` of
/// tokenizer_config.json, else chat_template.json), else by the message_template of its run. Special tokens
/// that the template writes become their ids; in the text of a message they are text. Thread-safe.
class ChatTemplate {
 public:
  /// `text` must outlive the object. A template that cannot be used is no error until encode(): texts are
  /// served without it.
  ChatTemplate(const TokenText& text, std::string_view message_template);
  ~ChatTemplate();

  /// Why there are no chats; "" if there are.
  const std::string& fault() const;
  /// The tokens that end an answer for the template, and the text that does where that is no token.
  const std::vector<TokenId>& ends() const;
  const std::vector<std::string>& stops() const;

  /// The tokens of the messages and of what comes before the model's answer. Throws RequestError, status 400:
  /// without a usable template, for messages that the template refuses, for more than `positions` tokens, and
  /// for text that the vocabulary cannot express.
  std::vector<TokenId> encode(const std::vector<ChatMessage>& messages, std::int64_t positions) const;

 private:
  struct Parts;
  std::unique_ptr<const Parts> parts_;
};

}  // namespace moh
