#include "train/apps/serve/spare_caches.h"

#include "train/apps/serve/prefix_cache.h"

namespace moh {

void SpareCaches::keep(std::span<const TokenId> prompt, KvCache cache) {
  if (!cache.holds_all()) return;
  cache.rewind(std::ssize(prompt));
  const std::int64_t tokens = cache.capacity(), bytes = cache.bytes();
  spares_.push_front({{prompt.begin(), prompt.end()}, std::move(cache)});
  tokens_ += tokens;
  bytes_ += bytes;
  while (bytes_ > most_bytes_) drop_first();
}

std::optional<KvCache> SpareCaches::take(std::span<const TokenId> prompt, std::int64_t capacity) {
  auto best = spares_.end();
  std::int64_t most = -1;
  for (auto spare = spares_.begin(); spare != spares_.end(); ++spare) {
    if (spare->cache.capacity() < capacity) continue;
    const std::int64_t common = common_beginning(spare->tokens, prompt);
    if (common <= most) continue;
    best = spare;
    most = common;
  }
  if (best == spares_.end()) return std::nullopt;
  KvCache cache = std::move(best->cache);
  spares_.erase(best);
  tokens_ -= cache.capacity();
  bytes_ -= cache.bytes();
  cache.rewind(most);
  return cache;
}

void SpareCaches::shrink(std::int64_t tokens) {
  while (tokens_ > tokens) drop_first();
}

void SpareCaches::drop_first() {
  tokens_ -= spares_.back().cache.capacity();
  bytes_ -= spares_.back().cache.bytes();
  spares_.pop_back();
}

}  // namespace moh
