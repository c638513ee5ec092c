#include "tests/train/trainer/config/config_folder.h"

#include "core/error.h"
#include "tests/support/message_of.h"

namespace moh {

namespace {

std::vector<std::string> with_data(std::vector<std::string> overrides) {
  overrides.insert(overrides.begin(), "data.train=x");
  return overrides;
}

}  // namespace

FamilyConfigs language_only() {
  static const FamilyConfig* const families[] = {&language_family().defaults()};
  return families;
}

RunConfig ConfigFolder::load(const std::string& name, const std::vector<std::string>& overrides) const {
  return load_run_config((folder_ / name).string(), overrides, language_only());
}

std::string ConfigFolder::error(const std::string& name, const std::vector<std::string>& overrides) const {
  std::string message = message_of<ConfigError>([&] { load(name, overrides); });
  const std::string prefix = folder_.path().string() + "/";
  for (std::size_t i; (i = message.find(prefix)) != std::string::npos;) message.erase(i, prefix.size());
  return message;
}

RunConfig load_text(const std::string& text, std::vector<std::string> overrides) {
  ConfigFolder folder;
  folder.write("a.yaml", text);
  return folder.load("a.yaml", with_data(std::move(overrides)));
}

std::string error_of(const std::string& text, std::vector<std::string> overrides) {
  ConfigFolder folder;
  folder.write("a.yaml", text);
  return folder.error("a.yaml", with_data(std::move(overrides)));
}

}  // namespace moh
