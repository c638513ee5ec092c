#include "core/threads.h"

#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <exception>
#include <string>

namespace moh {

namespace {

std::atomic<bool> has_left_some = false;

/// Not std::terminate(), whose message names no place, and which leaves a core dump.
[[noreturn]] void end_program(const std::string& where, const char* message) {
  std::fprintf(stderr, "error: %s: a thread ended with: %s\n", where.c_str(), message);
  ::_exit(1);
}

}  // namespace

void refuse_thread(const ThreadUse& use, std::size_t wanted, std::size_t started,
                   const std::system_error& reason) {
  const std::string why = std::string(" (") + reason.what() + ")";
  const std::string fix = (use.fix.empty() ? "" : std::string(use.fix) + ", or ") +
                          "raise the limits on processes (ulimit -u) and address space (ulimit -v)";
  if (wanted == 1)
    throw ThreadError(error_message(use.where, "", "a thread", "that the system refused it" + why, fix));
  throw ThreadError(error_message(use.where, "", std::to_string(wanted) + " threads",
                                  std::to_string(started) + ", then the system refused another one" + why,
                                  fix));
}

std::thread start_thread(const ThreadUse& use, std::function<void()> body, std::size_t wanted,
                         std::size_t started) {
  try {
    return std::thread([body = std::move(body), where = std::string(use.where)] {
      try {
        body();
      } catch (const std::exception& error) {
        end_program(where, error.what());
      }
    });
  } catch (const std::system_error& reason) {
    refuse_thread(use, wanted, started, reason);
  }
}

void leave_behind(std::thread thread) noexcept {
  has_left_some = true;
  thread.detach();
}

int end_process(int code) {
  if (!has_left_some) return code;
  std::fflush(nullptr);
  ::_exit(code);
}

void ThreadGroup::start(const ThreadUse& use, std::size_t count, const std::function<void()>& body) {
  threads_.reserve(threads_.size() + count);
  for (std::size_t i = 0; i < count; ++i) threads_.push_back(start_thread(use, body, count, i));
}

void ThreadGroup::join() {
  if (threads_.empty()) return;
  stop_();
  for (std::thread& thread : threads_) thread.join();
  threads_.clear();
}

}  // namespace moh
