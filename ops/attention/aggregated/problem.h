#pragma once

// For kernel files (*_cuda.cu) only: what the kernels of aggregated attention share.

#include "ops/attention/aggregated/division.h"
#include "ops/attention/aggregated/head_slice.h"
#include "ops/attention/list_walk.h"
#include "ops/device/block.h"
#include "ops/device/math.h"

namespace moh::aggregated {

inline constexpr float kLog2e = 1.4426950408889634F;

/// The keys that each row attends to, distant ones first, then its neighbours; null words: all that it sees.
struct KeptKeys {
  std::uint32_t* words = nullptr;  ///< [kept_words(), rows], bit key % 32 of word key / 32; rows of all lists
  std::int64_t rows = 0;

  MOH_DEVICE bool holds(std::int64_t row, std::int64_t key) const {
    return words == nullptr || ((words[key / 32 * rows + row] >> (key % 32)) & 1U) != 0;
  }
};

/// The operands of both passes, in device memory.
template <class T>
struct Problem {
  AggregatedShape shape;
  RowLists lists;
  HeadView<const T> q, k, v, local_k, local_v;
  AggregatedParameters<const float> parameters;
  const float* gates = nullptr;
  const float* bias = nullptr;    ///< position biases as [H, keys, tokens]: neighbouring rows are neighbours
  const float* tokens = nullptr;  ///< learnable tokens as [H, neighbours, d]
  bool whole = false;             ///< rows of heads are whole chunks, aligned to 16 bytes
  KeptKeys kept;

  MOH_DEVICE int head_dim() const { return static_cast<int>(shape.pairs.head_dim); }
  MOH_DEVICE float gate(const List& list, const Pair& pair) const {
    return gates != nullptr ? gates[gate_index(shape.pairs, list, pair)] : 1.0F;
  }
  /// softplus of a head's temperature.
  MOH_DEVICE float temperature(std::int64_t head) const {
    const float t = parameters.temperature[head];
    return t > 20.0F ? t : log1pf(expf(t));
  }
};

/// A token's window in the image.
struct Window {
  int y, x, height, width, reach;

  MOH_DEVICE static Window of(const AggregatedShape& s, std::int64_t token) {
    const auto width = static_cast<unsigned>(s.width), t = static_cast<unsigned>(token);
    return {static_cast<int>(t / width), static_cast<int>(t % width), static_cast<int>(s.height),
            static_cast<int>(width), static_cast<int>(s.window / 2)};
  }
  /// Whether the token dy rows below and dx columns to the right is inside the image.
  MOH_DEVICE bool holds(int dy, int dx) const {
    return y + dy >= 0 && y + dy < height && x + dx >= 0 && x + dx < width;
  }
  /// Tokens of the window inside the image.
  MOH_DEVICE int count() const {
    const int above = y < reach ? y : reach, below = height - 1 - y < reach ? height - 1 - y : reach;
    const int left = x < reach ? x : reach, right = width - 1 - x < reach ? width - 1 - x : reach;
    return (above + below + 1) * (left + right + 1);
  }
};

/// Natural logarithm of the number of keys that a token sees.
MOH_DEVICE float log_keys(const AggregatedShape& s, const Window& window) {
  const int near = s.window > 0 ? window.count() : 0;
  return logf(static_cast<float>(near + static_cast<int>(s.pairs.keys)));
}

/// The neighbours of a token, those outside the image, too, so that all lanes take the same steps.
class Neighbour {
 public:
  MOH_DEVICE explicit Neighbour(const Window& window)
      : window_(window), dy_(-window.reach), dx_(-window.reach) {}

  MOH_DEVICE bool more() const { return dy_ <= window_.reach; }
  MOH_DEVICE void step() {
    ++number_;
    if (++dx_ <= window_.reach) return;
    dx_ = -window_.reach;
    ++dy_;
  }
  MOH_DEVICE int number() const { return number_; }
  MOH_DEVICE bool seen() const { return window_.holds(dy_, dx_); }
  /// Tokens from the query to it; 0 if it is outside.
  MOH_DEVICE int offset() const { return seen() ? dy_ * window_.width + dx_ : 0; }

