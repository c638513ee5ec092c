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

/// What one op took in one phase. Times are the op's own: those of ops that ran inside it are theirs.
struct ProfileEntry {
  std::string op;
  ProfilePhase phase = ProfilePhase::kForward;
  double seconds = 0;
  std::int64_t calls = 0;
  double flops = 0;  ///< floating-point operations that were computed, where the op knows them; else 0
};

/// Collects the times of the ops that its own thread runs while it lives: kernels (run_kernel), matrix
/// products, nodes of the backward pass. Where none lives, ops pay one test of a thread-local pointer. Not to
/// be nested.
class Profiler {
 public:
  /// Times are those of `clock`, which marks the beginning and the end of every op.
  explicit Profiler(DeviceClock& clock);
  ~Profiler();
  Profiler(const Profiler&) = delete;
  Profiler& operator=(const Profiler&) = delete;

  /// What was collected, longest first; waits for the device of the clock. Not while an op runs.
  std::vector<ProfileEntry> entries() const;
  /// Model FLOPs: the operations of all ops that know them, but for what is computed a second time, by ops
  /// themselves (attention's scores in its backward pass) or under recompute(). A multiply-add counts two.
  double model_flops() const { return model_flops_; }

  /// That of this thread, or null.
  static Profiler* current() { return current_; }

 private:
  friend class ProfileScope;
  friend class ProfilePhaseScope;

  /// The time of one scope: an entry's own, and not that of the entry of the scope around it.
  struct Span {
    ProfileEntry* entry;
    ProfileEntry* around;  // or null
    DeviceClock::Mark begin, end;
  };

  void begin(std::string_view op, double flops);
  void end();

  inline static thread_local constinit Profiler* current_ = nullptr;
  DeviceClock& clock_;
  ProfilePhase phase_ = ProfilePhase::kForward;
  double model_flops_ = 0;
  std::vector<Span> spans_;        // in the order of their beginnings
  std::vector<std::size_t> open_;  // of the spans, those that have no end yet
  std::map<std::pair<ProfilePhase, std::string>, ProfileEntry, std::less<>> entries_;
};

/// Collects the times of the phases of the steps that its own thread runs while it lives. Not to be nested.
class PhaseTimer {
 public:
  explicit PhaseTimer(DeviceClock& clock);
  ~PhaseTimer();
  PhaseTimer(const PhaseTimer&) = delete;
  PhaseTimer& operator=(const PhaseTimer&) = delete;

  /// Seconds between two marks of the clock that were spent in a phase, or, with nothing, in none; waits for
  /// the device.
  double seconds(std::optional<ProfilePhase> phase, DeviceClock::Mark from, DeviceClock::Mark to) const;

 private:
  friend class ProfilePhaseScope;

  /// From `at` on, time belongs to `phase`.
  struct Change {
    DeviceClock::Mark at;
    std::optional<ProfilePhase> phase;
  };

  /// Returns the phase until now.
  std::optional<ProfilePhase> change(std::optional<ProfilePhase> phase);

  inline static thread_local constinit PhaseTimer* current_ = nullptr;
  DeviceClock& clock_;
  std::vector<Change> changes_;
};

/// Counts the time until its end for an op. A scope directly inside one of the same op and phase is part of
/// that call.
class ProfileScope {
 public:
  explicit ProfileScope(std::string_view op, double flops = 0) : profiler_(Profiler::current()) {
    if (profiler_ != nullptr) profiler_->begin(op, flops);
  }
  /// `describe` makes the op's name; it is called only where somebody collects.
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

/// What begins inside it belongs to `phase`.
class ProfilePhaseScope {
 public:
  explicit ProfilePhaseScope(ProfilePhase phase)
      : profiler_(Profiler::current()), timer_(PhaseTimer::current_) {
    if (profiler_ != nullptr) phase_ = std::exchange(profiler_->phase_, phase);
    if (timer_ != nullptr) timed_phase_ = timer_->change(phase);
  }
  ~ProfilePhaseScope() {
    if (profiler_ != nullptr) profiler_->phase_ = phase_;
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
