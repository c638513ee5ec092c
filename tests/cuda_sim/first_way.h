#pragma once

#include <utility>

namespace moh::test {

/// While one lives, in_each_way() takes the first way alone: for what is the same in all of them, as which
/// kernels are launched.
class FirstWay {
 public:
  FirstWay() : outer_(std::exchange(suffices_, true)) {}
  ~FirstWay() { suffices_ = outer_; }
  FirstWay(const FirstWay&) = delete;
  FirstWay& operator=(const FirstWay&) = delete;
  static bool suffices() { return suffices_; }

 private:
  static inline bool suffices_ = false;
  bool outer_;
};

}  // namespace moh::test
