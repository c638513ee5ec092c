#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <optional>
#include <vector>

/// A stream, by its number on the device.
struct CUstream_st {
  std::size_t number;
};

namespace moh::sim {

using Work = std::function<void()>;

/// When the device does what it was asked for: what is right only in one of these ways lacks a wait.
enum class Timing : std::uint8_t {
  kAtOnce,  ///< before the call returns
  kLate,    ///< as late as possible: when the host waits for it, or a stream for which the host waits
  kAhead,   ///< late, but streams of a higher priority run as far ahead of the others as their waits permit
};

/// A point in a stream: how much of each stream's work is done there.
struct Mark {
  std::size_t stream = 0;
  std::vector<std::int64_t> done = {};
};

/// The streams of the simulated device. Of what they have done, the host knows what it has waited for, and
/// no more.
class Streams {
 public:
  static Streams& instance();

  /// A stream of a priority: the smaller the number, the higher.
  CUstream_st* create(int priority);

  /// Enqueues work, or records it while the stream is captured.
  void submit(const CUstream_st* stream, Work work);
  /// The stream's subsequent work is done after what is before the mark.
  void submit_wait(const CUstream_st* stream, const Mark& mark);
  Mark mark(const CUstream_st* stream) const;

  /// Whether the host knows that the work before the mark is done. From any thread.
  bool known_done(const Mark& mark) const;
  /// The host waits for the work before the mark; nothing if it is known to be done.
  void wait_for(const Mark& mark);
  /// The host waits for all work of a stream, or of all streams.
  void synchronize(const CUstream_st* stream);
  void synchronize();
  /// How often the host has waited.
  std::int64_t waits() const { return waits_; }

  Timing timing() const { return timing_; }
  /// The streams by number, those first that are to run as far as they can before the others do.
  std::vector<std::size_t> in_order() const;

  /// Sets the timing for the lifetime of the scope, which ends with a wait for everything.
  class TimingScope {
   public:
    explicit TimingScope(Timing timing);
    ~TimingScope() noexcept(false);
    TimingScope(const TimingScope&) = delete;
    TimingScope& operator=(const TimingScope&) = delete;

   private:
    Timing previous_;
  };

 private:
  struct Item {
    Work work;
    std::optional<Mark> after;  // what it waits for
  };
  struct Stream {
    CUstream_st handle;
    int priority;
    std::deque<Item> pending = {};
    std::int64_t finished = 0;
    std::vector<std::int64_t> done = {};  // at its end: Mark::done, its own items included
  };

  void push(Stream& stream, Item item);
  void run_until(std::size_t stream, std::int64_t finished);
  void run_next(Stream& stream);
  void run_ahead();

  Timing timing_ = Timing::kAtOnce;
  std::deque<Stream> streams_;  // at fixed addresses
  bool running_ahead_ = false;
  std::int64_t waits_ = 0;
  mutable std::mutex known_mutex_;
  std::vector<std::int64_t> known_;  // of each stream's items, how many the host knows to be done
};

}  // namespace moh::sim
