#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <vector>

namespace moh::sim {

/// The stream of the simulated device. It does what it is asked for at once or, as late as a device may, when
/// the host waits; either way the host knows only of that to be done which it has waited for.
class Stream {
 public:
  using Work = std::function<void()>;

  static Stream& instance();

  /// Does the work, or records it while a capture is under way.
  void submit(Work work);

  enum class Capture {
    kNone,
    kRecording,
    kBroken  ///< by a call that CUDA forbids meanwhile
  };
  Capture capture() const { return capture_; }
  void begin_capture();
  void break_capture() { capture_ = Capture::kBroken; }
  std::vector<Work> end_capture();
  /// Of the capture that is under way, or the last one.
  std::int64_t capture_number() const { return captures_; }

  /// The place in the stream that an event marks.
  std::int64_t mark() { return ++marks_; }
  bool known_done(std::int64_t mark) const { return mark <= done_; }
  /// Of the host, for the work before the mark; nothing where it is known to be done.
  void wait_for(std::int64_t mark);
  /// Of the host, for all that was asked for.
  void wait_for_all() { wait_for(mark()); }
  /// How often the host has waited.
  std::int64_t waits() const { return waits_; }

  /// Work is done late for the lifetime of the scope, which ends with a wait.
  class LateScope {
   public:
    explicit LateScope(bool late = true);
    ~LateScope() noexcept(false);
    LateScope(const LateScope&) = delete;
    LateScope& operator=(const LateScope&) = delete;

   private:
    bool previous_;
  };

 private:
  struct Pending {
    std::int64_t after;  // the last mark before it
    Work work;
  };

  Capture capture_ = Capture::kNone;
  std::vector<Work> recorded_;
  std::int64_t captures_ = 0;
  bool late_ = false;
  std::deque<Pending> pending_;
  std::int64_t marks_ = 0, done_ = 0, waits_ = 0;
};

}  // namespace moh::sim
