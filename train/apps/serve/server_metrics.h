#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "train/base/http/connection_counts.h"

namespace moh {

/// A histogram with fixed upper bounds, as Prometheus has them. Thread-safe.
class Histogram {
 public:
  explicit Histogram(std::vector<double> bounds) : bounds_(std::move(bounds)), counts_(bounds_.size() + 1) {}

  void observe(double value);
  /// The samples NAME_bucket, NAME_sum and NAME_count.
  std::string text(const std::string& name) const;

 private:
  const std::vector<double> bounds_;
  mutable std::mutex mutex_;
  std::vector<std::int64_t> counts_;
  double sum_ = 0;
};

/// The counters of a server. Thread-safe.
class ServerMetrics {
 public:
  /// A request was answered.
  void answered(const std::string& path, int status, double seconds);

  /// A request was refused before it had arrived.
  void refused(int status);

  std::atomic<std::int64_t> prompt_tokens = 0, generated_tokens = 0;
  /// Tokens of prompts whose beginnings may be shared that were held, or were not; and what is held of
  /// prompts.
  std::atomic<std::int64_t> prefix_hit_tokens = 0, prefix_miss_tokens = 0, prefix_bytes = 0;
  std::atomic<std::int64_t> queued_texts = 0, running_texts = 0;
  ConnectionCounts connections;
  Histogram batch_size{{1, 2, 4, 8, 16, 32, 64, 128}};
  Histogram first_token_seconds{{0.01, 0.03, 0.1, 0.3, 1, 3, 10, 30, 100}};

  /// All of them in Prometheus' text format.
  std::string text() const;

 private:
  mutable std::mutex mutex_;
  std::map<std::pair<std::string, int>, std::int64_t> requests_;
  Histogram request_seconds_{{0.003, 0.01, 0.03, 0.1, 0.3, 1, 3, 10, 30, 100}};
};

}  // namespace moh
