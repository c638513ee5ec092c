#include "train/io/io_trace.h"

#include "core/error.h"

namespace moh {

namespace {

IoTrace* active = nullptr;

}  // namespace

IoTrace::IoTrace() {
  MOH_CHECK(active == nullptr, "only one trace at a time");
  active = this;
}

IoTrace::~IoTrace() {
  active = nullptr;
}

void trace_io(IoEvent::Kind kind, const std::filesystem::path& path, const std::filesystem::path& target,
              std::span<const std::byte> data) {
  if (active == nullptr) return;
  active->events_.push_back({kind, path, target, {reinterpret_cast<const char*>(data.data()), data.size()}});
}

}  // namespace moh
