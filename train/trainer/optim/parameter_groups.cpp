#include "train/trainer/optim/parameter_groups.h"

#include <algorithm>
#include <cstdio>
#include <set>

#include "core/error.h"
#include "models/model.h"

namespace moh {

namespace {

std::string key_of(std::size_t group) {
  return "optim.groups[" + std::to_string(group) + "]";
}

bool matches_any(const ParameterGroup& group, std::string_view name) {
  return std::ranges::any_of(group.match, [&](const std::string& pattern) { return matches(pattern, name); });
}

/// Numbers of the parameters of a transformer are long lists; a message shows some names, each once for all
/// layers.
std::string some_names(const std::vector<NamedParameter>& parameters) {
  constexpr std::size_t kShown = 12;
  std::set<std::string> shown;
  std::string text;
  for (const NamedParameter& p : parameters) {
    std::string folded;
    for (const char c : p.name) {
      const bool digit = c >= '0' && c <= '9', after_dot = folded.ends_with('.') || folded.ends_with('*');
      if (!digit || !after_dot)
        folded += c;
      else if (!folded.ends_with('*'))
        folded += '*';
    }
    if (!shown.insert(folded).second) continue;
    if (shown.size() > kShown) return text + ", ...";
    text += (text.empty() ? "" : ", ") + folded;
  }
  return text;
}

/// The group of each parameter; groups.size() for those that none matches.
std::vector<std::size_t> group_of_each(const std::vector<NamedParameter>& parameters,
                                       const std::vector<ParameterGroup>& groups) {
  std::vector<std::size_t> of_each(parameters.size(), groups.size());
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    for (std::size_t g = 0; g < groups.size(); ++g) {
      if (matches_any(groups[g], parameters[i].name)) of_each[i] = g;
    }
  }
  return of_each;
}

void check_patterns(const std::vector<NamedParameter>& parameters,
                    const std::vector<ParameterGroup>& groups) {
  for (std::size_t g = 0; g < groups.size(); ++g) {
    if (groups[g].match.empty())
      throw ConfigError(error_message(key_of(g), "match", "patterns of names of parameters", "none"));
    for (const std::string& pattern : groups[g].match) {
      const auto fits = [&](const NamedParameter& p) { return matches(pattern, p.name); };
      if (std::ranges::any_of(parameters, fits)) continue;
      throw ConfigError(error_message(key_of(g), "match",
                                      "a pattern of the model's parameters (" + some_names(parameters) + ")",
                                      "\"" + pattern + "\", which matches none"));
    }
  }
}

std::vector<std::size_t> checked_groups(const std::vector<NamedParameter>& parameters,
                                        const std::vector<ParameterGroup>& groups) {
  check_patterns(parameters, groups);
  std::vector<std::size_t> of_each = group_of_each(parameters, groups);
  for (std::size_t g = 0; g < groups.size(); ++g) {
    if (std::ranges::count(of_each, g) > 0) continue;
    throw ConfigError(error_message(key_of(g), "match", "a parameter that no later group matches",
                                    "none: later groups decide about all of them",
                                    "put the more general group first"));
  }
  return of_each;
}

/// "2.41M" parameters.
std::string count_text(std::int64_t count) {
  char text[32];
  const auto number = static_cast<double>(count);
  if (count >= 1'000'000)
    std::snprintf(text, sizeof text, "%.2fM", number / 1e6);
  else
    std::snprintf(text, sizeof text, "%lld", static_cast<long long>(count));
  return text;
}

std::string treatment_of(const ParameterGroup& group) {
  if (group.freeze) return "frozen";
  char text[64];
  std::snprintf(text, sizeof text, "learning rate x %g", group.learning_rate_scale);
  std::string treatment = text;
  if (group.weight_decay) {
    std::snprintf(text, sizeof text, ", weight decay %g", *group.weight_decay);
    treatment += text;
  }
  return treatment;
}

/// Whether a part of a dotted name is a number, as that of a layer is.
bool has_number(const std::string& name) {
  const auto is_digit = [](char c) { return c >= '0' && c <= '9'; };
  std::size_t begin = 0;
  for (std::size_t dot = name.find('.'); dot != std::string::npos; dot = name.find('.', begin)) {
    const std::string_view part = std::string_view(name).substr(begin, dot - begin);
    if (!part.empty() && std::ranges::all_of(part, is_digit)) return true;
    begin = dot + 1;
  }
  return false;
}

}  // namespace

