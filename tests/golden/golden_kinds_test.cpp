// Nothing in the golden folders is passed over in silence.

#include "tests/golden/golden_kinds.h"

#include <algorithm>
#include <iostream>

#include "tests/golden/golden_folders.h"
#include "tests/support/skip.h"

using namespace moh;
using namespace moh::test;

namespace {

/// Kinds that no test runs, as a whole, though they are known.
bool is_not_yet(std::string_view kind) {
  return std::ranges::any_of(
      not_yet(), [&](const NotYet& entry) { return entry.kind == kind && entry.tensors.empty(); });
}

std::map<std::string, int> count_kinds(const std::filesystem::path& folder) {
  std::map<std::string, int> counts;
  for (const GoldenFile& file : golden_files(folder)) {
    INFO(file.path << ": of kind '" << file.kind << "', which no test knows");
    CHECK(is_registered(file.kind) != is_not_yet(file.kind));
    ++counts[file.kind];
  }
  return counts;
}

void print(const std::map<std::string, int>& counts, const std::filesystem::path& folder) {
  for (const auto& [kind, count] : counts) {
    std::cout << "golden: " << folder.string() << ": " << kind << ": " << count
              << (is_not_yet(kind) ? ", not run: moh has not got this yet" : "") << std::endl;
  }
  for (const NotYet& entry : not_yet()) {
    if (!entry.tensors.empty() && counts.contains(std::string(entry.kind)))
      std::cout << "golden: " << entry.kind << ": " << entry.tensors
                << "* is not compared: moh has not got this yet" << std::endl;
  }
  for (const std::string_view kind : registered_golden_kinds()) {
    if (!counts.contains(std::string(kind)))
      std::cout << "golden: " << folder.string() << ": " << kind << ": none" << std::endl;
  }
}

}  // namespace

TEST_CASE("golden: every kind that a test runs has a case in the tree", "[shared]") {
  const std::filesystem::path folder = golden_folders().front();
  const std::map<std::string, int> counts = count_kinds(folder);
  print(counts, folder);
  for (const std::string_view kind : registered_golden_kinds()) {
    INFO(kind);
    CHECK(counts.contains(std::string(kind)));
    CHECK_FALSE(is_not_yet(kind));
  }
}

TEST_CASE("golden: every shared file is of a kind that is known", "[shared]") {
  const auto folder = shared_golden_folder();
  if (!folder) MOH_SKIP("MOH_SHARED is not set, or has no folder golden");
  const std::map<std::string, int> counts = count_kinds(*folder);
  if (counts.empty()) MOH_SKIP(folder->string() + " has no reference files");
  print(counts, *folder);
}
