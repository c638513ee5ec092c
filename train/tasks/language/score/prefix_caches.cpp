#include "train/tasks/language/score/prefix_caches.h"

#include <algorithm>

namespace moh {

std::optional<KvCache> make_prefix_cache(const Llama& model, const PrefixGroup& group,
                                         std::span<const PlannedText> texts) {
  const std::int64_t count = group.prefix_tokens;
  if (count == 0) return std::nullopt;
  KvCache cache = model.make_cache(1, count, CacheReach::kAll);
  const std::size_t any = group.batches.front().groups.front().texts.front();
  model.decode_hidden(
      tensor_of<TokenId>({1, count}, texts[any].context.first(static_cast<std::size_t>(count))), cache);
  return cache;
}

KvCache make_batch_cache(const Llama& model, const ScoreBatch& batch, const std::optional<KvCache>& prefix) {
  const std::int64_t before = prefix ? prefix->length() : 0;
  KvCache cache = model.make_cache(std::ssize(batch.groups),
                                   before + batch.context_tokens + batch.longest_tail, CacheReach::kAll);
  if (prefix) cache.begin_with(*prefix);
  return cache;
}

Tensor contexts_of(const ScoreBatch& batch, std::span<const PlannedText> texts, std::int64_t begin) {
  Tensor ids = empty({std::ssize(batch.groups), batch.context_tokens}, DType::kInt32);
  for (std::size_t g = 0; g < batch.groups.size(); ++g) {
    const std::span<const TokenId> context = texts[batch.groups[g].texts.front()].context;
    std::ranges::copy(context.subspan(static_cast<std::size_t>(begin)),
                      ids.select(static_cast<std::int64_t>(g)).data<TokenId>());
  }
  return ids;
}

}  // namespace moh
