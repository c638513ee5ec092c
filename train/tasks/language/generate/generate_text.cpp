#include "train/tasks/language/generate/generate_text.h"

#include <algorithm>
#include <span>
#include <vector>

#include "core/error.h"
#include "train/log/progress.h"
#include "train/tasks/language/data/tokenizer.h"
#include "train/tasks/language/generate/token_picker.h"

namespace moh {

namespace {

/// Stream of the random numbers, apart from those of initialisation and training.
constexpr std::uint64_t kStream = 0x67656e;  // "gen"

Tensor as_batch(std::span<const TokenId> ids) {
  return tensor_of<TokenId>({1, static_cast<std::int64_t>(ids.size())}, ids);
}

/// The tokens so far, with the model's cache of them.
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

}  // namespace

GenerateReport generate_text(const Llama& model, const Tokenizer& tokenizer, std::string_view prompt,
                             const GenerateOptions& options,
                             const std::function<void(std::string_view)>& sink) {
  std::vector<TokenId> ids;
  tokenizer.encode(prompt, ids);
  GenerateReport report;
  report.prompt_tokens = static_cast<std::int64_t>(ids.size());
  const std::int64_t positions = model.config().max_positions;
  if (ids.empty() || report.prompt_tokens > positions) {
    throw ValueError(error_message("generate", "prompt", "1 to " + std::to_string(positions) + " tokens",
                                   std::to_string(report.prompt_tokens)));
  }
  if (options.tokens < 0) {
    throw ValueError(error_message("generate", "tokens", "0 or more", std::to_string(options.tokens)));
  }
  Context context(model, std::move(ids), options.tokens);
  TokenPicker picker(options.pick, {options.seed, kStream});
  Utf8Stream text;
  double begin = 0;
  while (report.new_tokens < options.tokens) {
    const Tensor logits = context.next_logits().to(kCpu);
    if (report.new_tokens == 0) begin = monotonic_seconds();
    // The model's vocabulary may be padded beyond the tokenizer's.
    const TokenId id =
        picker.pick(logits.span<float>().first(static_cast<std::size_t>(tokenizer.vocab_size())));
    ++report.new_tokens;
    if (id == tokenizer.end_of_document()) break;
    sink(text.push(tokenizer.token_bytes(id)));
    context.append(id);
  }
  sink(text.finish());
  if (report.new_tokens > 0) report.seconds = monotonic_seconds() - begin;
  return report;
}

}  // namespace moh
