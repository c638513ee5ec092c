#pragma once

#include <cstdint>
#include <mutex>
#include <string>
#include <vector>

namespace moh {

/// Names of classes that are their numbers, from 0 on, made when they are first asked for: measurements of
/// models with millions of classes never do. Thread-safe.
class NumberNames {
 public:
  explicit NumberNames(std::int64_t count) : count_(count) {}

  std::int64_t size() const { return count_; }
  const std::vector<std::string>& get() const {
    std::call_once(made_, [this] {
      for (std::int64_t i = 0; i < count_; ++i) names_.push_back(std::to_string(i));
    });
    return names_;
  }

 private:
  std::int64_t count_;
  mutable std::once_flag made_;
  mutable std::vector<std::string> names_;
};

}  // namespace moh
