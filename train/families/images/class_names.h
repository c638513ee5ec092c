#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace moh {

/// The classes of a run with pictures.
struct GivenClasses {
  std::vector<std::filesystem::path> files;  ///< data.class_names
  std::vector<std::string> known;            ///< those of a checkpoint's training, in the order of labels
  std::int64_t classes = 0;                  ///< model.classes
};

/// The names that the run gives or its checkpoint knows; empty if it leaves them to the pictures. Throws
/// DataError.
std::vector<std::string> given_names(const GivenClasses& given);
/// Throws DataError for names that do not fit into a line, ConfigError unless there is one for each class of
/// the model.
void check_class_names(const std::vector<std::string>& names, const GivenClasses& given);
/// Names of the model's classes without its pictures: given_names(), or numbers. Throws as both.
std::vector<std::string> class_names_of(const GivenClasses& given);

/// The lines of a text; one that ends with a newline has an empty last one.
std::vector<std::string> lines_of(std::string_view text);

/// Names of classes as Task::identity() has them: one text, with a line for each.
std::pair<std::string, std::string> identity_of(std::span<const std::string> class_names);
/// The names in what Task::identity() has said; `otherwise` where it has none.
std::vector<std::string> class_names_in(std::span<const std::pair<std::string, std::string>> identity,
                                        std::vector<std::string> otherwise);

}  // namespace moh
