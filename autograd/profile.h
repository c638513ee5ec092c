#pragma once

#include <concepts>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/device_clock.h"

namespace moh {

/// The part of a training step that time belongs to.
enum class ProfilePhase : std::uint8_t { kForward, kBackward, kOptimizer };
inline constexpr int kNumProfilePhases = 3;
/// "forward", "backward", "optimizer".
std::string_view phase_name(ProfilePhase phase);

/// Time and operations of one op in one phase. Times exclude those of ops that ran inside it.
struct ProfileEntry {
  std::string op;
  ProfilePhase phase = ProfilePhase::kForward;
  double seconds = 0;
  std::int64_t calls = 0;
  double flops = 0;  ///< floating-point operations, 2 per multiply-add; 0 if the op reports none
};

/// One run of an op, or of a phase that is in no other, which has no `op`. Seconds since the profiler began:
/// `begin` and `end` by the host's clock, the others by that of the device, the same ones for a CPU.
struct ProfileInterval {
  std::string_view op;
  ProfilePhase phase = ProfilePhase::kForward;
  double begin = 0, end = 0, device_begin = 0, device_end = 0;
};

/// Collects the times of the ops that its thread runs during its lifetime: kernels (run_kernel), matrix
/// multiplications, nodes of the backward pass. Without a profiler, an op costs one test of a thread-local
/// pointer. Must not be nested. On a GPU, ops and phases are NVTX ranges, too.
class Profiler {
 public:
  /// Times are measured with `clock`, which marks the begin and the end of every op.
  explicit Profiler(DeviceClock& clock);
  ~Profiler();
  Profiler(const Profiler&) = delete;
  Profiler& operator=(const Profiler&) = delete;

  /// The entries, longest time first; blocks until the device has finished. Must not be called inside an op.
  std::vector<ProfileEntry> entries() const;
  /// Everything that ran, in the order in which it began; blocks until the device has finished. Names live as
  /// long as this object. Must not be called inside an op.
  std::vector<ProfileInterval> intervals() const;
  /// Model FLOPs (as in MFU): the operations of all ops that report them, without what is computed a second
  /// time, inside an op (attention's scores in its backward pass) or by recompute().
  double model_flops() const { return model_flops_; }

  /// The op whose kernels are now launched: the innermost one that reports operations, otherwise the
  /// innermost. Its name is empty outside of ops.
  struct OpenOp {
    ProfilePhase phase = ProfilePhase::kForward;
    std::string_view op;
  };
  OpenOp open_op() const;

  /// The profiler of this thread, or null.
  static Profiler* current() { return current_; }

 private:
  friend class ProfileScope;
  friend class ProfilePhaseScope;

  /// The interval of one scope; it counts for `entry` and is subtracted from `around`, the enclosing one.
  struct Span {
    ProfileEntry* entry;
    ProfileEntry* around;  // or null
    DeviceClock::Mark begin, end;
    double host_begin, host_end;
  };
  struct PhaseSpan {
    ProfilePhase phase;
    bool outermost;  // of nested ones; a recomputed segment has a backward pass of its own
    DeviceClock::Mark begin, end;
    double host_begin, host_end;
  };

  void begin(std::string_view op, double flops);
  void end();
  /// Returns the previous phase.
  ProfilePhase begin_phase(ProfilePhase phase);
  void end_phase(ProfilePhase previous);

  inline static thread_local constinit Profiler* current_ = nullptr;
  DeviceClock& clock_;
  DeviceClock::Mark first_;
  double host_first_;
  ProfilePhase phase_ = ProfilePhase::kForward;
  double model_flops_ = 0;
  std::vector<PhaseSpan> phases_;
  std::vector<std::size_t> open_phases_;
  std::vector<Span> spans_;        // in the order in which they began
  std::vector<std::size_t> open_;  // stack of spans without an end, as indices
  std::map<std::pair<ProfilePhase, std::string>, ProfileEntry, std::less<>> entries_;
};

/// Measures the phases of the training steps that its thread runs during its lifetime. Must not be nested.
class PhaseTimer {
 public:
  explicit PhaseTimer(DeviceClock& clock);
  ~PhaseTimer();
  PhaseTimer(const PhaseTimer&) = delete;
  PhaseTimer& operator=(const PhaseTimer&) = delete;

  /// Seconds between two marks of the clock that were spent in `phase`, or outside all phases for
  /// std::nullopt; blocks until the device has reached `to`.
  double seconds(std::optional<ProfilePhase> phase, DeviceClock::Mark from, DeviceClock::Mark to) const;

 private:
  friend class ProfilePhaseScope;

  /// From `at` on, time belongs to `phase`.
  struct Change {
    DeviceClock::Mark at;
    std::optional<ProfilePhase> phase;
  };

  /// Returns the previous phase.
  std::optional<ProfilePhase> change(std::optional<ProfilePhase> phase);

  inline static thread_local constinit PhaseTimer* current_ = nullptr;
  DeviceClock& clock_;
  std::vector<Change> changes_;
};

/// Attributes the time of its lifetime to an op. A scope directly inside one of the same op and phase does
/// not count as another call.
class ProfileScope {
 public:
  explicit ProfileScope(std::string_view op, double flops = 0) : profiler_(Profiler::current()) {
    if (profiler_ != nullptr) profiler_->begin(op, flops);
  }
  /// `describe` returns the op's name; it is called only when a profiler is active.
  template <std::invocable Describe>
  explicit ProfileScope(Describe&& describe, double flops) : profiler_(Profiler::current()) {
    if (profiler_ != nullptr) profiler_->begin(describe(), flops);
  }
  ~ProfileScope() {
    if (profiler_ != nullptr) profiler_->end();
  }
  ProfileScope(const ProfileScope&) = delete;
  ProfileScope& operator=(const ProfileScope&) = delete;

 private:
  Profiler* profiler_;
};

/// Attributes ops and time that begin during its lifetime to `phase`.
class ProfilePhaseScope {
 public:
  explicit ProfilePhaseScope(ProfilePhase phase)
      : profiler_(Profiler::current()), timer_(PhaseTimer::current_) {
    if (profiler_ != nullptr) phase_ = profiler_->begin_phase(phase);
    if (timer_ != nullptr) timed_phase_ = timer_->change(phase);
  }
  ~ProfilePhaseScope() {
    if (profiler_ != nullptr) profiler_->end_phase(phase_);
    if (timer_ != nullptr) timer_->change(timed_phase_);
  }
  ProfilePhaseScope(const ProfilePhaseScope&) = delete;
  ProfilePhaseScope& operator=(const ProfilePhaseScope&) = delete;

 private:
  Profiler* profiler_;
  PhaseTimer* timer_;
  ProfilePhase phase_ = ProfilePhase::kForward;
  std::optional<ProfilePhase> timed_phase_;
};

}  // namespace moh
