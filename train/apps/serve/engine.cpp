#include "train/apps/serve/engine.h"

#include <algorithm>
#include <new>
#include <string>
#include <utility>

#include "core/error.h"
#include "core/parallel.h"
#include "train/base/http/failure_log.h"
#include "train/base/http/request_error.h"

namespace moh {

namespace {

constexpr auto kStopping = "the server is stopping";

EngineOptions checked(EngineOptions options, const LlamaConfig& model) {
  constexpr std::int64_t kMost = 1 << 20;
  const auto require = [](const char* what, std::int64_t value, std::int64_t least) {
    const std::int64_t most = least == 0 ? kMost << 20 : kMost;
    if (value < least || value > most)
      throw ValueError(error_message("serve", what, std::to_string(least) + " to " + std::to_string(most),
                                     std::to_string(value)));
  };
  require("max_batch", options.max_batch, 1);
  require("max_queue", options.max_queue, 1);
  require("cache_tokens", options.cache_tokens, 0);
  if (options.prefix_bytes < 0)
    throw ValueError(
        error_message("serve", "prefix_bytes", "0 or more", std::to_string(options.prefix_bytes)));
  if (options.cache_tokens == 0) options.cache_tokens = options.max_batch * model.max_positions;
  return options;
}

std::int64_t texts_of(const std::vector<TextJob>& jobs) {
  std::int64_t texts = 0;
  for (const TextJob& job : jobs) texts += job.n;
  return texts;
}

/// Ends a completion with an error that is not the request's.
void fail(Completion& completion, const std::exception& error) {
  const bool no_memory = dynamic_cast<const std::bad_alloc*>(&error) != nullptr ||
                         dynamic_cast<const MemoryError*>(&error) != nullptr;
  log_failure(error);
  completion.fail(no_memory ? 503 : 500,
                  no_memory ? "the server has too little memory; try again later" : error.what());
}

}  // namespace

Engine::Engine(const Llama& model, const TextRules& rules, const EngineOptions& options,
               ServerMetrics& metrics)
    : model_(model),
      rules_(rules),
      options_(checked(options, model.config())),
      metrics_(metrics),
      prompts_(model, options_.prefix_bytes, metrics),
      thread_([this] {
        {
          const std::scoped_lock lock(mutex_);
          closed_ = stopping_ = true;
        }
        work_.notify_one();
      }) {
  const auto started = std::make_shared<std::promise<void>>();
  std::future<void> ready = started->get_future();
  thread_.start(kHttpThreads, 1, [this, started] { run(*started); });
  ready.get();
}

void Engine::stop() {
  thread_.join();
  for (const std::deque<Reading>* queue : {&waiting_, &reading_}) {
    for (const Reading& reading : *queue) reading.completion->fail(503, kStopping);
  }
  for (const std::unique_ptr<Writing>& writing : writing_) writing->text.completion().fail(503, kStopping);
  waiting_.clear();
  reading_.clear();
  writing_.clear();
}

/// The last token that is generated needs no place.
std::int64_t Engine::cache_tokens_of(const TextJob& job) {
  return static_cast<std::int64_t>(job.prompt.size()) + std::max<std::int64_t>(job.max_tokens - 1, 0);
}

void Engine::check(const std::vector<TextJob>& jobs) const {
  const std::int64_t positions = model_.config().max_positions;
  for (const TextJob& job : jobs) {
    const auto length = static_cast<std::int64_t>(job.prompt.size());
    if (length < 1 || length > positions)
      throw bad_parameter("prompt", "1 to " + std::to_string(positions) + " tokens", std::to_string(length));
    if (job.max_tokens > positions - length)
      throw bad_parameter("max_tokens",
                          "at most " + std::to_string(positions - length) + " after a prompt of " +
                              std::to_string(length) + " tokens (the model has " + std::to_string(positions) +
                              " positions)",
                          std::to_string(job.max_tokens));
    if (cache_tokens_of(job) > options_.cache_tokens)
      throw bad_parameter(
          "max_tokens",
          "a text that fits the server's caches of " + std::to_string(options_.cache_tokens) + " tokens",
          "one of up to " + std::to_string(cache_tokens_of(job)));
  }
  if (const std::int64_t texts = texts_of(jobs); texts > options_.max_queue)
    throw bad_parameter("prompt",
                        "at most " + std::to_string(options_.max_queue) + " texts (prompts times n)",
                        std::to_string(texts));
}

/// The jobs with the numbers of their texts. Those of a job that are too many to run together become several.
std::vector<TextJob> Engine::in_parts(const std::vector<TextJob>& jobs) const {
  std::vector<TextJob> parts;
  std::size_t text = 0;
  for (const TextJob& job : jobs) {
    const std::int64_t fitting = options_.cache_tokens / std::max<std::int64_t>(cache_tokens_of(job), 1);
    const std::int64_t together = std::min(options_.max_batch, fitting);
    for (std::int64_t begin = 0; begin < job.n; begin += together) {
      TextJob part = job;
      part.n = std::min(together, job.n - begin);
      part.seed += static_cast<std::uint64_t>(begin);
      part.first_text = std::exchange(text, text + static_cast<std::size_t>(part.n));
      parts.push_back(std::move(part));
    }
  }
  return parts;
}

std::shared_ptr<Completion> Engine::submit(std::vector<TextJob> jobs) {
  check(jobs);
  jobs = in_parts(jobs);
  const std::int64_t texts = texts_of(jobs);
  const std::size_t count = jobs.size();
  auto completion = std::make_shared<Completion>(std::move(jobs), static_cast<std::size_t>(texts));
  {
    const std::scoped_lock lock(mutex_);
    if (closed_) throw overloaded(kStopping);
    if (waiting_texts_ + texts > options_.max_queue)
      throw overloaded("the queue is full: " + std::to_string(waiting_texts_) + " texts wait, at most " +
                       std::to_string(options_.max_queue) + " may");
    for (std::size_t job = 0; job < count; ++job) {
      const TextJob& work = completion->jobs()[job];
      waiting_.push_back({completion, job, {.job = &work, .capacity = cache_tokens_of(work)}});
    }
    waiting_texts_ += texts;
    metrics_.queued_texts = waiting_texts_;
  }
  work_.notify_one();
  return completion;
}

void Engine::close() {
  const std::scoped_lock lock(mutex_);
  closed_ = true;
}

/// False when the engine is to stop.
bool Engine::wait_for_work() {
  const bool busy = !reading_.empty() || !writing_.empty();
  std::unique_lock lock(mutex_);
  work_.wait(lock, [&] { return stopping_ || busy || !waiting_.empty(); });
  return !stopping_;
}

void Engine::run(std::promise<void>& started) {
  try {
    parallel_for(num_threads(), 1,
                 [](std::int64_t, std::int64_t) {});  // starts the threads that loops run on
    started.set_value();
  } catch (const std::exception&) {
    return started.set_exception(std::current_exception());
  }
  while (wait_for_work()) {
    try {
      step();
    } catch (const std::exception& error) {
      abandon(error);
    }
  }
}

/// Ends whatever is computed, after an error that is no single request's.
void Engine::abandon(const std::exception& error) {
  for (const Reading& reading : reading_) fail(*reading.completion, error);
  for (const std::unique_ptr<Writing>& writing : writing_) fail(writing->text.completion(), error);
  reading_.clear();
  writing_.clear();
  metrics_.running_texts = running_texts_ = used_cache_tokens_ = 0;
}

void Engine::step() {
  drop_cancelled();
  admit();
  if (!writing_.empty()) write_tokens();
  read_prompts();
}

/// First come, first served: a request that does not fit yet is not overtaken.
void Engine::admit() {
  const std::scoped_lock lock(mutex_);
  while (!waiting_.empty()) {
    const TextJob& job = waiting_.front().work();
    const std::int64_t tokens = cache_tokens_of(job);
    if (running_texts_ + job.n > options_.max_batch ||
        used_cache_tokens_ + job.n * tokens > options_.cache_tokens)
      break;
    running_texts_ += job.n;
    used_cache_tokens_ += job.n * tokens;
    waiting_texts_ -= job.n;
    reading_.push_back(std::move(waiting_.front()));
    waiting_.pop_front();
  }
  prompts_.keep_spares(options_.cache_tokens - used_cache_tokens_);
  metrics_.queued_texts = waiting_texts_;
  metrics_.running_texts = running_texts_;
}

/// One pass in a step, so that long prompts do not stop the texts that are being generated.
void Engine::read_prompts() {
  if (reading_.empty()) return;
  std::vector<PromptReading*> prompts;
  for (Reading& reading : reading_) prompts.push_back(&reading.prompt);
  prompts_.read(prompts);
  for (Reading& reading : reading_) {
    if (reading.prompt.failure) {
      fail_prompt(reading);
    } else if (reading.prompt.is_read()) {
      begin_texts(reading);
    } else {
      continue;
    }
    reading.done = true;
  }
  std::erase_if(reading_, [](const Reading& reading) { return reading.done; });
}

void Engine::fail_prompt(const Reading& reading) {
  try {
    std::rethrow_exception(reading.prompt.failure);
  } catch (const std::exception& error) {
    fail(*reading.completion, error);
  }
  for (std::int64_t i = 0; i < reading.work().n; ++i) forget(reading.work());
}

void Engine::begin_texts(Reading& reading) {
  const TextJob& job = reading.work();
  PromptReading& prompt = reading.prompt;
  for (std::int64_t number = 0; number < job.n; ++number) {
    bool running = true;
    try {
      GeneratedText text(reading.completion, reading.job, number, rules_);
      if (job.max_tokens == 0) {
        text.end_with(prompt.scores);
      } else {
        ++metrics_.generated_tokens;  // before the draw, which may be the answer's end
        text.draw(prompt.next.span<float>(), prompt.scores);
      }
      if (text.finished()) {
        running = false;
        forget(job);
      }
      text.hand_over();
      const bool last = number + 1 == job.n;
      if (running) {
        KvCache cache = last ? std::move(prompt.cache) : prompt.cache.clone();
        writing_.push_back(std::make_unique<Writing>(Writing{std::move(text), std::move(cache)}));
      } else if (last) {
        prompts_.give_back(job, std::move(prompt.cache));
      }
    } catch (const std::exception& error) {
      if (running) forget(job);
      fail(*reading.completion, error);
    }
  }
}

void Engine::write_tokens() {
  std::vector<TokenId> last;
  std::vector<KvCache*> caches;
  for (const std::unique_ptr<Writing>& writing : writing_) {
    last.push_back(writing->text.last());
    caches.push_back(&writing->cache);
  }
  const std::int64_t texts = std::ssize(writing_);
  try {
    const Tensor logits = model_.decode_each(tensor_of<TokenId>({texts}, last), caches).to(kCpu);
    metrics_.batch_size.observe(static_cast<double>(texts));
    metrics_.generated_tokens += texts;
    parallel_for(texts, 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t b = begin; b < end; ++b) {
        GeneratedText& text = writing_[static_cast<std::size_t>(b)]->text;
        try {
          text.draw(logits.select(b).span<float>());
        } catch (const std::exception& error) {
          fail(text.completion(), error);
        }
      }
    });
    hand_over();
  } catch (const std::exception& error) {
    for (const std::unique_ptr<Writing>& writing : writing_) fail(writing->text.completion(), error);
  }
  drop_cancelled();
}

