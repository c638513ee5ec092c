#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "train/tokenizers/tokenizer.h"
#include "train/trainer/task/family.h"
#include "train/trainer/task/load_model.h"

namespace moh {

class Llama;

/// Language models of the LLaMA family: `task: language_model`.
const Family& language_family();

/// A trained language model with its tokenizer.
struct LanguageModel {
  const Llama& model;  ///< owned by the LoadedModel
  std::unique_ptr<const Tokenizer> tokenizer;
  /// Tokens that end a text by the model's generation_config.json, else its config.json. A chat model has
  /// several: LLaMA 3's <|end_of_text|> and <|eot_id|>.
  std::vector<TokenId> ends;
  /// data.message_template of its run: the form of a message of a chat; empty: none.
  std::string message_template;
};

/// The language model of a checkpoint. Throws ConfigError, naming `command`, for a model of another task.
LanguageModel as_language_model(const LoadedModel& loaded, std::string_view command);

}  // namespace moh
