#pragma once

#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>

#include "core/function_ref.h"
#include "train/formats/torch/pickle.h"
#include "train/io/input_file.h"

namespace moh {

/// The dicts among the attributes of every torch.nn.Module, whatever its class.
struct TorchModule {
  PickleId parameters, buffers, modules;
  std::set<std::string_view> non_persistent;  ///< names of buffers that state_dict() leaves out

  /// Whether a value is one of these dicts.
  bool holds(PickleId id) const { return id == parameters || id == buffers || id == modules; }
};

/// The objects of a pickle that are modules. Each object is inspected once, however often it is referenced.
class TorchModules {
 public:
  TorchModules(const InputFile& file, const PickleTree& tree) : file_(file), tree_(tree) {}

  /// The dicts of an object that is a module; nullptr for any other value.
  const TorchModule* find(PickleId id);

  using Visit = FunctionRef<void(const std::string& name, PickleId value)>;
  /// Visits the entries of the module's state_dict(), with their names and in their order: parameters and
  /// persistent buffers of the module, then those of its submodules, with the prefix "NAME.". Entries that
  /// are None are skipped; submodules that are not modules are visited as entries. Throws the file's kind of
  /// error for modules that contain themselves and for too many modules; the total time is bounded.
  void visit_state(const TorchModule& module, Visit visit) { visit_state(module, "", 0, visit); }

 private:
  void visit_state(const TorchModule& module, const std::string& prefix, std::size_t depth, Visit visit);
  [[noreturn]] void fail(std::string_view expected) const;

  const InputFile& file_;
  const PickleTree& tree_;
  std::unordered_map<PickleId, std::optional<TorchModule>> known_;
  std::size_t name_bytes_ = 0;  // length of all visited names
};

}  // namespace moh
