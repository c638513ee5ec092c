#pragma once

#include <cstdint>
#include <exception>
#include <optional>
#include <span>
#include <vector>

#include "models/llm/llama.h"
#include "train/apps/serve/completion.h"
#include "train/apps/serve/prefix_cache.h"
#include "train/apps/serve/server_metrics.h"
#include "train/apps/serve/spare_caches.h"

namespace moh {

/// A prompt that is read: the caches of its tokens so far, with room for `capacity` tokens, and their scores
/// if the job wants them.
struct PromptReading {
  const TextJob* job = nullptr;
  std::int64_t capacity = 0;
  KvCache cache = {};
  std::vector<TokenLogprobs> scores = {};
  Tensor next = {};  ///< once it is read, if the job goes on: logits [V] of the next token, on the host
  std::exception_ptr failure = {};  ///< why it cannot be read

  std::int64_t length() const { return std::ssize(job->prompt); }
  bool is_read() const { return cache.length() == length(); }
};

/// Reads prompts piece by piece, from behind what others have read that begin alike, several in a pass. On a
/// CPU the bits of what is read are a function of the prompt alone (Llama::steady_positions), held or
/// computed, beside others or not: no piece is shorter than kManyDecodeQueries unless the prompt is.
class PromptReader {
 public:
  static constexpr std::int64_t kPassTokens = 512;  ///< at most

  /// Holds what prompts begin with in at most `prefix_bytes`, and spare caches in as much again. `model` and
  /// `metrics` must outlive the reader.
  PromptReader(const Llama& model, std::int64_t prefix_bytes, ServerMetrics& metrics)
      : model_(model), metrics_(metrics), prefixes_(prefix_bytes, metrics), spares_(prefix_bytes) {}

  /// One pass over the next pieces of as many prompts as fit, the first ones first. One that begins as
  /// another of the pass waits until that is held. What concerns one prompt alone becomes its failure.
  void read(std::span<PromptReading* const> waiting);
  /// Takes the cache of a job's text that is done, for prompts that begin as the job's.
  void give_back(const TextJob& job, KvCache cache);
  /// Keeps caches that were given back for `tokens` tokens at most.
  void keep_spares(std::int64_t tokens) { spares_.shrink(tokens); }

 private:
  /// Tokens [begin, begin + count) of a prompt, rows [row, row + count) of a pass.
  struct Piece {
    PromptReading* reading;
    std::int64_t begin, count, row;
    std::int64_t end() const { return begin + count; }
  };
  /// A row of a pass whose logits are wanted, and the token of the prompt that they predict.
  struct Prediction {
    PromptReading* reading;
    std::int64_t row, token;
  };

  std::vector<Piece> choose(std::span<PromptReading* const> waiting);
  bool waits_for(const PromptReading& reading, const std::vector<Piece>& pieces);
  void begin(PromptReading& reading);
  KvCache cache_for(const PromptReading& reading);
  Tensor compute(const std::vector<Piece>& pieces) const;
  void predict(const std::vector<Piece>& pieces, const Tensor& hidden) const;
  void predict_some(std::span<const Prediction> predictions, const Tensor& hidden) const;
  void keep(const Piece& piece);
  bool is_steady(const TextJob& job) const { return std::ssize(job.prompt) <= model_.steady_positions(); }
  bool shares(const TextJob& job) const;

  const Llama& model_;
  ServerMetrics& metrics_;
  PrefixCache prefixes_;
  SpareCaches spares_;
};

}  // namespace moh
