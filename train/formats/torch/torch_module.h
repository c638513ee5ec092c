#pragma once

#include <optional>
#include <string>

#include "core/function_ref.h"
#include "train/formats/torch/pickle.h"
#include "train/io/input_file.h"

namespace moh {

/// What every torch.nn.Module has among its attributes, whatever its class: dicts.
struct TorchModule {
  PickleId parameters, buffers, modules;
  std::optional<PickleId> non_persistent;  ///< a set of names of buffers; since PyTorch 1.6
};

/// Whether a value is one of these dicts.
inline bool is_state_of(const TorchModule& module, PickleId id) {
  return id == module.parameters || id == module.buffers || id == module.modules;
}

/// The dicts of an object that is a module; nothing for any other value.
std::optional<TorchModule> find_module(const PickleTree& tree, PickleId id);

/// Visits what the state_dict() of a module would hold, under the names and in the order that it would: the
/// parameters and persistent buffers of the module, then those of the modules in it, whose names begin with
/// "NAME.". None is left out. What stands where a module should and is none is visited, too. Adds
/// to `name_bytes`, which bounds the time that all modules of a file take. Throws the file's kind of error
/// for modules that contain themselves, or are too many.
void visit_state(const InputFile& file, const PickleTree& tree, const TorchModule& module,
                 std::size_t& name_bytes, FunctionRef<void(const std::string& name, PickleId value)> visit);

}  // namespace moh
