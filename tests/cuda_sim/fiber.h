#pragma once

#include <cstddef>
#include <functional>

namespace moh::sim {

/// A function with a stack of its own, which runs until it yields and goes on where it left off: one thread
/// of a simulated block. Fibers of one host thread take turns; they are never run by two host threads.
class Fiber {
 public:
  Fiber();
  ~Fiber();
  Fiber(const Fiber&) = delete;
  Fiber& operator=(const Fiber&) = delete;

  /// Makes `body` what the next resume() begins. A body that has not ended is dropped where it stands,
  /// without its destructors.
  void start(std::function<void()> body);
  /// Runs the body until it yields or returns; false once it has returned. The body must not throw.
  bool resume();
  /// Back to the caller of resume(); called by the running body.
  static void yield();

 private:
  static void main();
  void switch_in();
  void switch_out(bool for_good);

  static constexpr std::size_t kStackBytes = std::size_t{128} << 10;
  std::byte* stack_ = nullptr;  // kStackBytes above a page that may not be touched
  void* stack_pointer_ = nullptr;
  void* caller_stack_pointer_ = nullptr;
  std::function<void()> body_;
  bool done_ = true;
  // State for AddressSanitizer's notes of the switches.
  void* fake_stack_ = nullptr;
  const void* caller_stack_ = nullptr;
  std::size_t caller_stack_bytes_ = 0;
};

}  // namespace moh::sim