bool matches(std::string_view pattern, std::string_view name) {
  // The last star, and how much of the name it has taken: on a mismatch it takes one character more.
  std::size_t p = 0, n = 0, star = std::string_view::npos, taken = 0;
  while (n < name.size()) {
    if (p < pattern.size() && pattern[p] == '*') {
      star = p++;
      taken = n;
    } else if (p < pattern.size() && (pattern[p] == '?' || pattern[p] == name[n])) {
      ++p;
      ++n;
    } else if (star != std::string_view::npos) {
      p = star + 1;
      n = ++taken;
    } else {
      return false;
    }
  }
  return pattern.find_first_not_of('*', p) == std::string_view::npos;
}

std::vector<ParameterUse> parameter_uses(const Model& model, const std::vector<ParameterGroup>& groups,
                                         double weight_decay) {
  const std::vector<NamedParameter> parameters = model.parameters();
  const std::vector<std::size_t> group_of = checked_groups(parameters, groups);
  std::vector<ParameterUse> uses;
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const bool grouped = group_of[i] < groups.size();
    const ParameterGroup group = grouped ? groups[group_of[i]] : ParameterGroup();
    const double decay = group.weight_decay.value_or(weight_decay);
    uses.push_back({model.decays(parameters[i]) ? decay : 0.0, group.learning_rate_scale,
                    group.freeze || !parameters[i].variable.requires_grad()});
  }
  if (!uses.empty() && std::ranges::all_of(uses, &ParameterUse::frozen))
    throw ConfigError(error_message("optim.groups", "freeze", "a parameter that is trained", "none"));
  return uses;
}

void mark_hidden_matrices(const Model& model, std::vector<ParameterUse>& uses) {
  std::set<std::string> of_routers;
  for (const NamedParameter& p : router_parameters(model)) of_routers.insert(p.name);
  const std::vector<NamedParameter> parameters = model.parameters();
  MOH_CHECK(uses.size() == parameters.size(), "a use of each parameter");
  for (std::size_t i = 0; i < uses.size(); ++i) {
    const NamedParameter& p = parameters[i];
    uses[i].orthogonal = p.variable.shape().rank() == 2 && has_number(p.name) && !of_routers.contains(p.name);
  }
}

std::vector<std::string> describe_groups(const Model& model, const std::vector<ParameterGroup>& groups) {
  const std::vector<NamedParameter> parameters = model.parameters();
  const std::vector<std::size_t> group_of = checked_groups(parameters, groups);
  std::vector<std::string> lines;
  for (std::size_t g = 0; g < groups.size(); ++g) {
    std::int64_t tensors = 0, elements = 0;
    for (std::size_t i = 0; i < parameters.size(); ++i) {
      if (group_of[i] != g) continue;
      ++tensors;
      elements += parameters[i].variable.numel();
    }
    lines.push_back(key_of(g) + ": " + treatment_of(groups[g]) + ", " + std::to_string(tensors) +
                    " tensors, " + count_text(elements) + " parameters");
  }
  return lines;
}

void freeze(const Model& model, const std::vector<ParameterUse>& uses) {
  std::vector<NamedParameter> parameters = model.parameters();
  MOH_CHECK(uses.size() == parameters.size(), "a use of each parameter");
  for (std::size_t i = 0; i < uses.size(); ++i) {
    if (uses[i].frozen) parameters[i].variable.set_requires_grad(false);
  }
}

}  // namespace moh
