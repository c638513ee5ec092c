#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

#include "core/function_ref.h"
#include "train/formats/weight_file.h"

namespace moh {

/// Whether elements of one stored type can be handed over as another; any type as itself.
bool can_convert(std::string_view from, std::string_view to);

/// Hands the elements of a tensor of `file` to `sink`, in order, block by block
/// (train/formats/element_blocks.h), as the stored type `to` (element_conversion.h). Throws CheckpointError
/// for types that cannot be converted.
void stream_tensor(const WeightFile& file, const WeightInfo& tensor, std::string_view to,
                   FunctionRef<void(std::span<const std::byte>)> sink);

/// Whether two tensors of `file` are equal in type, shape and every bit.
bool same_elements(const WeightFile& file, const WeightInfo& a, const WeightInfo& b);

/// 32 hexadecimal digits over names, types, shapes and elements, in the order of the names: the same for the
/// same tensors, whatever the format and the number of files. Reads everything; `done` hears of each block's
/// bytes.
std::string content_hash(const WeightFile& file, FunctionRef<void(std::uint64_t bytes)> done);

}  // namespace moh
