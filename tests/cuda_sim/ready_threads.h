#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace moh::sim {

struct Thread;

/// The threads of a launch that can run, in the order in which they will.
class ReadyThreads {
 public:
  /// With room for `most` threads.
  explicit ReadyThreads(std::size_t most) {
    std::size_t places = 1;
    while (places < most) places *= 2;
    places_.resize(places);
  }

  bool empty() const { return begin_ == end_; }
  void push_back(Thread* thread) { at(end_++) = thread; }
  void push_front(Thread* thread) { at(--begin_) = thread; }
  /// The thread after `next` others. Anything where there are not so many.
  Thread* peek(std::size_t next) { return at(begin_ + next); }
  Thread* pop_front() { return at(begin_++); }
  /// Exchanges the first one with any, by the next number of a generator (xorshift64*) whose state, which is
  /// not 0, is `random`.
  void shuffle_front(std::uint64_t& random) {
    random ^= random >> 12;
    random ^= random << 25;
    random ^= random >> 27;
    const std::uint64_t upper = random * 0x2545f4914f6cdd1dU >> 32;
    std::swap(at(begin_), at(begin_ + (upper * (end_ - begin_) >> 32)));
  }

 private:
  Thread*& at(std::size_t place) { return places_[place & (places_.size() - 1)]; }

  std::vector<Thread*> places_;  // a power of two of them, used in a circle
  std::size_t begin_ = 0, end_ = 0;
};

}  // namespace moh::sim
