#include "train/apps/watch/run_settings.h"

#include <algorithm>
#include <set>
#include <utility>

#include "train/config/layers.h"

namespace moh::watch {

namespace {

/// Settings by which runs of one kind differ.
constexpr const char* kSeed = "seed";
constexpr const char* kFolder = "output.dir";
constexpr std::size_t kMostText = 200;

void flatten(const config::Value& value, const std::string& path, Settings& to) {
  using Kind = config::Value::Kind;
  const std::string inner = path.empty() ? "" : path + ".";
  for (const config::Entry& entry : value.entries) flatten(entry.value, inner + entry.key, to);
  for (std::size_t i = 0; i < value.items.size(); ++i) flatten(value.items[i], inner + std::to_string(i), to);
  if (value.kind == Kind::kScalar) to[path] = value.text.substr(0, kMostText);
}

/// The keys whose values are not the same everywhere.
std::vector<std::string> varying_keys(const std::vector<Settings>& runs) {
  std::set<std::string> keys;
  for (const Settings& run : runs)
    for (const auto& [key, text] : run) keys.insert(key);
  std::vector<std::string> varying;
  const auto text_of = [](const Settings& run, const std::string& key) {
    const auto found = run.find(key);
    return found == run.end() ? std::string() : found->second;
  };
  for (const std::string& key : keys) {
    if (key == kSeed || key == kFolder) continue;
    const auto other = [&](const Settings& run) { return text_of(run, key) != text_of(runs.front(), key); };
    if (std::ranges::any_of(runs, other)) varying.push_back(key);
  }
  return varying;
}

}  // namespace

Settings settings_of(const std::filesystem::path& run) {
  config::Layers layers;
  config::Problems problems;
  config::load_layers((run / "config.yaml").string(), {}, layers, problems);
  Settings settings;
  if (problems.empty() && !layers.roots.empty()) flatten(layers.roots.back(), "", settings);
  return settings;
}

std::vector<RunKind> kinds_of(const std::vector<Settings>& runs) {
  std::vector<RunKind> kinds;
  if (runs.empty()) return kinds;
  const std::vector<std::string> varying = varying_keys(runs);
  for (const Settings& run : runs) {
    RunKind kind;
    if (const auto seed = run.find(kSeed); seed != run.end()) kind.seed = seed->second;
    for (const std::string& key : varying) {
      const auto found = run.find(key);
      if (found != run.end()) kind.differs += (kind.differs.empty() ? "" : ", ") + key + "=" + found->second;
    }
    if (!run.empty()) kind.group = "of " + kind.differs;
    kinds.push_back(std::move(kind));
  }
  return kinds;
}

}  // namespace moh::watch
