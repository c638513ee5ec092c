#pragma once

#include <cstddef>
#include <utility>

namespace moh::sim {

/// A function with a stack of its own, which goes on where it left off: the threads of a simulated block run
/// on such. Fibers take turns, on one host thread at a time. A new object has no stack; assignment exchanges
/// the fibers of two objects, even of one that runs.
class Fiber {
 public:
  Fiber() = default;
  ~Fiber();
  Fiber(Fiber&& other) noexcept { swap(other); }
  Fiber& operator=(Fiber&& other) noexcept {
    swap(other);
    return *this;
  }

  bool has_stack() const { return stack_ != nullptr; }
  /// Takes memory of the system for it. Throws std::system_error.
  void make_stack();
  /// Makes `body`, which must neither return nor throw, what the next switch to the fiber begins. A body that
  /// it has begun is dropped where it stands, without its destructors.
  void start(void (*body)());
  /// Runs the fiber, and those that it switches to, until one of them leaves.
  void enter();
  /// From this fiber, which runs, to another one.
  void switch_to(Fiber& next);
  /// From this fiber, which runs, back to the caller of enter().
  void leave();
  /// Has the processor fetch what a switch to the fiber reads.
  void prefetch() const {
    if (!has_stack()) return;
    constexpr int kLineBytes = 64, kLines = 4;
    for (int i = 0; i < kLines; ++i)
      __builtin_prefetch(static_cast<const std::byte*>(stack_pointer_) + i * kLineBytes);
  }

 private:
  static void main();
  static void arrive();
  void swap(Fiber& other) noexcept {
    std::swap(stack_pointer_, other.stack_pointer_);
    std::swap(stack_, other.stack_);
#if defined(__SANITIZE_ADDRESS__)
    std::swap(fake_stack_, other.fake_stack_);
#endif
  }

  void* stack_pointer_ = nullptr;
  std::byte* stack_ = nullptr;  // above a page that may not be touched
#if defined(__SANITIZE_ADDRESS__)
  void* fake_stack_ = nullptr;
#endif
};

}  // namespace moh::sim
