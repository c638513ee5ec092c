#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/function_ref.h"
#include "models/module.h"
#include "train/checkpoint/stored_checkpoint.h"
#include "train/formats/safetensors.h"

namespace moh {

/// The parameters as what is stored: handles to them, not copies.
std::vector<NamedTensor> tensors_of(std::span<const NamedParameter> parameters);

/// Copies tensors into the parameters of the same names, converted to the parameters' dtype block by block:
/// no whole tensor is held a second time. Parameters without a tensor and tensors without a parameter are
/// left alone: compare_weights() tells. Throws CheckpointError where a shape differs or a type does not
/// convert (stored_dtype.h), before anything is changed.
void load_weights(std::span<const NamedParameter> parameters, const WeightFile& weights);

/// Refuses a checkpoint, in one file or several, that load_exactly() would refuse, from the tensors to be:
/// before a model takes memory.
void require_exactly(std::string_view where, std::span<const StoredTensors> from,
                     std::span<const WeightInfo> to);

/// Copies the tensors of a checkpoint, in one file or several, into those of the same names, which must match
/// them (check_matches, for which `where` is). Everything is verified and compared before anything is
/// changed.
void load_exactly(std::string_view where, std::span<const StoredTensors> from,
                  std::span<const NamedTensor> to);

/// Whether elements of one stored type can be handed over as another; any type as itself.
bool can_convert(std::string_view from, std::string_view to);

/// What to do about tensors that are of no type, or not of the one type, that a model needs: convert them,
/// or, where moh does not convert one of them, that.
std::string dtype_advice(std::span<const WeightInfo> tensors);

/// Hands the elements of a tensor of `file` to `sink`, in order, block by block
/// (train/formats/element_blocks.h), as the stored type `to` (stored_dtype.h). Throws CheckpointError
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
