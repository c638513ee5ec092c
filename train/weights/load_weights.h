#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/function_ref.h"
#include "models/module.h"
#include "train/base/formats/safetensors.h"
#include "train/weights/checkpoint/stored_checkpoint.h"

namespace moh {

/// The parameters as named tensors: handles, not copies.
std::vector<NamedTensor> tensors_of(std::span<const NamedParameter> parameters);

/// Copies tensors to the parameters of the same names, converted to the parameters' dtype block by block,
/// without a second copy of a whole tensor. Parameters without a tensor and tensors without a parameter are
/// ignored: compare_weights() reports them. Throws CheckpointError if a shape differs or a type cannot be
/// converted (stored_dtype.h), before anything is changed.
void load_weights(std::span<const NamedParameter> parameters, const WeightFile& weights);

/// Checks a checkpoint, in one file or several, as load_exactly() does, against the descriptions of tensors,
/// before a model is allocated.
void require_exactly(std::string_view where, std::span<const StoredTensors> from,
                     std::span<const WeightInfo> to);

/// Copies the tensors of a checkpoint, in one file or several, to those of the same names, which must match
/// them (check_matches; `where` is the beginning of its message). Everything is verified and compared before
/// anything is changed.
void load_exactly(std::string_view where, std::span<const StoredTensors> from,
                  std::span<const NamedTensor> to);

/// load_exactly() of those that `to` names; other tensors of the checkpoint are ignored.
void load_named(std::string_view where, std::span<const StoredTensors> from, std::span<const NamedTensor> to);

/// Whether elements of stored type `from` can be converted to `to`; true if they are equal.
bool can_convert(std::string_view from, std::string_view to);

/// How to fix tensors whose types a model cannot have: convert them, or, if moh does not convert one of them,
/// a text that says so.
std::string dtype_advice(std::span<const WeightInfo> tensors);

/// Passes the elements of a tensor of `file` to `sink`, in order, block by block
/// (train/base/formats/element_blocks.h), converted to the stored type `to` (stored_dtype.h). Throws
/// CheckpointError for types that cannot be converted.
void stream_tensor(const WeightFile& file, const WeightInfo& tensor, std::string_view to,
                   FunctionRef<void(std::span<const std::byte>)> sink);

/// Whether two tensors of `file` are equal in type, shape and every bit.
bool same_elements(const WeightFile& file, const WeightInfo& a, const WeightInfo& b);

/// A hash, 32 hexadecimal digits, of names, types, shapes and elements in the order of names: equal for equal
/// tensors, whatever the format and the number of files. Reads everything; calls `done` with the size of each
/// block.
std::string content_hash(const WeightFile& file, FunctionRef<void(std::uint64_t bytes)> done);

}  // namespace moh
