#pragma once

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "autograd/profile.h"
#include "core/device_clock.h"
#include "train/comm/collective_timer.h"
#include "train/comm/communicator.h"

namespace moh {

/// Traces training steps, for chrome://tracing and Perfetto: a JSON file of spans. A process of the trace is
/// one of the run; its tracks are the training thread, where a step consists of phases, of waiting for data
/// and for other processes, and a phase of ops; the device, if it is not the CPU, by events in its stream;
/// and what communicates: a thread, and the communication queue of a GPU.
///
/// Times are those of the wall clock at the begin of the trace, so that the traces of all processes of a
/// machine fit together.
class StepTrace {
 public:
  /// `collectives` are those of the device, and outlive this object; null: there are none.
  StepTrace(std::filesystem::path file, Device device, int rank, DeviceCollectives* collectives = nullptr)
      : file_(std::move(file)), device_(device), rank_(rank), collectives_(collectives) {}

  /// A step begins, on the thread that trains. Until it ends, ops and phases of the thread, the time of
  /// WaitScopes, and what is told to add_collective() belong to it.
  void begin_step(std::int64_t step);
  /// Ends the step, its work on the device included.
  void end_step();
  bool in_step() const { return recording_; }
  /// Whether a step of the calling thread is traced.
  static bool is_on() { return current_ != nullptr; }
  /// Whether there are steps that write() has not written.
  bool has_news() const { return written_ < events_.size(); }
  /// From any thread.
  void add_collective(const Collective& collective);
  /// The calling thread has waited for other processes (Communicator::set_wait_listener).
  void add_wait_for_processes(double begin, double end);
  /// Writes the file. Throws StorageError.
  void write();

 private:
  friend class WaitScope;

  struct Event {
    std::string name;
    std::string_view category;
    int track;
    double begin, seconds;  ///< since the begin of the trace
    std::int64_t number;    ///< of a step; of a collective its bytes; -1: none
  };
  /// The objects that live during a step.
  struct Recorder {
    explicit Recorder(Device device) : clock(device), profiler(clock) {}
    DeviceClock clock;
    Profiler profiler;
    std::optional<CollectiveTimer> collectives;
  };

  void add_device_collectives();
  void add(std::string_view name, std::string_view category, int track, double begin, double end,
           std::int64_t number = -1);

  inline static thread_local constinit StepTrace* current_ = nullptr;
  std::filesystem::path file_;
  Device device_;
  int rank_;
  DeviceCollectives* collectives_;
  double first_ = 0, unix_first_ = 0;  // begin of the trace: monotonic, and wall-clock seconds
  std::int64_t step_ = 0;
  double step_began_ = 0, profile_began_ = 0;
  std::atomic<bool> recording_ = false;
  std::optional<Recorder> recorder_;
  std::mutex mutex_;  // of events_
  std::vector<Event> events_;
  std::size_t written_ = 0;
};

/// Names of the waits of a step.
inline constexpr std::string_view kWaitForData = "wait for data", kWaitForProcesses = "wait for processes",
                                  kWaitForCheckpoint = "wait for the checkpoint";

/// Time that a training step waits, which a trace shows. Adds what has passed to *seconds, if there is one.
class WaitScope {
 public:
  explicit WaitScope(std::string_view what, double* seconds = nullptr);
  ~WaitScope();
  WaitScope(const WaitScope&) = delete;
  WaitScope& operator=(const WaitScope&) = delete;

 private:
  std::string_view what_;
  double* seconds_;
  double began_;
};

}  // namespace moh
