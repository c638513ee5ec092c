#include "core/cuda/fault.h"

#include <atomic>
#include <functional>
#include <map>
#include <mutex>
#include <utility>
#include <vector>

#include "core/cuda/device.h"
#include "core/error.h"

namespace moh::cuda {

namespace {

struct Kinds {
  std::mutex mutex;
  std::map<std::string, std::int32_t> by_text;
  std::vector<std::string> texts{""};
};

Kinds& kinds() {
  static auto* all = new Kinds;
  return *all;
}

std::atomic<Fault*> the_fault = nullptr;

struct WaitCheck {
  std::mutex mutex;
  std::function<void()> check;
};
WaitCheck& wait_check() {
  static auto* the_check = new WaitCheck;
  return *the_check;
}

}  // namespace

Fault* fault_on_device() {
  static std::mutex mutex;
  const std::lock_guard lock(mutex);
  if (the_fault == nullptr) {
    void* memory = nullptr;
    MOH_CUDA_CALL(cudaMallocHost(&memory, sizeof(Fault)));
    the_fault = new (memory) Fault{};
  }
  return the_fault;
}

std::int32_t fault_kind(const std::string& what) {
  Kinds& all = kinds();
  const std::lock_guard lock(all.mutex);
  const auto [entry, is_new] = all.by_text.try_emplace(what, static_cast<std::int32_t>(all.texts.size()));
  if (is_new) all.texts.push_back(what);
  return entry->second;
}

void check_after_waits(std::function<void()> check) {
  const std::lock_guard lock(wait_check().mutex);
  wait_check().check = std::move(check);
}

void throw_fault() {
  std::function<void()> check;
  {
    const std::lock_guard lock(wait_check().mutex);
    check = wait_check().check;
  }
  if (check) check();
  Fault* const fault = the_fault;
  if (fault == nullptr || fault->kind == 0) return;
  const Fault found = *fault;
  *fault = Fault{};
  Kinds& all = kinds();
  const std::lock_guard lock(all.mutex);
  throw ValueError(all.texts.at(static_cast<std::size_t>(found.kind)) + ", found " +
                   std::to_string(found.value) + " at element " + std::to_string(found.place));
}

}  // namespace moh::cuda
