#include "train/comm/shared_facts.h"

#include <algorithm>
#include <cstdlib>
#include <map>
#include <optional>
#include <string_view>
#include <utility>

#include "core/error.h"
#include "train/comm/peers.h"

namespace moh {

namespace {

constexpr std::size_t kMostNamed = 4;  ///< ranks, values and facts of a message

/// The facts that one process has sent.
struct Told {
  std::string process;  ///< "host H, process P"
  SharedFacts facts;
};

std::string name_of_this_process() {
  const PeerInfo self = describe_self();
  return "host " + std::string(self.host) + ", process " + std::to_string(self.process);
}

/// Parts that end in NUL, which names and values do not contain.
std::string facts_text(const SharedFacts& facts) {
  std::string text;
  const auto add = [&text](std::string part) {
    std::erase(part, '\0');
    text += part + '\0';
  };
  for (const SharedFact& fact : facts) {
    add(std::to_string(static_cast<int>(fact.kind)));
    add(fact.name);
    add(fact.value);
  }
  return text;
}

Told told_by(std::string_view text) {
  const auto next = [&text] {
    const std::size_t end = std::min(text.find('\0'), text.size());
    std::string part(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
    return part;
  };
  Told told{.process = next(), .facts = {}};
  while (!text.empty()) {
    const std::string kind = next();
    std::string name = next(), value = next();
    told.facts.push_back({static_cast<FactKind>(std::atoi(kind.c_str())), std::move(name), std::move(value)});
  }
  return told;
}

/// The value of a fact; nothing in a process that does not know it.
std::optional<std::string> value_of(const Told& told, const SharedFact& fact) {
  const auto found = std::ranges::find_if(
      told.facts, [&](const SharedFact& own) { return own.kind == fact.kind && own.name == fact.name; });
  return found == told.facts.end() ? std::nullopt : std::optional(found->value);
}

std::string shown(const std::optional<std::string>& value) {
  return !value ? "nothing" : value->empty() ? "''" : *value;
}

/// "rank 1 (host H, process P) and 3 others".
std::string names_of(const std::vector<std::size_t>& ranks, const std::vector<Told>& all) {
  std::string names;
  for (std::size_t i = 0; i < std::min(ranks.size(), kMostNamed); ++i)
    names += (i == 0 ? "rank " : ", rank ") + std::to_string(ranks[i]) + " (" + all[ranks[i]].process + ")";
  if (ranks.size() > kMostNamed) names += " and " + std::to_string(ranks.size() - kMostNamed) + " others";
  return names;
}

/// "comm: NAME: expected A, as rank 0 has, found B in rank 1 (...)"; empty where all have the same.
std::string difference_of(const SharedFact& fact, const std::vector<Told>& all) {
  const std::optional<std::string> expected = value_of(all.front(), fact);
  std::map<std::optional<std::string>, std::vector<std::size_t>> others;
  for (std::size_t rank = 1; rank < all.size(); ++rank) {
    const std::optional<std::string> value = value_of(all[rank], fact);
    if (value != expected) others[value].push_back(rank);
  }
  if (others.empty()) return {};
  std::string found;
  std::size_t named = 0;
  for (const auto& [value, ranks] : others) {
    if (++named > kMostNamed) break;
    found += (found.empty() ? "" : "; ") + shown(value) + " in " + names_of(ranks, all);
  }
  return error_message("comm", fact.name, shown(expected) + ", as rank 0 has", found);
}

/// Each fact that a process knows, once, in the order of the ranks.
SharedFacts known_facts(const std::vector<Told>& all) {
  SharedFacts known = all.front().facts;
  for (const Told& told : all) {
    for (const SharedFact& fact : told.facts) {
      if (!value_of({"", known}, fact)) known.push_back(fact);
    }
  }
  return known;
}

[[noreturn]] void refuse_differences(FactKind kind, const std::string& differences) {
  switch (kind) {
    case FactKind::kProgram:
      throw ConfigError(differences + "; start all processes with the same version of moh");
    case FactKind::kMachine:
      throw ConfigError(
          differences +
          "; set MOH_CPU_ISA to one that all machines have: results would depend on the machine");
    case FactKind::kData:
      throw DataError(differences +
                      "; all processes have to read the same data: copy them anew, or keep them in a folder "
                      "that all machines share");
    case FactKind::kCheckpoint:
      throw CheckpointError(differences +
                            "; all processes have to read the same weights: copy them anew, or keep them in "
                            "a folder that all machines share");
    case FactKind::kSettings:
    case FactKind::kNote:
      break;
  }
  throw ConfigError(differences + "; start all processes alike");
}

}  // namespace

std::vector<std::string> require_same_facts(const SharedFacts& facts, Communicator& processes) {
  if (processes.alone()) return {};
  const std::string own = facts_text(facts);
  const std::vector<std::string> texts = processes.texts_of_all(name_of_this_process() + '\0' + own);
  if (std::ranges::all_of(texts, [&](const std::string& text) {
        return std::string_view(text).substr(text.find('\0') + 1) == own;
      }))
    return {};
  std::vector<Told> all;
  for (const std::string& text : texts) all.push_back(told_by(text));
  std::vector<std::string> notes, differences;
  std::optional<FactKind> first;
  for (const SharedFact& fact : known_facts(all)) {
    std::string difference = difference_of(fact, all);
    if (difference.empty()) continue;
    if (fact.kind == FactKind::kNote) {
      notes.push_back(std::move(difference));
    } else if (!first || *first == fact.kind) {
      first = fact.kind;
      differences.push_back(std::move(difference));
    }
  }
  if (!first) return notes;
  std::string text = differences.front();
  for (std::size_t i = 1; i < std::min(differences.size(), kMostNamed); ++i) text += "\n  " + differences[i];
  if (differences.size() > kMostNamed)
    text += "\n  and " + std::to_string(differences.size() - kMostNamed) + " more";
  refuse_differences(*first, text);
}

}  // namespace moh
