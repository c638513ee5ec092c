#include "train/comm/collective_watchdog.h"

#include <chrono>
#include <cstdio>
#include <exception>
#include <utility>

#include "core/device_clock.h"
#include "core/threads.h"

namespace moh {

namespace {

void pause(double seconds) {
  std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
}

std::string seconds_text(double seconds) {
  char text[32];
  std::snprintf(text, sizeof text, "%.3g s", seconds);
  return text;
}

}  // namespace

CollectiveWatchdog::CollectiveWatchdog(Watched watched, double deadline, Times times)
    : watched_(std::move(watched)), deadline_(deadline), times_(times), changed_(steady_seconds()) {
  thread_ = start_thread({"comm"}, [this] { run(); });
}

CollectiveWatchdog::~CollectiveWatchdog() {
  stop();
}

void CollectiveWatchdog::stop() {
  stopping_ = true;
  if (thread_.joinable()) thread_.join();
}

const std::string& CollectiveWatchdog::acknowledge() {
  acknowledged_ = true;
  return reason_;
}

void CollectiveWatchdog::run() {
  while (!stopping_) {
    reason_ = look();
    if (!reason_.empty()) return end_collectives();
    pause(times_.between);
  }
}

/// Why the collectives have to end, a look that fails among it; empty if all is well.
std::string CollectiveWatchdog::look() try {
  watched_.check();
  if (std::string trouble = watched_.trouble(); !trouble.empty()) return trouble;
  const cuda::CollectiveCounts counts = watched_.counts();
  const double now = steady_seconds();
  const bool same = counts.begun == last_.begun && counts.ended == last_.ended;
  if (!same || counts.begun == counts.ended) {
    last_ = counts;
    changed_ = now;
  } else if (deadline_ > 0 && now - changed_ > deadline_) {
    return "collective " + std::to_string(counts.begun) +
           " on the GPU: expected its end within comm.timeout, found none after " +
           seconds_text(now - changed_) +
           "; another process may be stuck or stopped, or call another collective, or need longer: set "
           "comm.timeout";
  }
  return {};
} catch (const std::exception& error) {
  return error.what();
}

void CollectiveWatchdog::end_collectives() {
  // Seen first, so that whom the abort frees finds the reason.
  failed_ = true;
  watched_.abort();
  double since = steady_seconds();
  for (bool told = false; !stopping_; pause(times_.between)) {
    if (!told && acknowledged_) {
      told = true;
      since = steady_seconds();
    }
    const double limit = told ? times_.until_stop : times_.until_end;
    if (steady_seconds() - since > limit) return watched_.end_process();
  }
}

}  // namespace moh
