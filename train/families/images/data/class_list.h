#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

namespace moh {

/// Names of classes and their labels.
class ClassList {
 public:
  /// Labels follow the order of the names. Throws DataError for a name that comes twice.
  explicit ClassList(std::vector<std::string> names);

  const std::vector<std::string>& names() const { return names_; }
  std::int64_t size() const { return static_cast<std::int64_t>(names_.size()); }
  /// Throws DataError, naming `where`, for a name that is not among them.
  std::int64_t label_of(std::string_view name, std::string_view where) const;

 private:
  std::vector<std::string> names_;
  std::map<std::string, std::int64_t, std::less<>> labels_;
};

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
