#include "models/module.h"

#include <numeric>

#include "core/allocator.h"
#include "core/error.h"
#include "core/late_tensor.h"
#include "models/late_parameters.h"

namespace moh {

namespace {

/// Memory for the elements of parameters, contents undefined.
Tensor parameter_memory(const Shape& shape, const Placement& placement) {
  const MemoryPurposeScope purpose(MemoryPurpose::kParameter);
  const auto make = LateParameters::on() ? late_tensor : empty;
  return make(shape, placement.dtype, placement.device);
}

}  // namespace

std::vector<NamedParameter> Module::parameters() const {
  std::vector<NamedParameter> found;
  collect("", found);
  return found;
}

Variable Module::add_parameter(const std::string& name, const Shape& shape, Placement placement) {
  Variable parameter(parameter_memory(shape, placement), /*requires_grad=*/true);
  add_parameter(name, parameter);
  return parameter;
}

void Module::add_parameter(const std::string& name, const Variable& parameter) {
  entries_.push_back({name, parameter, nullptr});
}

void Module::add_child(const std::string& name, const Module& child) {
  entries_.push_back({name, {}, &child});
}

void Module::add_children_of(const Module& part) {
  entries_.insert(entries_.end(), part.entries_.begin(), part.entries_.end());
}

void Module::collect(const std::string& prefix, std::vector<NamedParameter>& found) const {
  for (const Entry& entry : entries_) {
    if (entry.child)
      entry.child->collect(prefix + entry.name + ".", found);
    else
      found.push_back({prefix + entry.name, entry.parameter});
  }
}

std::vector<LinearParameterPair> adjoining_parameters(std::int64_t in, const std::vector<std::int64_t>& outs,
                                                      bool bias, Placement placement) {
  const std::int64_t all = std::reduce(outs.begin(), outs.end());
  const Tensor weights = parameter_memory({all, in}, placement);
  const Tensor biases = bias ? parameter_memory({all}, placement) : Tensor();
  std::vector<LinearParameterPair> parts;
  std::int64_t begin = 0;
  for (const std::int64_t out : outs) {
    const auto rows = [&](const Tensor& of_all) {
      return of_all.defined() ? Variable(of_all.slice(begin, begin + out), /*requires_grad=*/true)
                              : Variable();
    };
    parts.push_back({rows(weights), rows(biases)});
    begin += out;
  }
  return parts;
}

std::int64_t count_parameters(const Module& module) {
  std::int64_t count = 0;
  for (const NamedParameter& parameter : module.parameters()) count += parameter.variable.numel();
  return count;
}

RandomKey initialisation_key(std::uint64_t seed, const std::string& name) {
  std::uint64_t hash = 0xcbf29ce484222325U;  // FNV-1a
  for (const char c : name) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3U;
  // fill_normal uses the top byte of the stream for its attempts.
  return {seed, hash >> 8};
}

}  // namespace moh
