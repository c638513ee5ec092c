#include "train/tasks/language/score/continue_prompts.h"

#include <algorithm>
#include <utility>

#include "core/error.h"
#include "models/llm/llama.h"
#include "ops/loss/top1.h"
#include "train/tasks/language/score/prefix_caches.h"
#include "train/tasks/language/stop_filter.h"

namespace moh {

namespace {

/// A text that grows token by token.
class GrowingText {
 public:
  GrowingText(const Tokenizer& tokenizer, const ContinueOptions& options)
      : tokenizer_(tokenizer), options_(options), filter_(options.stop) {}

  bool ended() const { return ended_; }

  void add(TokenId id) {
    ended_ = id == tokenizer_.end_of_document() || std::ranges::count(options_.ends, id) > 0;
    if (ended_) return;
    text_ += filter_.push(tokenizer_.token_bytes(id));
    ended_ = filter_.stopped() || ++tokens_ == options_.tokens;
  }

  std::string take() {
    text_ += filter_.finish();
    std::string_view text = text_;
    if (tokenizer_.drops_leading_space() && text.starts_with(' ')) text.remove_prefix(1);
    return with_valid_utf8(text);
  }

 private:
  const Tokenizer& tokenizer_;
  const ContinueOptions& options_;
  StopFilter filter_;
  std::string text_;
  std::int64_t tokens_ = 0;
  bool ended_ = false;
};

/// The most probable tokens that the tokenizer has: the model's vocabulary may be padded beyond it.
std::vector<TokenId> best_tokens(const Tensor& logits, std::int64_t vocab_size) {
  const Tensor best = top1(logits).to(kCpu);
  std::vector<TokenId> ids;
  for (std::int64_t i = 0; i < logits.dim(0); ++i) {
    std::int64_t id = best.data<std::int64_t>()[i];
    if (id >= vocab_size) {
      const Tensor row = logits.slice(i, i + 1).to(kCpu);
      const float* first = row.data<float>();
      id = std::max_element(first, first + vocab_size) - first;
    }
    ids.push_back(static_cast<TokenId>(id));
  }
  return ids;
}

class Continuer {
 public:
  Continuer(const Llama& model, const Tokenizer& tokenizer, std::span<const PlannedText> texts,
            const ContinueOptions& options)
      : model_(model), vocab_size_(tokenizer.vocab_size()), texts_(texts) {
    for (std::size_t i = 0; i < texts.size(); ++i) grown_.emplace_back(tokenizer, options);
  }

  std::string take(std::size_t i) { return grown_[i].take(); }

  /// Returns false if `stop` returned true.
  bool grow(const ScoreBatch& batch, const std::optional<KvCache>& prefix, FunctionRef<bool()> stop) {
    KvCache cache = make_batch_cache(model_, batch, prefix);
    const std::int64_t count = std::ssize(batch.groups);
    Tensor ids = contexts_of(batch, texts_, prefix ? prefix->length() : 0);
    while (true) {
      const std::int64_t length = ids.dim(1);
      const Tensor hidden = model_.decode_hidden(ids, cache);
      const Tensor rows = empty({count}, DType::kInt64);
      for (std::int64_t g = 0; g < count; ++g) rows.data<std::int64_t>()[g] = (g + 1) * length - 1;
      const std::vector<TokenId> next = best_tokens(model_.logits_at(hidden, rows), vocab_size_);
      if (!add(batch, next)) return true;
      if (stop()) return false;
      ids = tensor_of<TokenId>({count, 1}, next);
    }
  }

 private:
  /// Adds a token to each text that has not ended; returns whether there is still one.
  bool add(const ScoreBatch& batch, const std::vector<TokenId>& next) {
    bool grows = false;
    for (std::size_t g = 0; g < batch.groups.size(); ++g) {
      for (const std::size_t text : batch.groups[g].texts) {
        if (!grown_[text].ended()) grown_[text].add(next[g]);
        grows = grows || !grown_[text].ended();
      }
    }
    return grows;
  }

  const Llama& model_;
  std::int64_t vocab_size_;
  std::span<const PlannedText> texts_;
  std::vector<GrowingText> grown_;
};

void fit(std::vector<TokenId>& prompt, std::int64_t positions, std::int64_t tokens) {
  if (prompt.empty()) throw ValueError(error_message("generate", "prompt", "a token or more", "none"));
  const std::int64_t too_many = std::ssize(prompt) + tokens - positions;
  if (too_many > 0) prompt.erase(prompt.begin(), prompt.begin() + too_many);
}

}  // namespace

std::optional<std::vector<std::string>> continue_prompts(const Llama& model, const Tokenizer& tokenizer,
                                                         std::vector<std::vector<TokenId>> prompts,
                                                         const ContinueOptions& options,
                                                         const ScoreLimits& limits, StopScoring stop) {
  const std::int64_t positions = model.config().max_positions;
  if (options.tokens < 1 || options.tokens >= positions)
    throw ValueError(error_message("generate", "new tokens",
                                   "1 to less than the model's " + std::to_string(positions) + " positions",
                                   std::to_string(options.tokens)));
  std::vector<PlannedText> texts;
  for (std::vector<TokenId>& prompt : prompts) {
    fit(prompt, positions, options.tokens);
    texts.push_back({prompt, options.tokens - 1});
  }
  Continuer continuer(model, tokenizer, texts, options);
  const std::vector<PrefixGroup> plan = plan_texts(texts, limits);
  ScoreProgress progress{0, computed_tokens(plan, texts)};
  for (const PrefixGroup& group : plan) {
    if (group.prefix_tokens > 0 && stop(progress)) return std::nullopt;
    const std::optional<KvCache> prefix = make_prefix_cache(model, group, texts);
    progress.done += group.prefix_tokens;
    for (const ScoreBatch& batch : group.batches) {
      if (stop(progress)) return std::nullopt;
      if (!continuer.grow(batch, prefix, [&] { return stop(progress); })) return std::nullopt;
      progress.done += computed_tokens(batch, texts);
    }
  }
  std::vector<std::string> grown;
  for (std::size_t i = 0; i < texts.size(); ++i) grown.push_back(continuer.take(i));
  return grown;
}

}  // namespace moh
