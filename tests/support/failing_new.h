#pragma once

namespace moh {

/// While it lives, operator new of the calling thread throws std::bad_alloc, as when memory has run out. For
/// programs that are linked with failing_new.cpp.
class FailingNew {
 public:
  FailingNew();
  ~FailingNew();
  FailingNew(const FailingNew&) = delete;
  FailingNew& operator=(const FailingNew&) = delete;
};

}  // namespace moh
