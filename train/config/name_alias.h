#pragma once

#include <string_view>

namespace moh::config {

/// Another spelling of a name.
struct NameAlias {
  std::string_view alias;
  std::string_view name;
};

}  // namespace moh::config