/// Gives the new pieces to those who wait for them, after the texts that end with them are counted as ended.
void Engine::hand_over() {
  for (const std::unique_ptr<Writing>& writing : writing_)
    if (writing->text.finished()) forget(writing->text.job());
  for (const std::unique_ptr<Writing>& writing : writing_) {
    GeneratedText& text = writing->text;
    if (text.completion().cancelled()) continue;
    try {
      text.hand_over();
    } catch (const std::exception& error) {
      fail(text.completion(), error);
    }
  }
  std::erase_if(writing_, [&](const std::unique_ptr<Writing>& writing) {
    if (!writing->text.finished()) return false;
    prompts_.give_back(writing->text.job(), std::move(writing->cache));
    return true;
  });
}

/// One text of a job is no longer computed.
void Engine::forget(const TextJob& job) {
  metrics_.running_texts = --running_texts_;
  used_cache_tokens_ -= cache_tokens_of(job);
}

/// Takes out what has failed or is no longer wanted.
void Engine::drop_cancelled() {
  std::erase_if(writing_, [&](const std::unique_ptr<Writing>& writing) {
    if (!writing->text.completion().cancelled()) return false;
    forget(writing->text.job());
    return true;
  });
  std::erase_if(reading_, [&](const Reading& reading) {
    if (!reading.completion->cancelled()) return false;
    for (std::int64_t i = 0; i < reading.work().n; ++i) forget(reading.work());
    return true;
  });
  const std::scoped_lock lock(mutex_);
  std::erase_if(waiting_, [&](const Reading& reading) {
    if (!reading.completion->cancelled()) return false;
    waiting_texts_ -= reading.work().n;
    return true;
  });
  metrics_.queued_texts = waiting_texts_;
}

}  // namespace moh
