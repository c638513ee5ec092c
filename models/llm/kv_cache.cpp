#include "models/llm/kv_cache.h"

#include <string>

#include "core/error.h"
#include "ops/attention/cache_append.h"
#include "ops/attention/decode.h"
#include "ops/embedding/embedding.h"

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

LayerCache::LayerCache(std::int64_t batch, std::span<const std::int64_t> windows, std::int64_t capacity,
                       std::int64_t head_dim, DType dtype, Device device)
    : capacity_(capacity), window_(0) {
  for (std::int64_t b = 0; b < batch; ++b) {
    for (const std::int64_t window : windows) {
      const bool grows = slots_for(capacity, window) == capacity;
      heads_.emplace_back(1, 1, grows ? 0 : capacity, head_dim, window, dtype, device);
      heads_.back().capacity_ = capacity;
      heads_.back().grows_ = grows;
    }
  }
}

LayerCache LayerCache::growing(std::int64_t batch, std::int64_t kv_heads, std::int64_t capacity,
                               std::int64_t head_dim, DType dtype, Device device) {
  LayerCache cache(batch, kv_heads, 0, head_dim, 0, dtype, device);
  cache.capacity_ = capacity;
  cache.grows_ = true;
  return cache;
}

void LayerCache::require_room(std::int64_t count) const {
  if (length_ + count <= capacity_) return;
  throw ShapeError(error_message("kv cache", "tokens", "at most the capacity of " + std::to_string(capacity_),
                                 std::to_string(length_ + count)));
}

void LayerCache::advance(std::int64_t count) {
  require_room(count);
  length_ += count;
}

/// Makes room for so many rows. Each copy adds an eighth, so that a row costs the copies of eight others at
/// most.
void LayerCache::grow_to(std::int64_t rows) {
  if (!grows_ || rows <= k_.dim(2)) return;
  const std::int64_t slots = k_.dim(2);
  constexpr std::int64_t kUnit = 64;
  const std::int64_t wanted = (std::max(rows, slots + slots / 8) + kUnit - 1) / kUnit * kUnit;
  const Shape shape{k_.dim(0), k_.dim(1), std::min(capacity_, wanted), k_.dim(3)};
  for (Tensor* of : {&k_, &v_}) {
    const Tensor more = empty(shape, of->dtype(), of->device());
    copy_slots(*of, 0, stored_, more);
    *of = more;
  }
}

void LayerCache::set_length(std::int64_t length) {
  grow_to(length);
  length_ = length;
  stored_ = heads_.empty() ? std::min(length, k_.dim(2)) : 0;
}

std::int64_t LayerCache::bytes() const {
  std::int64_t bytes = k_.defined() ? static_cast<std::int64_t>(k_.bytes() + v_.bytes()) : 0;
  for (const LayerCache& head : heads_) bytes += head.bytes();
  return bytes;
}

LayerCache LayerCache::clone() const {
  LayerCache copy = *this;
  for (LayerCache& head : copy.heads_) head = head.clone();
  if (!k_.defined()) return copy;
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
  MOH_CHECK(heads_.empty(), "rows of a cache of heads are appended to them");
  const std::int64_t count = new_k.dim(1);
  require_room(count);
  grow_to(stored_ + count);
  const std::int64_t slots = k_.dim(2);
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

void LayerCache::select(std::span<const std::int64_t> rows) {
  MOH_CHECK(heads_.empty(), "sequences of a cache of heads are not selected");
  const auto count = static_cast<std::int64_t>(rows.size());
  const Tensor ids = tensor_of<std::int64_t>({count}, rows).to(k_.device());
  for (Tensor* of : {&k_, &v_}) {
    const Shape shape{count, of->dim(1), of->dim(2), of->dim(3)};
    const std::int64_t width = of->dim(1) * of->dim(2) * of->dim(3);
    *of = width == 0 ? empty(shape, of->dtype(), of->device())
                     : embedding(Variable(of->reshape({of->dim(0), width})), ids).value().reshape(shape);
  }
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
  std::int64_t bytes = 0;
  for (const LayerCache& layer : layers) bytes += layer.bytes();
  return bytes;
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
