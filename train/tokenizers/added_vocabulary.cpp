#include "train/tokenizers/added_vocabulary.h"

#include <algorithm>
#include <utility>

namespace moh {

AddedVocabulary::AddedVocabulary(const Vocabulary& vocabulary)
    : vocabulary_(&vocabulary), next_(static_cast<TokenId>(vocabulary.size())) {
  for (const auto& [name, id] : vocabulary) names_.emplace(id, name);
}

std::optional<TokenId> AddedVocabulary::find(std::string_view content) const {
  if (const AddedToken* token = find_added(content)) return token->id;
  const auto of_model = vocabulary_->find(content);
  return of_model == vocabulary_->end() ? std::nullopt : std::optional(of_model->second);
}

const AddedToken* AddedVocabulary::find_added(std::string_view content) const {
  const auto found = places_.find(std::string(content));
  return found == places_.end() ? nullptr : &tokens_[found->second];
}

void AddedVocabulary::add(AddedToken token) {
  token.id = id_for(token.content);
  next_ = std::max(next_, token.id + 1);
  const auto [place, is_new] = places_.try_emplace(token.content, tokens_.size());
  if (is_new) {
    names_.try_emplace(token.id, token.content);
    tokens_.push_back(std::move(token));
  } else {
    tokens_[place->second] = std::move(token);
  }
}

std::string AddedVocabulary::other_of(TokenId id, std::string_view content) const {
  const auto name = names_.find(id);
  return name == names_.end() || name->second == content ? std::string() : name->second;
}

}  // namespace moh
