#pragma once

namespace moh::sim {

/// A fault to be found: of the waits of streams for events (cudaStreamWaitEvent) in its lifetime, the one of
/// the given number, from 0, does nothing. One at a time.
class LostWait {
 public:
  explicit LostWait(int number);
  ~LostWait();
  LostWait(const LostWait&) = delete;
  LostWait& operator=(const LostWait&) = delete;

  /// Waits so far, the lost one included.
  int waits() const { return waits_; }
  /// Whether the wait that is asked for now is the one.
  static bool is_next();

 private:
  int number_, waits_ = 0;
};

}  // namespace moh::sim
