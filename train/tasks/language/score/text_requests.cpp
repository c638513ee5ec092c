#include "train/tasks/language/score/text_requests.h"

#include <algorithm>

#include "core/error.h"
#include "train/tasks/language/score/python_text.h"

namespace moh {

TokenId prefix_token(const Tokenizer& tokenizer) {
  if (tokenizer.beginning()) return *tokenizer.beginning();
  if (tokenizer.end_of_document()) return *tokenizer.end_of_document();
  throw DataError(error_message(std::string(tokenizer.name()), "",
                                "a token that texts begin with, a bos_token, or one that ends documents",
                                "none", "texts without anything before them cannot be scored"));
}

std::vector<TokenId> encode_context(const Tokenizer& tokenizer, std::string_view context) {
  std::vector<TokenId> ids = tokenizer.sequence_start();
  tokenizer.encode(context, ids);
  return ids;
}

namespace {

ScoreRequest after_nothing(const Tokenizer& tokenizer, std::string_view continuation) {
  ScoreRequest request{{prefix_token(tokenizer)}, {}, false};
  tokenizer.encode(continuation, request.continuation);
  std::vector<TokenId>& ids = request.continuation;
  if (!ids.empty() && ids.front() == request.context.front()) ids.erase(ids.begin());
  return request;
}

}  // namespace

ScoreRequest encode_pair(const Tokenizer& tokenizer, std::string_view context,
                         std::string_view continuation) {
  ScoreRequest request;
  const std::string_view bare = python_rstrip(context);
  const std::string whole = std::string(context) + std::string(continuation);
  if (bare.empty()) {
    request = after_nothing(tokenizer, whole);
  } else {
    request.context = encode_context(tokenizer, bare);
    const std::vector<TokenId> ids = encode_context(tokenizer, whole);
    const std::size_t begin = std::min(request.context.size(), ids.size());
    request.continuation.assign(ids.begin() + static_cast<std::ptrdiff_t>(begin), ids.end());
  }
  if (request.context.empty() || request.continuation.empty())
    throw DataError(error_message("", "continuation", "a token or more after those of its context", "none"));
  return request;
}

std::vector<ScoreRequest> encode_windows(const Tokenizer& tokenizer, std::string_view text,
                                         std::int64_t positions) {
  const std::vector<TokenId> ids = encode_context(tokenizer, text);
  const std::int64_t count = std::ssize(ids);
  if (count == 0) throw DataError(error_message("", "text", "a token or more", "none"));
  std::vector<TokenId> padded = {prefix_token(tokenizer)};
  padded.insert(padded.end(), ids.begin(), ids.end());
  std::vector<ScoreRequest> windows;
  for (std::int64_t done = 0; done < count;) {
    const std::int64_t predicted = std::min(positions, count - done), end = done + predicted;
    // In `padded`, token t stands at t + 1.
    const auto first = padded.begin() + (done == 0 ? 0 : std::max<std::int64_t>(0, end - positions));
    const auto begin = padded.begin() + done + 1;
    windows.push_back({{first, begin}, {begin, begin + predicted}, false});
    done = end;
  }
  return windows;
}

}  // namespace moh
