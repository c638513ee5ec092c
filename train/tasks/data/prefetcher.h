#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>
#include <utility>

#include "core/dry_run.h"
#include "core/threads.h"

namespace moh {

/// Prefetches batches on one background thread. Item i is make(i), whatever the depth: prefetching changes
/// when a batch is made, never its contents. position() counts the items that next() has returned, so that
/// items in the queue when a checkpoint is written are made again after a resume, and not lost.
template <class Item>
class Prefetcher {
 public:
  /// make(i) for i = first, first + 1, ... runs on the background thread, up to `depth` items ahead. With
  /// depth 0 there is no thread, and next() makes the item itself. In a dry run, which is limited to one
  /// thread, next() makes as many items as would be in the queue. Throws ThreadError.
  Prefetcher(std::function<Item(std::int64_t)> make, std::int64_t first, int depth)
      : make_(std::move(make)), position_(first), depth_(static_cast<std::size_t>(depth > 0 ? depth : 0)) {
    if (depth_ > 0 && !dry_run()) thread_ = start_thread({"data"}, [this, first] { run(first); });
  }
  ~Prefetcher() {
    {
      const std::lock_guard lock(mutex_);
      stopping_ = true;
    }
    changed_.notify_all();
    if (thread_.joinable()) thread_.join();
  }
  Prefetcher(const Prefetcher&) = delete;
  Prefetcher& operator=(const Prefetcher&) = delete;

  /// Index of the item that the next call of next() returns.
  std::int64_t position() const { return position_; }

  /// Waits for the next item and returns it. Rethrows an exception of make(), in every later call, too.
  Item next() {
    Item item = depth_ > 0 ? take() : make_(position_);
    ++position_;
    return item;
  }

 private:
  Item take() {
    std::unique_lock lock(mutex_);
    while (!thread_.joinable() && ready_.size() <= depth_) {
      ready_.push_back(make_(position_ + static_cast<std::int64_t>(ready_.size())));
    }
    changed_.wait(lock, [this] { return !ready_.empty() || failure_; });
    if (ready_.empty()) std::rethrow_exception(failure_);
    Item item = std::move(ready_.front());
    ready_.pop_front();
    lock.unlock();
    changed_.notify_all();
    return item;
  }

  void run(std::int64_t index) {
    try {
      while (wait_for_room()) {
        Item item = make_(index++);
        const std::lock_guard lock(mutex_);
        ready_.push_back(std::move(item));
        changed_.notify_all();
      }
    } catch (...) {
      const std::lock_guard lock(mutex_);
      failure_ = std::current_exception();
      changed_.notify_all();
    }
  }

  bool wait_for_room() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return stopping_ || ready_.size() < depth_; });
    return !stopping_;
  }

  const std::function<Item(std::int64_t)> make_;
  std::int64_t position_;
  const std::size_t depth_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Item> ready_;
  std::exception_ptr failure_;
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace moh
