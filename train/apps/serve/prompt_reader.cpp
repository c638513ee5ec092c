#include "train/apps/serve/prompt_reader.h"

#include <algorithm>
#include <new>

#include "core/error.h"
#include "core/parallel.h"
#include "ops/attention/decode.h"

namespace moh {

namespace {

/// The alternatives of the scores that a job wants of its prompt, if it wants them.
std::optional<std::int64_t> scored_top(const TextJob& job) {
  return job.scores_prompt ? std::optional(job.logprobs.value_or(0)) : std::nullopt;
}

/// Tokens of the next piece where `left` are and `room` fit the pass: neither it nor the last one is too
/// short.
std::int64_t tokens_of_piece(std::int64_t left, std::int64_t room) {
  std::int64_t count = std::min(left, room);
  if (count < left) count = std::min(count, left - kManyDecodeQueries);
  return count < std::min(left, kManyDecodeQueries) ? 0 : count;
}

}  // namespace

void PromptReader::read(std::span<PromptReading* const> waiting) {
  const std::vector<Piece> pieces = choose(waiting);
  if (pieces.empty()) return;
  try {
    predict(pieces, compute(pieces));
  } catch (const std::exception&) {
    for (const Piece& piece : pieces) piece.reading->failure = std::current_exception();
    return;
  }
  for (const Piece& piece : pieces) {
    if (shares(*piece.reading->job) && !piece.reading->failure) keep(piece);
    if (piece.reading->is_read()) piece.reading->cache.keep_last(false);
  }
}

/// Chooses pieces, which are a function of the prompt alone where angles depend on where a piece ends.
std::vector<PromptReader::Piece> PromptReader::choose(std::span<PromptReading* const> waiting) {
  std::vector<Piece> pieces;
  std::int64_t row = 0;
  for (PromptReading* const reading : waiting) {
    const std::int64_t room = kPassTokens - row;
    if (room < kManyDecodeQueries) break;
    try {
      if (reading->cache.layers.empty()) {
        if (waits_for(*reading, pieces)) continue;
        begin(*reading);
      }
    } catch (const std::exception&) {
      reading->failure = std::current_exception();
      continue;
    }
    const std::int64_t begin = reading->cache.length(), left = reading->length() - begin;
    const std::int64_t count = tokens_of_piece(left, is_steady(*reading->job) ? room : kPassTokens);
    if (count == 0 || count > room) continue;
    pieces.push_back({reading, begin, count, row});
    row += count;
  }
  return pieces;
}

/// Whether a prompt of the pass begins alike, so that it is worth while to read this one from behind that.
bool PromptReader::waits_for(const PromptReading& reading, const std::vector<Piece>& pieces) {
  constexpr std::int64_t kWorthWhile = 16;  // tokens
  if (!shares(*reading.job)) return false;
  const std::optional<std::int64_t> top = scored_top(*reading.job);
  std::optional<std::int64_t> held;
  return std::ranges::any_of(pieces, [&](const Piece& piece) {
    const PromptReading& other = *piece.reading;
    if (!shares(*other.job) || scored_top(*other.job) < top) return false;
    const std::int64_t common = common_beginning(reading.job->prompt, other.job->prompt);
    if (common < kWorthWhile) return false;
    if (!held) held = prefixes_.held(reading.job->prompt, top);
    return common >= *held + kWorthWhile;
  });
}

/// Whether what the prompt begins with may come from others, and be held for them.
bool PromptReader::shares(const TextJob& job) const {
  const bool by_head = model_.config().moh.routed != RoutedRows::kQueries;  // caches without rows of tokens
  return !by_head && prefixes_.on() && std::ssize(job.prompt) >= kManyDecodeQueries && is_steady(job);
}

void PromptReader::begin(PromptReading& reading) {
  reading.cache = cache_for(reading);
  if (!shares(*reading.job)) return;
  reading.cache.keep_last(true);
  const std::int64_t held = prefixes_.begin_with(reading.job->prompt, reading.length() - kManyDecodeQueries,
                                                 scored_top(*reading.job), reading.cache, reading.scores);
  metrics_.prefix_hit_tokens += held;
  metrics_.prefix_miss_tokens += reading.length() - held;
}

/// A cache with room for the reading, which may have some of its first tokens. A text that runs is worth more
/// than what others may begin with.
KvCache PromptReader::cache_for(const PromptReading& reading) {
  constexpr std::int64_t kUnit = 64;  // so that prompts of about one length can have each other's caches
  if (!shares(*reading.job)) return model_.make_cache(1, reading.capacity);
  if (std::optional<KvCache> spare = spares_.take(reading.job->prompt, reading.capacity))
    return *std::move(spare);
  const std::int64_t tokens =
      std::min((reading.capacity + kUnit - 1) / kUnit * kUnit, model_.config().max_positions);
  try {
    return model_.make_cache(1, tokens);
  } catch (const MemoryError&) {
    spares_.shrink(0);
    prefixes_.clear();
    return model_.make_cache(1, tokens);
  }
}

void PromptReader::give_back(const TextJob& job, KvCache cache) {
  if (!shares(job)) return;
  try {
    spares_.keep(job.prompt, std::move(cache));
  } catch (const std::bad_alloc&) {
    // Then there is no spare one.
  }
}

Tensor PromptReader::compute(const std::vector<Piece>& pieces) const {
  std::vector<TokenId> ids;
  std::vector<std::int64_t> counts;
  std::vector<KvCache*> caches;
  for (const Piece& piece : pieces) {
    const auto first = piece.reading->job->prompt.begin() + static_cast<std::ptrdiff_t>(piece.begin);
    ids.insert(ids.end(), first, first + static_cast<std::ptrdiff_t>(piece.count));
    counts.push_back(piece.count);
    caches.push_back(&piece.reading->cache);
  }
  metrics_.prompt_tokens += std::ssize(ids);
  return model_.decode_pieces(tensor_of<TokenId>({std::ssize(ids)}, ids), counts, caches);
}

/// Scores the tokens that the rows of a pass predict, where they are wanted, and makes the logits behind
/// prompts that go on.
void PromptReader::predict(const std::vector<Piece>& pieces, const Tensor& hidden) const {
  std::vector<Prediction> predictions;
  for (const auto& [reading, begin, count, row] : pieces) {
    const std::int64_t length = reading->length(), end = begin + count;
    if (reading->job->scores_prompt) {
      const std::int64_t scored = std::min(end + 1, length);
      if (begin == 0) reading->scores = {{.id = reading->job->prompt.front(), .logprob = {}, .top = {}}};
      reading->scores.resize(static_cast<std::size_t>(scored));
      for (std::int64_t token = begin + 1; token < scored; ++token)
        predictions.push_back({reading, row + token - 1 - begin, token});
    }
    if (end == length && reading->job->max_tokens > 0)
      predictions.push_back({reading, row + count - 1, length});
  }
  constexpr std::size_t kRows = 128;  // of logits that are in memory
  const std::span<const Prediction> all = predictions;
  for (std::size_t first = 0; first < all.size(); first += kRows)
    predict_some(all.subspan(first, std::min(kRows, all.size() - first)), hidden);
}

void PromptReader::predict_some(std::span<const Prediction> predictions, const Tensor& hidden) const {
  const std::int64_t count = std::ssize(predictions);
  const Tensor rows = empty({count}, DType::kInt64);
  for (std::int64_t i = 0; i < count; ++i)
    rows.data<std::int64_t>()[i] = predictions[static_cast<std::size_t>(i)].row;
  const Tensor logits = model_.logits_at(hidden, rows).to(kCpu);
  std::vector<std::exception_ptr> failures(predictions.size());
  parallel_for(count, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      const auto& [reading, row, token] = predictions[static_cast<std::size_t>(i)];
      const TextJob& job = *reading->job;
      try {
        if (token == reading->length()) {
          reading->next = logits.select(i).clone();
        } else {
          reading->scores[static_cast<std::size_t>(token)] =
              logprobs_of(logits.select(i).span<float>(), job.prompt[static_cast<std::size_t>(token)],
                          job.logprobs.value_or(0));
        }
      } catch (const std::exception&) {
        failures[static_cast<std::size_t>(i)] = std::current_exception();
      }
    }
  });
  for (std::size_t i = 0; i < failures.size(); ++i)
    if (failures[i]) predictions[i].reading->failure = failures[i];
}

void PromptReader::keep(const Piece& piece) {
  const PromptReading& reading = *piece.reading;
  try {
    prefixes_.add(reading.job->prompt, piece.begin, piece.end(), reading.cache, scored_top(*reading.job),
                  reading.scores);
  } catch (const MemoryError&) {
    prefixes_.clear();
  } catch (const std::bad_alloc&) {
    prefixes_.clear();
  }
}

}  // namespace moh