 private:
  Window window_;
  int dy_, dx_, number_ = 0;
};

/// The key or value of a token of the list's image.
template <class Slice, class T>
MOH_DEVICE Slice token_row(const Problem<T>& p, const HeadView<const T>& view, const List& list,
                           std::int64_t token) {
  Slice slice;
  slice.load(key_row(view, list, token), p.head_dim(), p.whole);
  return slice;
}
template <class Slice, class T>
MOH_DEVICE Slice query_row(const Problem<T>& p, const HeadView<const T>& view, const List& list,
                           const Pair& pair) {
  Slice slice;
  slice.load(row_of(view, list, pair), p.head_dim(), p.whole);
  return slice;
}
/// Row `row` of a parameter [rows, d].
template <class Slice, class T>
MOH_DEVICE Slice parameter_row(const Problem<T>& p, const float* parameter, std::int64_t row) {
  Slice slice;
  const std::int64_t d = p.shape.pairs.head_dim;
  slice.load(parameter + row * d, static_cast<int>(d), p.whole);
  return slice;
}

/// q' log2 e of a pair. `embedding` and `temperature` are those of its head.
template <class Slice, class T>
MOH_DEVICE Slice scaled_query(const Problem<T>& p, const List& list, const Pair& pair, const Window& window,
                              const Slice& embedding, float temperature) {
  Slice query = query_row<Slice>(p, p.q, list, pair);
  query.scale(query.inverse_norm());
  query.add(1.0F, embedding);
  query.scale(temperature * log_keys(p.shape, window) * kLog2e);
  return query;
}

/// Distant keys that are in shared memory at once, and scores that a row has at once.
inline constexpr int kScores = 7;
template <class Slice>
constexpr int kTileKeys = Slice::kWidth <= 24   ? 8 * kScores
                          : Slice::kWidth <= 64 ? 4 * kScores
                                                : kScores;

/// A tile of unit keys and values in shared memory, zeros after the last.
template <class Slice>
struct KeyTile {
  float k[kTileKeys<Slice>][Slice::kWidth], v[kTileKeys<Slice>][Slice::kWidth];
};

/// Heads of which the threads of the block hold slices, and the thread's number among them.
template <class Slice>
constexpr int kGroups = kThreads / Slice::kSplit;
template <class Slice>
MOH_DEVICE int group() {
  return device::thread_x() / Slice::kSplit;
}

/// Loads `count` distant keys from `begin` on, between two barriers.
template <class Slice, class T>
MOH_DEVICE void load_tile(const Problem<T>& p, const List& list, std::int64_t begin, int count,
                          KeyTile<Slice>& tile) {
  device::sync_block();
  MOH_ROLLED for (int first = 0; first < kTileKeys<Slice>; first += kGroups<Slice>) {
    const int key = first + group<Slice>();
    const bool real = key < count;
    Slice k = token_row<Slice>(p, p.k, list, begin + (real ? key : 0));
    Slice v = token_row<Slice>(p, p.v, list, begin + (real ? key : 0));
    k.scale(k.inverse_norm());
    if (!real) {
      k.clear();
      v.clear();
    }
    if (key >= kTileKeys<Slice>) continue;
    k.store_padded(tile.k[key]);
    v.store_padded(tile.v[key]);
  }
  device::sync_block();
}

namespace {  // as List is

/// The block's list and its strip of rows of it.
struct Strip {
  List list;
  std::int64_t number;
};
template <class T>
MOH_DEVICE Strip strip_of_block(const Problem<T>& p, std::int64_t strips) {
  return {list_at(p.shape.pairs, p.lists, device::block_x() / strips), device::block_x() % strips};
}

}  // namespace

}  // namespace moh::aggregated
