#include "train/serve/work_queue.h"

#include <exception>
#include <string>
#include <utility>

#include "core/error.h"
#include "train/serve/failure_log.h"

namespace moh {

ServiceThreads::ServiceThreads(std::size_t count, std::function<void()> work,
                               std::function<void()> ask_to_end)
    : ask_to_end_(std::move(ask_to_end)) {
  threads_.reserve(count);
  try {
    while (threads_.size() < count) threads_.emplace_back(work);
  } catch (const std::exception& error) {
    const std::size_t started = threads_.size();
    end();
    throw Error(error_message("serve", "threads", std::to_string(count) + " threads",
                              std::to_string(started) + ", then the system refused another one (" +
                                  error.what() + "); raise the limit of memory or processes"));
  }
}

void ServiceThreads::end() {
  ask_to_end_();
  for (std::thread& thread : threads_) thread.join();
  threads_.clear();
}

WorkQueue::WorkQueue(std::size_t threads)
    : threads_(
          threads, [this] { run(); },
          [this] {
            {
              const std::scoped_lock lock(mutex_);
              ending_ = true;
              waiting_.clear();
            }
            changed_.notify_all();
          }) {}

void WorkQueue::post(std::function<void()> work) {
  {
    const std::scoped_lock lock(mutex_);
    if (ending_) return;
    waiting_.push_back(std::move(work));
  }
  changed_.notify_one();
}

void WorkQueue::run() {
  for (;;) {
    std::function<void()> work;
    {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [this] { return ending_ || !waiting_.empty(); });
      if (ending_) return;
      work = std::move(waiting_.front());
      waiting_.pop_front();
    }
    try {
      work();
    } catch (const std::exception& error) {
      log_failure(error);
    }
  }
}

}  // namespace moh
