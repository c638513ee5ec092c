#pragma once

#include <concepts>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

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
  double flops = 0;  ///< floating-point operations, where the op knows them (matrix products); else 0
};

/// Collects the times of the ops that its own thread runs while it lives: kernels (run_kernel), matrix
/// products, nodes of the backward pass. Where none lives, ops pay one test of a thread-local pointer. Not to
/// be nested.
class Profiler {
 public:
  using Clock = std::function<double()>;  ///< seconds

  explicit Profiler(Clock clock);
  ~Profiler();
  Profiler(const Profiler&) = delete;
  Profiler& operator=(const Profiler&) = delete;

  /// What was collected, longest first. Not while an op runs.
  std::vector<ProfileEntry> entries() const;

  /// That of this thread, or null.
  static Profiler* current() { return current_; }

 private:
  friend class ProfileScope;
  friend class ProfilePhaseScope;

  struct Frame {
    ProfileEntry* entry;
    double began;
    double inner;  // seconds of the scopes inside
  };

  void begin(std::string_view op, double flops);
  void end();

  inline static thread_local constinit Profiler* current_ = nullptr;
  Clock clock_;
  ProfilePhase phase_ = ProfilePhase::kForward;
  std::vector<Frame> open_;
  std::map<std::pair<ProfilePhase, std::string>, ProfileEntry, std::less<>> entries_;
};

/// Counts the time until its end for an op. A scope directly inside one of the same op and phase is part of
/// that call.
class ProfileScope {
 public:
  explicit ProfileScope(std::string_view op) : profiler_(Profiler::current()) {
    if (profiler_ != nullptr) profiler_->begin(op, 0);
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
  explicit ProfilePhaseScope(ProfilePhase phase) : profiler_(Profiler::current()) {
    if (profiler_ != nullptr) phase_ = std::exchange(profiler_->phase_, phase);
  }
  ~ProfilePhaseScope() {
    if (profiler_ != nullptr) profiler_->phase_ = phase_;
  }
  ProfilePhaseScope(const ProfilePhaseScope&) = delete;
  ProfilePhaseScope& operator=(const ProfilePhaseScope&) = delete;

 private:
  Profiler* profiler_;
  ProfilePhase phase_ = ProfilePhase::kForward;
};

}  // namespace moh
