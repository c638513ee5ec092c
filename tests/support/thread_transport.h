#pragma once

#include <chrono>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "core/error.h"
#include "train/comm/transport.h"

namespace moh::test {

/// The messages between threads that take the part of processes.
struct ThreadPost {
  std::mutex mutex;
  std::map<std::pair<int, int>, std::deque<std::vector<std::byte>>> boxes;  ///< by sender and receiver
};

/// A transport between threads. What is sent has arrived at once.
class ThreadTransport final : public Transport {
 public:
  ThreadTransport(std::shared_ptr<ThreadPost> post, int rank, int size)
      : post_(std::move(post)), rank_(rank), size_(size) {}

  int rank() const override { return rank_; }
  int size() const override { return size_; }
  std::string description() const override { return "threads"; }

  void begin(std::span<const Outgoing> sends, std::span<const Incoming> receives) override {
    const std::lock_guard lock(post_->mutex);
    for (const Outgoing& message : sends)
      post_->boxes[{rank_, message.to}].emplace_back(message.bytes.begin(), message.bytes.end());
    awaited_.assign(receives.begin(), receives.end());
  }

  bool poll() override {
    const std::lock_guard lock(post_->mutex);
    std::erase_if(awaited_, [&](const Incoming& message) {
      auto& box = post_->boxes[{message.from, rank_}];
      if (box.empty()) return false;
      MOH_CHECK(box.front().size() == message.bytes.size(), "the receiver knows the size");
      std::memcpy(message.bytes.data(), box.front().data(), message.bytes.size());
      box.pop_front();
      return true;
    });
    return awaited_.empty();
  }

  void wait(double, bool) override { std::this_thread::sleep_for(std::chrono::microseconds(20)); }

  std::vector<int> awaited() const override {
    std::vector<int> ranks;
    for (const Incoming& message : awaited_) ranks.push_back(message.from);
    return ranks;
  }

  void close() override {}
  void abort(int exit_code) override {
    throw std::logic_error("abort with exit code " + std::to_string(exit_code));
  }

 private:
  std::shared_ptr<ThreadPost> post_;
  int rank_, size_;
  std::vector<Incoming> awaited_;
};

}  // namespace moh::test
