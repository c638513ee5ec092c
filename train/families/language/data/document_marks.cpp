#include "train/families/language/data/document_marks.h"

namespace moh {

DocumentMarks::DocumentMarks(const Tokenizer& tokenizer) : end(tokenizer.end_of_document()) {
  if (!tokenizer.sequence_start().empty()) start = tokenizer.sequence_start().front();
}

void DocumentMarks::write_starts(std::span<const TokenId> tokens, std::int32_t* starts) const {
  std::size_t start_of_document = 0;
  for (std::size_t t = 0; t < tokens.size(); ++t) {
    if (t > 0 && begins(tokens[t - 1], tokens[t])) start_of_document = t;
    starts[t] = static_cast<std::int32_t>(start_of_document);
  }
}

}  // namespace moh
