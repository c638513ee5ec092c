#include "tests/golden/golden_kinds.h"

#include <algorithm>
#include <array>
#include <iostream>

#include "tests/golden/golden_folders.h"

namespace moh::test {

namespace {

namespace fs = std::filesystem;

// A line leaves this list with the test that takes its place.
constexpr std::array<NotYet, 0> kNotYet{};

/// Files of tensors say what they are, except what belongs to a file or folder beside it, by its name.
std::string kind_of(const fs::path& path) {
  const std::string name = path.filename();
  const WeightFile::Metadata metadata = SafetensorsFile(path).metadata();
  if (const auto kind = metadata.find("kind"); kind != metadata.end()) return kind->second;
  if (name.ends_with(".expected.safetensors")) return "torch_expected";
  if (name.ends_with("_expected.safetensors")) return "hf_expected";
  return fs::exists(path.parent_path() / "config.json") ? "hf_weights" : "";
}

std::vector<std::string_view>& registry() {
  static std::vector<std::string_view> kinds;
  return kinds;
}

}  // namespace

std::vector<GoldenFile> golden_files(const fs::path& folder) {
  std::vector<GoldenFile> files;
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    const fs::path& path = entry.path();
    if (path.extension() == ".safetensors") {
      files.push_back({path, kind_of(path)});
    } else if (path.extension() == ".json" && path.stem() != "config" && path.parent_path() == folder) {
      files.push_back({path, path.stem()});
    }
  }
  std::ranges::sort(files, {}, &GoldenFile::path);
  return files;
}

void for_each_golden(std::string_view kind, const std::function<void(const GoldenCase&)>& body) {
  for (const fs::path& folder : golden_folders()) {
    int count = 0;
    for (const GoldenFile& file : golden_files(folder)) {
      if (file.kind != kind) continue;
      INFO("golden case " << file.path);
      body(GoldenCase(file.path));
      ++count;
    }
    std::cout << "golden: " << kind << ": " << count << " in " << folder.string() << std::endl;
  }
}

bool register_golden_kind(std::string_view kind) {
  registry().push_back(kind);
  return true;
}

bool is_registered(std::string_view kind) {
  return std::ranges::find(registry(), kind) != registry().end();
}

std::vector<std::string_view> registered_golden_kinds() {
  return registry();
}

std::span<const NotYet> not_yet() {
  return kNotYet;
}

void check_all_compared(const GoldenCase& golden) {
  for (const std::string& name : golden.results()) {
    const bool listed = std::ranges::any_of(kNotYet, [&](const NotYet& entry) {
      return entry.kind == golden.kind() && name.starts_with(entry.tensors);
    });
    INFO(name << (listed ? ": on the list of what moh has not yet, and compared all the same"
                         : ": not compared with anything"));
    CHECK(golden.was_compared(name) != listed);
  }
}

}  // namespace moh::test
