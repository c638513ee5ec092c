#include "ops/attention/backend.h"

#include <atomic>

namespace moh {

namespace {
std::atomic<AttentionBackend> backend_in_use = AttentionBackend::kAuto;
}

AttentionBackend attention_backend() {
  return backend_in_use;
}
void set_attention_backend(AttentionBackend backend) {
  backend_in_use = backend;
}

}  // namespace moh
