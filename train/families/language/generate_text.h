#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/function_ref.h"
#include "core/random.h"
#include "train/tokenizers/tokenizer.h"

namespace moh {

class Llama;

/// How the next token is drawn from a model's distribution.
struct PickOptions {
  double temperature = 1.0;  ///< 0: always the most probable token
  std::int64_t top_k = 0;    ///< only the k most probable; 0: all
  double top_p = 1.0;  ///< nucleus: smallest set of most probable ones with this probability (Holtzman 2020)
};

/// Options of generate_text.
struct GenerateOptions {
  std::int64_t tokens = 256;  ///< at most this many new ones
  PickOptions pick;
  std::uint64_t seed = 0;
  std::vector<std::string> stop;  ///< texts before which to stop; not empty ones
  std::vector<TokenId> ends;      ///< tokens that end a text, besides the end-of-document token
};

/// The random numbers with which a text is generated.
RandomKey generation_key(std::uint64_t seed);

/// Samples tokens; the i-th call of pick() is a function of the logits, the options, key and i.
class TokenPicker {
 public:
  /// Throws ValueError for a negative temperature or top_k, or top_p outside (0, 1].
  TokenPicker(const PickOptions& options, RandomKey key);

  /// Samples an id of [0, logits.size()). Ids with NaN logits are never drawn; throws NumericError if all
  /// logits are NaN.
  std::int32_t pick(std::span<const float> logits);

 private:
  PickOptions options_;
  RandomKey key_;
  std::uint64_t draws_ = 0;
  std::vector<std::int32_t> order_;
  std::vector<double> weights_;
};

/// The reason why a generated text ended.
enum class TextEnd {
  kTokens,         ///< GenerateOptions::tokens were generated
  kEndOfDocument,  ///< the end-of-document token or one of GenerateOptions::ends was drawn
  kStop,           ///< a text of GenerateOptions::stop was generated
  kInterrupted     ///< `interrupt` returned true
};

/// The result of generate_text.
struct GenerateReport {
  std::int64_t prompt_tokens = 0;
  std::int64_t new_tokens = 0;
  double seconds = 0;  ///< time of generating the new tokens, without the prompt's forward pass
  TextEnd end = TextEnd::kTokens;
};

/// The tokens of a prompt, after those that a text begins with. Throws ValueError if there are none, and for
/// more tokens than `positions`, DataError for text that the tokenizer cannot encode; messages begin with
/// `where`.
std::vector<TokenId> encode_prompt(std::string_view where, const Tokenizer& tokenizer,
                                   std::string_view prompt, std::int64_t positions);

/// Continues the tokens of a prompt and passes the new text to `sink` as it is generated, in whole
/// characters. Uses a KV cache, of which only the selected heads are read. Stops at the end-of-document token
/// or one of options.ends, before a text of options.stop, which is not passed on, or if `interrupt`, which is
/// called before each token, returns true. When the context reaches the model's max_positions, its first half
/// is dropped and the rest is processed again. Throws ValueError for an empty prompt or stop text, a prompt
/// that is longer than max_positions, an id that the model does not have, and a negative number of tokens.
GenerateReport generate_text(
    const Llama& model, const Tokenizer& tokenizer, std::vector<TokenId> prompt,
    const GenerateOptions& options, const std::function<void(std::string_view)>& sink,
    FunctionRef<bool()> interrupt = [] { return false; });
/// Continues a text, whose tokens are those of encode_prompt(). Throws as both.
GenerateReport generate_text(
    const Llama& model, const Tokenizer& tokenizer, std::string_view prompt, const GenerateOptions& options,
    const std::function<void(std::string_view)>& sink, FunctionRef<bool()> interrupt = [] { return false; });

}  // namespace moh
