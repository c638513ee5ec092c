#include "train/apps/serve/generated_text.h"

#include <algorithm>
#include <utility>

namespace moh {

GeneratedText::GeneratedText(std::shared_ptr<Completion> completion, std::size_t job, std::int64_t number,
                             const TextRules& rules)
    : completion_(std::move(completion)),
      job_(completion_->jobs()[job]),
      rules_(rules),
      choice_(job_.first_text + static_cast<std::size_t>(number)),
      picker_(job_.pick, generation_key(job_.seed + static_cast<std::uint64_t>(number))),
      filter_(job_.stop) {}

bool GeneratedText::ends(TokenId id) const {
  return id == rules_.text.tokenizer().end_of_document() ||
         std::ranges::find(rules_.ends, id) != rules_.ends.end() ||
         std::ranges::find(job_.ends, id) != job_.ends.end();
}

void GeneratedText::draw(std::span<const float> logits, std::vector<TokenLogprobs> scores) {
  // The model's vocabulary may be padded beyond the tokenizer's.
  const auto known = static_cast<std::size_t>(rules_.text.tokenizer().vocab_size());
  last_ = picker_.pick(logits.first(std::min(known, logits.size())));
  if (job_.logprobs) scores.push_back(logprobs_of(logits, last_, *job_.logprobs));
  ++generated_;
  piece_ = {.choice = choice_, .text = {}, .scores = std::move(scores), .tokens = 1, .finish = {}};
  if (ends(last_)) {
    piece_.finish = Finish::kStop;
  } else {
    piece_.text = filter_.push(characters_.push(rules_.text.tokenizer().token_bytes(last_)));
    if (filter_.stopped()) {
      piece_.finish = Finish::kStop;
    } else if (generated_ == job_.max_tokens) {
      piece_.finish = Finish::kLength;
    }
  }
  if (piece_.finish) {
    piece_.text += filter_.push(characters_.finish());
    piece_.text += filter_.finish();
  }
  finished_ = piece_.finish.has_value();
}

void GeneratedText::end_with(std::vector<TokenLogprobs> scores) {
  finished_ = true;
  piece_ = {
      .choice = choice_, .text = {}, .scores = std::move(scores), .tokens = 0, .finish = Finish::kLength};
}

}  // namespace moh
