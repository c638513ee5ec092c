#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "train/weights/hf/config_json.h"

namespace moh {

/// The key of timm's config.json that names the classes.
inline constexpr std::string_view kLabelNames = "label_names";

/// The names of the classes in a config.json of timm, in the order of the labels: a list, or an object from
/// labels to names, where a class that it leaves out is called by its number. Empty if there is no such key,
/// and for names of another number of classes: they stay behind when a model gets a new head, in timm as
/// well. Throws CheckpointError for names that do not fit into a line.
std::vector<std::string> read_label_names(const ConfigJson& json, std::int64_t classes);

/// Whether the names of classes say more than their numbers.
bool say_more_than_numbers(std::span<const std::string> class_names);

}  // namespace moh
