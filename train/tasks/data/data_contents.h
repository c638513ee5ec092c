#pragma once

#include <string>
#include <string_view>

namespace moh {

// Descriptions of data, which checkpoints and shards of latents keep to notice that data have changed. What
// earlier versions of moh wrote lacks the part about contents, and is compared without it.

/// A description with a checksum of the data's contents.
std::string with_contents(std::string_view description, std::string_view checksum);

/// Whether two descriptions are of the same data, as far as both of them say.
bool same_data(std::string_view a, std::string_view b);

}  // namespace moh
