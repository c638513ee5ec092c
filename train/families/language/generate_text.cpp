#include "train/families/language/generate_text.h"

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "core/error.h"
#include "models/llm/llama.h"
#include "train/base/log/progress.h"
#include "train/families/language/stop_filter.h"

namespace moh {

namespace {

Tensor as_batch(std::span<const TokenId> ids) {
  return tensor_of<TokenId>({1, static_cast<std::int64_t>(ids.size())}, ids);
}

/// The tokens so far and their KV cache.
class Context {
 public:
  Context(const Llama& model, std::vector<TokenId> ids, std::int64_t new_tokens)
      : model_(model),
        ids_(std::move(ids)),
        capacity_(std::min<std::int64_t>(model.config().max_positions,
                                         static_cast<std::int64_t>(ids_.size()) + new_tokens)),
        cache_(model.make_cache(1, capacity_)) {}

  /// Logits of the token after the last.
  Tensor next_logits() {
    if (static_cast<std::int64_t>(ids_.size()) > capacity_) forget_half();
    const auto done = static_cast<std::size_t>(cache_.length());
    return model_.decode(as_batch(std::span(ids_).subspan(done)), cache_);
  }
  void append(TokenId id) { ids_.push_back(id); }

 private:
  void forget_half() {
    ids_.erase(ids_.begin(), ids_.end() - (capacity_ + 1) / 2);
    cache_ = model_.make_cache(1, capacity_);
  }

  const Llama& model_;
  std::vector<TokenId> ids_;
  std::int64_t capacity_;
  KvCache cache_;
};

constexpr std::string_view kPrompt = "generate: prompt";

/// Throws ValueError, from `where`, unless a prompt has 1 to `positions` tokens.
void require_fit(std::string_view where, const std::vector<TokenId>& prompt, std::int64_t positions) {
  const auto count = static_cast<std::int64_t>(prompt.size());
  if (count >= 1 && count <= positions) return;
  throw ValueError(
      error_message(where, "", "1 to " + std::to_string(positions) + " tokens", std::to_string(count)));
}

}  // namespace

TokenPicker::TokenPicker(const PickOptions& options, RandomKey key) : options_(options), key_(key) {
  const auto refuse = [](const char* what, const char* expected, double found) {
    throw ValueError(error_message("generate", what, expected, std::to_string(found)));
  };
  if (!(options.temperature >= 0)) refuse("temperature", "0 or more", options.temperature);
  if (options.top_k < 0) refuse("top_k", "0 (all) or more", static_cast<double>(options.top_k));
  if (!(options.top_p > 0 && options.top_p <= 1)) refuse("top_p", "above 0, up to 1", options.top_p);
}

RandomKey generation_key(std::uint64_t seed) {
  return {seed, 0x67656e};  // "gen", distinct from the streams of initialisation and training
}

std::int32_t TokenPicker::pick(std::span<const float> logits) {
  order_.clear();
  for (std::size_t i = 0; i < logits.size(); ++i) {
    if (!std::isnan(logits[i])) order_.push_back(static_cast<std::int32_t>(i));
  }
  if (order_.empty()) throw NumericError("generate: all logits are NaN; the model's weights are damaged");
  const auto logit = [&](std::int32_t id) {
    return static_cast<double>(logits[static_cast<std::size_t>(id)]);
  };
  // Ties go to the lower id, so that the order is the same everywhere.
  const auto before = [&](std::int32_t a, std::int32_t b) {
    return logit(a) != logit(b) ? logit(a) > logit(b) : a < b;
  };
  const std::uint64_t draw = draws_++;
  if (options_.temperature == 0) return *std::min_element(order_.begin(), order_.end(), before);
  if (options_.top_k > 0 && options_.top_k < std::ssize(order_)) {
    std::partial_sort(order_.begin(), order_.begin() + options_.top_k, order_.end(), before);
    order_.resize(static_cast<std::size_t>(options_.top_k));
  } else {
    std::sort(order_.begin(), order_.end(), before);
  }

  weights_.clear();
  double sum = 0;
  for (std::int32_t id : order_)
    sum += weights_.emplace_back(std::exp((logit(id) - logit(order_[0])) / options_.temperature));
  std::size_t kept = 0;
  double mass = 0;
  while (kept < order_.size() && (kept == 0 || mass < options_.top_p * sum)) mass += weights_[kept++];

  double left = mass * random_uniform(key_, draw);
  for (std::size_t i = 0; i < kept; ++i) {
    left -= weights_[i];
    if (left < 0) return order_[i];
  }
  return order_[kept - 1];  // rounding errors: the probabilities summed to slightly less than 1
}

std::vector<TokenId> encode_prompt(std::string_view where, const Tokenizer& tokenizer,
                                   std::string_view prompt, std::int64_t positions) {
  std::vector<TokenId> ids = tokenizer.sequence_start();
  try {
    tokenizer.encode(prompt, ids);
  } catch (const DataError& error) {
    throw DataError(std::string(where) + ": " + error.what());
  }
  require_fit(where, ids, positions);
  return ids;
}

GenerateReport generate_text(const Llama& model, const Tokenizer& tokenizer, std::string_view prompt,
                             const GenerateOptions& options,
                             const std::function<void(std::string_view)>& sink,
                             FunctionRef<bool()> interrupt) {
  return generate_text(model, tokenizer,
                       encode_prompt(kPrompt, tokenizer, prompt, model.config().max_positions), options, sink,
                       interrupt);
}

GenerateReport generate_text(const Llama& model, const Tokenizer& tokenizer, std::vector<TokenId> prompt,
                             const GenerateOptions& options,
                             const std::function<void(std::string_view)>& sink,
                             FunctionRef<bool()> interrupt) {
  require_fit(kPrompt, prompt, model.config().max_positions);
  GenerateReport report;
  report.prompt_tokens = static_cast<std::int64_t>(prompt.size());
  if (options.tokens < 0) {
    throw ValueError(error_message("generate", "tokens", "0 or more", std::to_string(options.tokens)));
  }
  Context context(model, std::move(prompt), options.tokens);
  TokenPicker picker(options.pick, generation_key(options.seed));
  Utf8Stream text;
  StopFilter filter(options.stop);
  double begin = 0;
  while (report.new_tokens < options.tokens && !filter.stopped()) {
    if (interrupt()) {
      report.end = TextEnd::kInterrupted;
      break;
    }
    const Tensor logits = context.next_logits().to(kCpu);
    if (report.new_tokens == 0) begin = monotonic_seconds();
    // The model's vocabulary may be padded beyond the tokenizer's.
    const TokenId id =
        picker.pick(logits.span<float>().first(static_cast<std::size_t>(tokenizer.vocab_size())));
    ++report.new_tokens;
    if (id == tokenizer.end_of_document() || std::ranges::find(options.ends, id) != options.ends.end()) {
      report.end = TextEnd::kEndOfDocument;
      break;
    }
    sink(filter.push(text.push(tokenizer.token_bytes(id))));
    context.append(id);
  }
  sink(filter.push(text.finish()) + filter.finish());
  if (filter.stopped()) report.end = TextEnd::kStop;
  if (report.new_tokens > 0) report.seconds = monotonic_seconds() - begin;
  return report;
}

}  // namespace moh
