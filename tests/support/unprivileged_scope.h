#pragma once

#include <unistd.h>

#include <exception>

namespace moh {

/// Gives up root's right to read everything, for the scope. Does nothing for other users, who never had it.
class UnprivilegedScope {
 public:
  UnprivilegedScope() : was_root_(::geteuid() == 0 && ::seteuid(65534) == 0) {}
  ~UnprivilegedScope() {
    if (was_root_ && ::seteuid(0) != 0) std::terminate();
  }
  UnprivilegedScope(const UnprivilegedScope&) = delete;
  UnprivilegedScope& operator=(const UnprivilegedScope&) = delete;

 private:
  bool was_root_;
};

}  // namespace moh
