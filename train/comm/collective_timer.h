#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace moh {

/// When the collectives of a GPU have run: by events of the communication queue around each, for which nobody
/// waits until spans() is called. Not within a capture.
class CollectiveTimer {
 public:
  /// In seconds since the compute queue has come to where the timer was made. From `begin` on, the collective
  /// also waits for other processes.
  struct Span {
    std::string name;
    std::size_t bytes = 0;
    double begin = 0, end = 0;
  };

  CollectiveTimer();
  ~CollectiveTimer();
  CollectiveTimer(const CollectiveTimer&) = delete;
  CollectiveTimer& operator=(const CollectiveTimer&) = delete;

  /// Work enqueued from now on, until end(), belongs to this collective.
  void begin(std::string name, std::size_t bytes);
  void end();
  /// All so far, in their order; waits for their ends.
  std::vector<Span> spans() const;

 private:
  struct Timed {
    std::string name;
    std::size_t bytes;
    void *begin, *end;
  };
  void* origin_;
  std::vector<Timed> timed_;
};

}  // namespace moh
