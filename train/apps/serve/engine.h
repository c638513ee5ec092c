#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <exception>
#include <future>
#include <memory>
#include <mutex>
#include <vector>

#include "models/llm/llama.h"
#include "train/apps/serve/generated_text.h"
#include "train/apps/serve/prompt_reader.h"
#include "train/apps/serve/server_metrics.h"
#include "train/base/http/work_queue.h"

namespace moh {

struct EngineOptions {
  std::int64_t max_batch = 32;   ///< texts that are computed together
  std::int64_t max_queue = 512;  ///< texts that may wait for that
  /// Tokens of the KV caches of all texts that are computed together; 0: as many as they can have.
  std::int64_t cache_tokens = 0;
  /// Memory of what prompts begin with, for those that begin alike (PrefixCache), and at most as much again
  /// of caches that have it in place (SpareCaches); 0: none.
  std::int64_t prefix_bytes = std::int64_t{1} << 30;
};

/// Runs a model for many requests at once, on a thread of its own: in each step every text that is being
/// generated gets one token, in one batch (continuous batching, as in Orca: Yu et al., OSDI 2022), and
/// prompts are read in pieces between the steps (PromptReader). A text is a function of its own job: on the
/// CPU its bits do not depend on what is computed beside it or was before (Llama::decode_each,
/// Llama::steady_positions).
class Engine {
 public:
  /// `model`, `rules` and `metrics` must outlive the engine. Throws ValueError for options out of range, and
  /// Error if the system refuses a thread.
  Engine(const Llama& model, const TextRules& rules, const EngineOptions& options, ServerMetrics& metrics);
  ~Engine() { stop(); }
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  /// Queues a request. Prompts must be within the vocabulary. Texts of a prompt that do not fit a batch or
  /// the caches together are computed in parts. Throws RequestError: status 400 for jobs that are longer than
  /// the model's positions or that could never run, 503 when the queue is full or closed.
  std::shared_ptr<Completion> submit(std::vector<TextJob> jobs);
  /// Throws what submit() would throw for jobs that could never run.
  void check(const std::vector<TextJob>& jobs) const;
  /// Refuses further requests.
  void close();
  /// Fails what is unfinished, and refuses further requests.
  void stop();

 private:
  /// A prompt that is read, or its texts.
  struct Reading {
    std::shared_ptr<Completion> completion;
    std::size_t job = 0;
    PromptReading prompt;
    bool done = false;  // its texts have begun, or it has failed
    const TextJob& work() const { return completion->jobs()[job]; }
  };
  struct Writing {
    GeneratedText text;
    KvCache cache;
  };

  std::vector<TextJob> in_parts(const std::vector<TextJob>& jobs) const;
  void run(std::promise<void>& started);
  void abandon(const std::exception& error);
  bool wait_for_work();
  void step();
  void admit();
  void read_prompts();
  void fail_prompt(const Reading& reading);
  void begin_texts(Reading& reading);
  void write_tokens();
  void hand_over();
  void drop_cancelled();
  void forget(const TextJob& job);
  static std::int64_t cache_tokens_of(const TextJob& job);

  const Llama& model_;
  const TextRules& rules_;
  const EngineOptions options_;
  ServerMetrics& metrics_;

  std::mutex mutex_;
  std::condition_variable work_;
  std::deque<Reading> waiting_;  // their caches are made when they are admitted
  std::int64_t waiting_texts_ = 0;
  bool closed_ = false, stopping_ = false;

  // Used by the engine's thread alone.
  PromptReader prompts_;
  std::deque<Reading> reading_;
  std::vector<std::unique_ptr<Writing>> writing_;
  std::int64_t running_texts_ = 0, used_cache_tokens_ = 0;
  ThreadGroup thread_;
};

}  // namespace moh
