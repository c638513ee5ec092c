#include "tests/ops/recorded_ops.h"

#include <catch2/catch.hpp>
#include <fstream>
#include <iterator>
#include <regex>

namespace moh::test {

std::set<std::string> recorded_ops(const std::filesystem::path& root) {
  const std::regex pattern(R"(record(?:_outputs)?\(\s*"([a-z0-9_]+)\")");
  std::set<std::string> names;
  for (const char* layer : {"autograd", "ops", "models"}) {
    for (const auto& entry : std::filesystem::recursive_directory_iterator(root / layer)) {
      if (entry.path().extension() != ".cpp") continue;
      std::ifstream file(entry.path());
      const std::string text{std::istreambuf_iterator<char>(file), {}};
      for (auto match = std::sregex_iterator(text.begin(), text.end(), pattern);
           match != std::sregex_iterator(); ++match) {
        names.insert((*match)[1]);
      }
    }
  }
  REQUIRE(names.count("rms_norm") == 1);  // the pattern still finds what it should
  return names;
}

}  // namespace moh::test
