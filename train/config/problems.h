#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "train/config/source.h"

namespace moh::config {

/// Everything that is wrong with a configuration, so that a user sees all of it at once.
class Problems {
 public:
  /// "mark: key: expected E, found F; fix". `key` and `fix` may be empty.
  void add(Mark mark, std::string_view key, std::string_view expected, std::string_view found,
           std::string_view fix = "");
  /// "mark: text".
  void add(Mark mark, std::string text);

  bool empty() const { return count_ == 0; }
  /// No more than this many are kept; the rest is counted. What is costly to word asks first.
  bool full() const { return problems_.size() == kMaxKept; }

  /// Throws ConfigError with one line per problem, in the order of sources and places, if there is any.
  void throw_if_any() const;

 private:
  static constexpr std::size_t kMaxKept = 50;

  struct Problem {
    Mark mark;
    std::string text;
  };
  std::vector<Problem> problems_;
  std::size_t count_ = 0;
};

}  // namespace moh::config
