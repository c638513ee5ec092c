#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace moh::config {

/// Number of edits that turn one word into the other: insert, delete or replace a letter, or swap two
/// adjacent ones (optimal string alignment distance).
std::size_t edit_distance(std::string_view a, std::string_view b);

/// The candidate nearest to `word` by edit distance, or "" if all are too far: at most a third of its
/// letters, and at most three, may differ.
std::string nearest_name(std::string_view word, const std::vector<std::string>& candidates);

/// The nearest of dotted keys. A key of the same last name in another section comes first (learning_rate or
/// train.learning_rate is optim.learning_rate), then the key of a name that other frameworks have for it (lr,
/// epochs, n_embd), then the smallest edit distance over the whole key.
std::string nearest_key(std::string_view key, const std::vector<std::string>& candidates);

/// The key of a name that other frameworks have for it: "optim.learning_rate" for "lr"; "" for another name.
std::string key_elsewhere(std::string_view name);

}  // namespace moh::config
