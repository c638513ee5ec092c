#include "models/llm/kv_cache.h"

#include <string>

#include "core/error.h"
#include "ops/attention/cache_append.h"
#include "ops/attention/decode.h"

namespace moh {

namespace {

/// Slots of a layer with a window beyond it: what it may have to keep since it drops whole multiples, and
/// more: each time that they are used up, the last tokens move to the front, so that a token costs the copies
/// of eight others at most.
std::int64_t spare_slots(std::int64_t window) {
  const std::int64_t kept = window + kDecodePartKeys;
  return kDecodePartKeys + std::max<std::int64_t>(64, kept / 8);
}

std::int64_t slots_for(std::int64_t capacity, std::int64_t window) {
  return window == 0 || window >= capacity ? capacity : std::min(capacity, window + spare_slots(window));
}

/// The number of `stored` tokens that stay when the first ones are dropped, at least `needed` of them.
std::int64_t kept_of(std::int64_t stored, std::int64_t needed) {
  return stored - (stored - std::min(stored, needed)) / kDecodePartKeys * kDecodePartKeys;
}

/// Copies slots [begin, end) of each head to the first of `to`, which may be the same tensor.
void copy_slots(const Tensor& from, std::int64_t begin, std::int64_t end, const Tensor& to) {
  if (begin == end) return;
  for (std::int64_t b = 0; b < from.dim(0); ++b) {
    for (std::int64_t g = 0; g < from.dim(1); ++g) {
      // A copy of its own, as the two ranges may overlap.
      const Tensor slots = from.select(b).select(g).slice(begin, end).clone();
      to.select(b).select(g).slice(0, end - begin).copy_from(slots);
    }
  }
}

}  // namespace

LayerCache::LayerCache(std::int64_t batch, std::int64_t kv_heads, std::int64_t capacity,
                       std::int64_t head_dim, std::int64_t window, DType dtype, Device device)
    : k_(empty({batch, kv_heads, slots_for(capacity, window), head_dim}, dtype, device)),
      v_(empty(k_.shape(), dtype, device)),
      capacity_(capacity),
      window_(window) {}

LayerCache LayerCache::clone() const {
  LayerCache copy = *this;
  copy.k_ = k_.clone();
  copy.v_ = v_.clone();
  return copy;
}

KvCache KvCache::clone() const {
  KvCache copy;
  for (const LayerCache& layer : layers) copy.layers.push_back(layer.clone());
  return copy;
}

LayerCache::Keys LayerCache::append(const Tensor& new_k, const Tensor& new_v) {
  const std::int64_t count = new_k.dim(1), slots = k_.dim(2);
  if (length_ + count > capacity_) {
    throw ShapeError(error_message("kv cache", "tokens",
                                   "at most the capacity of " + std::to_string(capacity_),
                                   std::to_string(length_ + count)));
  }
  // The first of the new tokens sees a window less itself.
  const std::int64_t needed = stored_ + count <= slots ? stored_ : kept_of(stored_, window_ - 1);
  Keys keys{k_, v_, needed + count};
  if (keys.count > slots) {  // a long text at once
    keys.k = empty({k_.dim(0), k_.dim(1), keys.count, k_.dim(3)}, k_.dtype(), k_.device());
    keys.v = empty(keys.k.shape(), v_.dtype(), v_.device());
  }
  if (needed < stored_ || keys.count > slots) {
    copy_slots(k_, stored_ - needed, stored_, keys.k);
    copy_slots(v_, stored_ - needed, stored_, keys.v);
  }
  append_to_cache(new_k, new_v, keys.k, keys.v, needed);
  stored_ = keys.count > slots ? kept_of(keys.count, window_ - 1) : keys.count;
  if (keys.count > slots) {
    copy_slots(keys.k, keys.count - stored_, keys.count, k_);
    copy_slots(keys.v, keys.count - stored_, keys.count, v_);
  }
  length_ += count;
  if (keeps_last_) last_ = {new_k, new_v};
  return keys;
}

void LayerCache::rewind(std::int64_t length) {
  if (length < 0 || length > length_ || !holds_all()) {
    throw ValueError(
        error_message("kv cache", "length to rewind to",
                      "0 to the " + std::to_string(length_) + " tokens so far, all of them in the cache",
                      std::to_string(length) + " with " + std::to_string(stored_) + " tokens in the cache"));
  }
  length_ = stored_ = length;
}

std::int64_t KvCache::bytes() const {
  std::size_t bytes = 0;
  for (const LayerCache& layer : layers) bytes += layer.k().bytes() + layer.v().bytes();
  return static_cast<std::int64_t>(bytes);
}

bool KvCache::holds_all() const {
  return std::ranges::all_of(layers, &LayerCache::holds_all);
}

void KvCache::rewind(std::int64_t length) {
  for (LayerCache& layer : layers) layer.rewind(length);
}

void KvCache::keep_last(bool keeps) {
  for (LayerCache& layer : layers) layer.keep_last(keeps);
}

}  // namespace moh
