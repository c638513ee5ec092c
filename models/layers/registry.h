#pragma once

#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "core/error.h"

namespace moh {

/// Types by their names in YAML: those of this library, then those that a program adds. T has a `name`.
template <class T>
class Registry {
 public:
  Registry(std::string_view what, std::initializer_list<const T*> known) : what_(what), all_(known) {}

  /// Adds a type, which outlives every use of the registry, before configurations are read and before other
  /// threads begin. Throws ValueError if its name is taken.
  void add(const T& type) {
    if (find(type.name) != nullptr)
      throw ValueError(error_message(what_, "name", "one that no other type has", std::string(type.name)));
    all_.push_back(&type);
  }

  /// Null if there is none of that name.
  const T* find(std::string_view name) const {
    for (const T* type : all_) {
      if (type->name == name) return type;
    }
    return nullptr;
  }

  /// In the order in which they were added.
  const std::vector<const T*>& all() const { return all_; }

 private:
  std::string what_;
  std::vector<const T*> all_;
};

/// A registered type as a value of a configuration: compared by identity, written by name.
template <class T>
class Registered {
 public:
  constexpr Registered(const T& type) : type_(&type) {}  // NOLINT: a type alone

  constexpr const T* operator->() const { return type_; }
  constexpr const T& operator*() const { return *type_; }
  bool operator==(const Registered&) const = default;

  template <class Stream>
  friend Stream& operator<<(Stream& out, Registered value) {
    out << value->name;
    return out;
  }

 private:
  const T* type_;
};

/// The name in YAML.
template <class T>
std::string_view name_of(Registered<T> value) {
  return value->name;
}

/// The sentences of all types for the reference of keys, each after its name: "`none`: a dense model. ...".
template <class T>
std::string doc_of(const Registry<T>& registry) {
  std::string text;
  for (const T* type : registry.all())
    text.append(text.empty() ? "`" : " `").append(type->name).append("`: ").append(type->doc);
  return text;
}

}  // namespace moh
