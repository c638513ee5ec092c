#pragma once

#include <cstdint>
#include <string_view>

#include "train/base/formats/weight_file.h"

namespace moh {

/// The length of an axis of a tensor; 0 if the file has no such tensor, or the tensor no such axis.
std::int64_t length_in(const WeightFile& weights, std::string_view tensor, std::int64_t axis);

/// How many of PREFIX0SUFFIX, PREFIX1SUFFIX, ... a file has, one after the other: layers of a model. `first`
/// is the number of the first one.
std::int64_t count_in(const WeightFile& weights, std::string_view prefix, std::string_view suffix,
                      std::int64_t first = 0);

/// Side of a square of `tokens`; 0 for other numbers.
std::int64_t side_of_square(std::int64_t tokens);

/// Whether the file has tensors of routers of heads, which tell how many heads are routed, but not how many
/// of them are active.
bool has_routers(const WeightFile& weights);

}  // namespace moh
