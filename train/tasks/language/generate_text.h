#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/function_ref.h"
#include "core/random.h"
#include "train/tasks/language/data/tokenizer.h"

namespace moh {

class Llama;

/// How the next token is drawn from a model's distribution.
struct PickOptions {
  double temperature = 1.0;  ///< 0: always the most probable token
  std::int64_t top_k = 0;    ///< only the k most probable; 0: all
  double top_p = 1.0;        ///< only the fewest most probable that hold this share (Holtzman et al. 2020)
};

/// How a text is continued.
struct GenerateOptions {
  std::int64_t tokens = 256;  ///< at most this many new ones
  PickOptions pick;
  std::uint64_t seed = 0;
  std::vector<std::string> stop;  ///< texts before which it ends; none of them empty
};

/// Draws tokens; the i-th draw of a sequence is a function of the logits, the options and (key, i).
class TokenPicker {
 public:
  /// Throws ValueError for a negative temperature or top_k, or top_p outside (0, 1].
  TokenPicker(const PickOptions& options, RandomKey key);

  /// One id of [0, logits.size()). NaN logits are never drawn; throws NumericError when nothing else is
  /// there.
  std::int32_t pick(std::span<const float> logits);

 private:
  PickOptions options_;
  RandomKey key_;
  std::uint64_t draws_ = 0;
  std::vector<std::int32_t> order_;
  std::vector<double> weights_;
};

/// What ended a text.
enum class TextEnd {
  kTokens,         ///< as many as were asked for
  kEndOfDocument,  ///< the model drew the token that ends a document
  kStop,           ///< one of GenerateOptions::stop came
  kInterrupted     ///< the caller wanted no more
};

/// What generate_text did.
struct GenerateReport {
  std::int64_t prompt_tokens = 0;
  std::int64_t new_tokens = 0;
  double seconds = 0;  ///< of drawing the new tokens, the prompt's forward pass not included
  TextEnd end = TextEnd::kTokens;
};

/// The tokens of a prompt. Throws ValueError for an empty one and for more tokens than `positions`, DataError
/// for text that is not the tokenizer's; messages begin with `where`.
std::vector<TokenId> encode_prompt(std::string_view where, const Tokenizer& tokenizer,
                                   std::string_view prompt, std::int64_t positions);

/// Continues `prompt` and hands the text to `sink` as it comes, in whole characters (without the prompt).
/// Keys and values of earlier tokens come from a cache of which only the selected heads are read. Stops early
/// at the end-of-document token, and before a text of options.stop, of which nothing is handed out. When the
/// model's positions are used up, the first half of the text is forgotten and the rest is read again. Ends
/// when `interrupt`, which is called before each token, returns true. Throws ValueError for an empty prompt
/// or stop text, a prompt that is longer than the model's positions, and a negative number of tokens.
GenerateReport generate_text(
    const Llama& model, const Tokenizer& tokenizer, std::string_view prompt, const GenerateOptions& options,
    const std::function<void(std::string_view)>& sink, FunctionRef<bool()> interrupt = [] { return false; });

}  // namespace moh
