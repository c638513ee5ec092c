#include "core/cuda/nccl_group.h"
#include "core/error.h"

// For a build without NCCL's header. NcclGroup() throws, so that its other members are unreachable.

namespace moh::cuda {

namespace {

[[noreturn]] void refuse() {
  throw ConfigError(error_message("comm.backend", "NCCL", "a build with NCCL, for GPUs of several processes",
                                  "one without",
                                  "install NCCL with its header and build again, or set comm.backend: host"));
}

[[noreturn]] void not_joined() {
  fail_check(__FILE__, __LINE__, "NCCL is there", "this build has none");
}

}  // namespace

NcclId make_nccl_id() {
  refuse();
}
std::string nccl_version() {
  refuse();
}
std::string nccl_algorithms() {
  return {};
}

struct NcclGroup::Impl {};
NcclGroup::NcclGroup(const NcclId&, int, int) {
  refuse();
}
NcclGroup::~NcclGroup() = default;
bool NcclGroup::joined() {
  not_joined();
}
void NcclGroup::all_reduce(void*, std::int64_t, DType, ReduceOp) {
  not_joined();
}
void NcclGroup::reduce_scatter(const void*, void*, std::int64_t, DType, ReduceOp) {
  not_joined();
}
void NcclGroup::all_gather(const void*, void*, std::int64_t) {
  not_joined();
}
void NcclGroup::broadcast(void*, std::int64_t, int) {
  not_joined();
}
void NcclGroup::exchange(const void*, void*, std::int64_t) {
  not_joined();
}
void NcclGroup::check() {
  not_joined();
}
void NcclGroup::abort() noexcept {}
bool NcclGroup::wait_for_abort(double) noexcept {
  return true;
}
bool NcclGroup::leave(double) {
  not_joined();
}

}  // namespace moh::cuda
