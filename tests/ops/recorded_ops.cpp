#include "tests/ops/recorded_ops.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <fstream>
#include <iterator>
#include <string_view>

namespace moh::test {

namespace {

/// The string literal with which `text` begins, after white space; empty if it begins with something else.
std::string_view literal_at(std::string_view text) {
  text.remove_prefix(std::min(text.find_first_not_of(" \n"), text.size()));
  if (!text.starts_with('"')) return {};
  return text.substr(1, text.find('"', 1) - 1);
}

}  // namespace

std::set<std::string> recorded_ops(const std::filesystem::path& root) {
  std::set<std::string> names;
  for (const char* layer : {"autograd", "ops", "models"}) {
    for (const auto& entry : std::filesystem::recursive_directory_iterator(root / layer)) {
      if (entry.path().extension() != ".cpp") continue;
      std::ifstream file(entry.path());
      const std::string text{std::istreambuf_iterator<char>(file), {}};
      for (const std::string_view call : {"record(", "record_outputs("}) {
        for (std::size_t at = text.find(call); at != std::string::npos; at = text.find(call, at + 1)) {
          const std::string_view name = literal_at(std::string_view(text).substr(at + call.size()));
          if (!name.empty()) names.emplace(name);
        }
      }
    }
  }
  REQUIRE(names.count("rms_norm") == 1);  // what is looked for is still what stands there
  return names;
}

}  // namespace moh::test
