#include "train/base/http/work_queue.h"

#include <exception>
#include <utility>

#include "train/base/http/failure_log.h"

namespace moh {

WorkQueue::WorkQueue(std::size_t threads)
    : threads_([this] {
        {
          const std::scoped_lock lock(mutex_);
          ending_ = true;
          waiting_.clear();
        }
        changed_.notify_all();
      }) {
  threads_.start(kHttpThreads, threads, [this] { run(); });
}

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
