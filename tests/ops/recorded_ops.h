#pragma once

#include <filesystem>
#include <set>
#include <string>

namespace moh::test {

/// The names of the differentiable ops that the sources of the tree record.
std::set<std::string> recorded_ops(const std::filesystem::path& root);

}  // namespace moh::test
