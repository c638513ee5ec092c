#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace moh::config {

/// Edits that turn one word into the other: insert, delete, replace a letter, or swap two neighbours (optimal
/// string alignment distance).
std::size_t edit_distance(std::string_view a, std::string_view b);

/// The candidate that was probably meant by `word`, or "" when none is near: at most a third of its letters
/// may differ, three at most.
std::string nearest_name(std::string_view word, const std::vector<std::string>& candidates);

/// The same for dotted keys. A key of the same last name in another section comes first (learning_rate or
/// train.learning_rate is optim.learning_rate), then the key of a name that other frameworks have for it (lr,
/// epochs, n_embd), then the smallest edit distance over the whole key.
std::string nearest_key(std::string_view key, const std::vector<std::string>& candidates);

}  // namespace moh::config
