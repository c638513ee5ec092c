#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>

namespace moh {

/// How the threads of a parallel loop share its chunks. Each begins with its own share, the same in every
/// loop of equally many chunks, so that what it wrote in one loop is in its caches in the next. Then it takes
/// from the shares of others.
class LoopShares {
 public:
  LoopShares(std::int64_t chunks, int threads) : count_(count(threads)) {
    for (int i = 0; i < count_; ++i) {
      shares_[static_cast<std::size_t>(i)].next = begin(chunks, i, threads);
      shares_[static_cast<std::size_t>(i)].end = begin(chunks, i + 1, threads);
    }
  }

  /// Number of shares: one for each thread, or kMost.
  static int count(int threads) { return std::min(threads, kMost); }
  /// The first chunk of share `share` of count(threads).
  static std::int64_t begin(std::int64_t chunks, int share, int threads) {
    return chunks * share / count(threads);
  }

  /// One thread's way through the shares.
  struct Walk {
    int thread;
    int visited = 0;  ///< shares that were found empty
  };

  /// A chunk that no thread has taken, or -1 when there are none. Thread-safe.
  std::int64_t next(Walk& walk) {
    for (; walk.visited < count_; ++walk.visited) {
      Share& share = shares_[static_cast<std::size_t>((walk.thread + walk.visited) % count_)];
      if (share.next.load(std::memory_order_relaxed) >= share.end) continue;
      const std::int64_t chunk = share.next.fetch_add(1, std::memory_order_relaxed);
      if (chunk < share.end) return chunk;
    }
    return -1;
  }

 private:
  static constexpr int kMost = 64;
  struct alignas(64) Share {
    std::atomic<std::int64_t> next;
    std::int64_t end;
  };
  std::array<Share, kMost> shares_;
  int count_;
};

}  // namespace moh
