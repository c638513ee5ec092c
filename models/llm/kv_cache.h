#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "core/tensor.h"

namespace moh {

/// Keys and values of T consecutive tokens in one layer, [B, T, G, d] each.
struct KvRows {
  Tensor k, v;
};

/// Keys and values of one layer for the tokens so far, of all KV heads: later tokens may select any head. A
/// layer with a sliding window keeps those that a later token can see, and some more: it drops the first ones
/// by multiples of kDecodePartKeys (ops/attention/decode.h), so that how its tokens were divided into passes
/// changes no bit of what is computed of it.
class LayerCache {
 public:
  /// The operands of attention_decode: the first `count` tokens of k and v [B, G, slots, d], each head
  /// contiguous.
  struct Keys {
    Tensor k, v;
    std::int64_t count = 0;
  };

  /// For B sequences of up to `capacity` tokens, G KV heads of width d, and a layer of this window (0: none).
  LayerCache(std::int64_t batch, std::int64_t kv_heads, std::int64_t capacity, std::int64_t head_dim,
             std::int64_t window, DType dtype, Device device);

  /// Without a window, and with memory that grows with the tokens, by an eighth at a time.
  static LayerCache growing(std::int64_t batch, std::int64_t kv_heads, std::int64_t capacity,
                            std::int64_t head_dim, DType dtype, Device device);

  /// For B sequences of up to `capacity` tokens of which each of `windows.size()` heads stores those that
  /// select it: a cache of its own for each (sequence, head), of batch 1 and one head, with the head's
  /// window. Memory of heads without a window grows with their rows, by an eighth at a time.
  LayerCache(std::int64_t batch, std::span<const std::int64_t> windows, std::int64_t capacity,
             std::int64_t head_dim, DType dtype, Device device);
  /// The caches of [B, H], to which the rows of the heads are appended; empty for a cache of all tokens.
  std::span<LayerCache> heads() { return heads_; }
  /// Counts `count` tokens more, whose rows the heads take. Throws as append() does.
  void advance(std::int64_t count);

  /// Appends new_k and new_v [B, T, G, d] and returns the keys that these tokens see, theirs included. Throws
  /// ShapeError naming the capacity when they do not fit.
  Keys append(const Tensor& new_k, const Tensor& new_v);
  /// Whether last() are from now on the rows that append() took last.
  void keep_last(bool keeps) {
    keeps_last_ = keeps;
    if (!keeps) last_ = {};
  }
  const KvRows& last() const { return last_; }

  /// A copy with slots of its own.
  LayerCache clone() const;

  /// Number of tokens so far, and of those that there is room for.
  std::int64_t length() const { return length_; }
  std::int64_t capacity() const { return capacity_; }
  /// Whether no token so far was dropped.
  bool holds_all() const { return stored_ == length_ && heads_.empty(); }
  /// Sequence i continues from now on what sequence rows[i] was: any number of them, in any order. For a
  /// cache of all tokens. Throws ValueError for a sequence that there is not.
  void select(std::span<const std::int64_t> rows);
  /// Forgets the tokens from `length` on, so that others can follow the first ones. Throws ValueError above
  /// the tokens so far, where the first ones were dropped, and for a cache of heads().
  void rewind(std::int64_t length);
  /// The slots, [B, G, slots, d].
  const Tensor& k() const { return k_; }
  const Tensor& v() const { return v_; }
  /// As if `length` tokens had been appended whose keys and values are what the slots hold (measurements).
  void set_length(std::int64_t length);
  /// Memory of the slots.
  std::int64_t bytes() const;

 private:
  void require_room(std::int64_t count) const;
  void grow_to(std::int64_t rows);

  Tensor k_, v_;
  std::int64_t capacity_, window_;
  bool grows_ = false;
  std::vector<LayerCache> heads_;
  std::int64_t length_ = 0;
  std::int64_t stored_ = 0;  // of the tokens so far, the last, in slots 0 ... stored_ - 1
  bool keeps_last_ = false;
  KvRows last_;
};

/// The caches of all layers of one model.
struct KvCache {
  std::vector<LayerCache> layers;

  std::int64_t length() const { return layers.empty() ? 0 : layers.front().length(); }
  std::int64_t capacity() const { return layers.empty() ? 0 : layers.front().capacity(); }
  /// Memory of the slots.
  std::int64_t bytes() const;
  /// As those of LayerCache, for every layer.
  bool holds_all() const;
  void rewind(std::int64_t length);
  void keep_last(bool keeps);
  /// A copy with slots of its own: for texts that go on differently from here.
  KvCache clone() const;
};

}  // namespace moh
