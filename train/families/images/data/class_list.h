#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace moh {

/// Names of classes and their labels.
class ClassList {
 public:
  /// Labels follow the order of the names. Throws DataError for a name that comes twice.
  explicit ClassList(std::vector<std::string> names);

  const std::vector<std::string>& names() const { return names_; }
  std::int64_t size() const { return static_cast<std::int64_t>(names_.size()); }
  /// Throws DataError, naming `where`, for a name that is not among them.
  std::int64_t label_of(std::string_view name, std::string_view where) const;

 private:
  std::vector<std::string> names_;
  std::map<std::string, std::int64_t, std::less<>> labels_;
};

}  // namespace moh
