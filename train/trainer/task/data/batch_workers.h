#pragma once

#include <algorithm>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <utility>

#include "core/dry_run.h"
#include "core/threads.h"

namespace moh {

/// Makes batches ahead of their use, sample by sample on several threads. Batch i is the same for any number
/// of threads: which of them makes a sample changes nothing about it, and next() returns batches in order.
/// position() counts those that next() has returned, so that batches that were made ahead when a checkpoint
/// is written are made again after a resume, and not lost.
template <class Batch>
class BatchWorkers {
 public:
  struct Steps {
    std::function<Batch(std::int64_t batch)> begin;  ///< memory for a batch
    std::int64_t samples = 0;                        ///< of each batch
    std::function<void(Batch&, std::int64_t batch, std::int64_t sample)>
        make;                                                ///< on any thread, in any order
    std::function<void(Batch&, std::int64_t batch)> finish;  ///< when all samples are made
  };

  /// Batches from `first` on, up to `depth` ahead of the next one, on `threads` threads, whose number `use`
  /// is about. With 0 threads next() makes the batch itself. In a dry run it begins as many as would be held,
  /// and makes no sample. Throws ThreadError.
  BatchWorkers(Steps steps, std::int64_t first, int depth, int threads,
               const ThreadUse& use = {"data.workers", "set data.workers to fewer"})
      : steps_(std::move(steps)),
        position_(first),
        next_index_(first),
        depth_(static_cast<std::size_t>(std::max(1, depth))) {
    if (dry_run() || threads <= 0) return;
    threads_.start(use, static_cast<std::size_t>(threads), [this] { work_or_break(); });
  }
  ~BatchWorkers() = default;
  BatchWorkers(const BatchWorkers&) = delete;
  BatchWorkers& operator=(const BatchWorkers&) = delete;

  /// Index of the batch that the next call of next() returns.
  std::int64_t position() const { return position_; }

  /// Waits for the next batch and returns it. Throws the exception of the first of its samples that failed,
  /// in every later call, too.
  Batch next() {
    Batch batch = threads_.empty() ? make_here() : take();
    ++position_;
    return batch;
  }

 private:
  struct Job {
    Job(std::int64_t number, Batch memory) : index(number), batch(std::move(memory)) {}
    std::int64_t index;
    Batch batch;
    std::int64_t begun = 0, done = 0;
    std::int64_t failed_sample = 0;
    std::exception_ptr failure;
    bool ready = false;
  };

  Batch make_here() {
    Batch batch = steps_.begin(position_);
    if (dry_run()) {
      while (held_.size() < depth_ + 1) held_.push_back(steps_.begin(position_));
    } else {
      for (std::int64_t i = 0; i < steps_.samples; ++i) steps_.make(batch, position_, i);
      steps_.finish(batch, position_);
    }
    return batch;
  }

  Batch take() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return broken_ || (!jobs_.empty() && jobs_.front()->ready); });
    if (broken_) std::rethrow_exception(broken_);
    if (jobs_.front()->failure) std::rethrow_exception(jobs_.front()->failure);
    Batch batch = std::move(jobs_.front()->batch);
    jobs_.pop_front();
    lock.unlock();
    changed_.notify_all();
    return batch;
  }

  void stop() {
    {
      const std::lock_guard lock(mutex_);
      stopping_ = true;
    }
    changed_.notify_all();
  }

  /// Errors beside a sample, such as no memory for a batch's entry, are thrown by next().
  void work_or_break() {
    try {
      work();
    } catch (...) {
      const std::lock_guard lock(mutex_);
      broken_ = std::current_exception();
      changed_.notify_all();
    }
  }

  void work() {
    std::unique_lock lock(mutex_);
    while (Job* job = next_job(lock)) {
      const std::int64_t sample = job->begun++;
      lock.unlock();
      std::exception_ptr failure;
      try {
        steps_.make(job->batch, job->index, sample);
      } catch (...) {
        failure = std::current_exception();
      }
      lock.lock();
      if (failure && (!job->failure || sample < job->failed_sample)) {
        job->failure = failure;
        job->failed_sample = sample;
      }
      if (++job->done == steps_.samples) finish(*job, lock);
    }
  }

  void finish(Job& job, std::unique_lock<std::mutex>& lock) {
    if (!job.failure) {
      lock.unlock();
      std::exception_ptr failure;
      try {
        steps_.finish(job.batch, job.index);
      } catch (...) {
        failure = std::current_exception();
      }
      lock.lock();
      job.failure = failure;
    }
    job.ready = true;
    changed_.notify_all();
  }

  /// The oldest batch with samples to make, begun if there is room; null when there is nothing more to do.
  Job* next_job(std::unique_lock<std::mutex>& lock) {
    while (!stopping_) {
      if (!jobs_.empty() && jobs_.back()->begun < steps_.samples) return jobs_.back().get();
      if (!begin_failed_ && jobs_.size() < depth_ + 1) {
        begin_job();
        continue;
      }
      changed_.wait(lock);
    }
    return nullptr;
  }

  /// Under the lock: memory is taken quickly, and in order.
  void begin_job() {
    const std::int64_t index = next_index_++;
    try {
      jobs_.push_back(std::make_unique<Job>(index, steps_.begin(index)));
    } catch (...) {
      begin_failed_ = true;
      auto job = std::make_unique<Job>(index, Batch{});
      job->failure = std::current_exception();
      job->begun = steps_.samples;
      job->ready = true;
      jobs_.push_back(std::move(job));
      changed_.notify_all();
    }
  }

  const Steps steps_;
  std::int64_t position_;    ///< of the caller
  std::int64_t next_index_;  ///< of the batch to begin, under the lock
  const std::size_t depth_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::unique_ptr<Job>> jobs_;  ///< the newest is being made; older ones are complete, or nearly
  std::deque<Batch> held_;                 ///< of a dry run
  bool stopping_ = false, begin_failed_ = false;
  std::exception_ptr broken_;
  ThreadGroup threads_{[this] { stop(); }};  ///< the last member: ends before what it uses
};

}  // namespace moh
