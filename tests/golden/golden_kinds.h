#pragma once

#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tests/golden/golden_case.h"

namespace moh::test {

/// A reference file and its kind: what it is a case of, or its part in one. Empty where nothing says so.
struct GoldenFile {
  std::filesystem::path path;
  std::string kind;
};

/// All of a folder, those below it included, by path.
std::vector<GoldenFile> golden_files(const std::filesystem::path& folder);

/// Runs `body` on every case of that kind in the golden folders, and says how many there were in each.
void for_each_golden(std::string_view kind, const std::function<void(const GoldenCase&)>& body);

/// Says of a kind that the tests of this program run it.
bool register_golden_kind(std::string_view kind);
bool is_registered(std::string_view kind);
std::vector<std::string_view> registered_golden_kinds();

/// Reference data that moh has no counterpart for yet: a kind, or, of a kind that it has, the tensors with a
/// prefix. The list is in golden_kinds.cpp.
struct NotYet {
  std::string_view kind, tensors = "";
};
std::span<const NotYet> not_yet();

/// Checks that each result in the file was compared, except those that not_yet() lists, and only they.
void check_all_compared(const GoldenCase& golden);

}  // namespace moh::test

/// GOLDEN_KIND(losses) { ... } is the test of a kind: a function of `golden`, which runs on every case of it
/// and has to compare every result that the file holds.
#define GOLDEN_KIND(kind)                                                                        \
  static void kind##_case(const moh::test::GoldenCase& golden);                                  \
  [[maybe_unused]] static const bool kind##_registered = moh::test::register_golden_kind(#kind); \
  TEST_CASE("golden: " #kind, "[shared]") {                                                      \
    moh::test::for_each_golden(#kind, [](const moh::test::GoldenCase& golden) {                  \
      kind##_case(golden);                                                                       \
      moh::test::check_all_compared(golden);                                                     \
    });                                                                                          \
  }                                                                                              \
  static void kind##_case(const moh::test::GoldenCase& golden)
