#include "core/cuda/backend.h"
#include "core/cuda/collective_counts.h"
#include "core/cuda/fault.h"
#include "core/cuda/gpus.h"
#include "core/cuda/graph.h"
#include "core/cuda/memory_blocks.h"
#include "core/cuda/queue.h"
#include "core/cuda/ranges.h"
#include "core/cuda/sum_rows.h"
#include "core/error.h"

// For a build without a CUDA toolkit. open_device() and allocate() throw, so there are no device tensors, and
// the other functions are unreachable.

namespace moh::cuda {

namespace {

[[noreturn]] void not_open() {
  fail_check(__FILE__, __LINE__, "device is open", "this build has no CUDA");
}

}  // namespace

void open_device(int index) {
  throw DeviceError("device: cuda:" + std::to_string(index) +
                    ": this build computes on the CPU only; set device: cpu, or build with a CUDA toolkit");
}

std::string describe_device() {
  not_open();
}
int capability() {
  not_open();
}
std::string product_name() {
  not_open();
}
std::size_t cache_bytes() {
  not_open();
}
void* allocate(std::size_t, MemoryPurpose) {
  throw DeviceError("cuda memory: this build computes on the CPU only");
}
void release(void*, std::size_t, MemoryPurpose) noexcept {
  not_open();
}
void recount(std::size_t, MemoryPurpose, MemoryPurpose) noexcept {
  not_open();
}
MemoryStats memory_stats() {
  not_open();
}
void reset_memory_peaks() {
  not_open();
}
void track_blocks() {
  not_open();
}
MemoryBlock block_at(const void*) {
  not_open();
}
HeldBytes held_bytes() {
  not_open();
}
void copy_to_device(void*, const void*, std::size_t) {
  not_open();
}
void copy_to_host(void*, const void*, std::size_t) {
  not_open();
}
std::unique_ptr<HostTransfer> begin_copy_to_host(const void*, std::size_t) {
  not_open();
}
void copy_on_device(void*, const void*, std::size_t) {
  not_open();
}
void set_zero(void*, std::size_t) {
  not_open();
}
struct GraphMemory::Impl {};
GraphMemory::GraphMemory() {
  not_open();
}
bool GraphMemory::lend(FunctionRef<void()>) const {
  not_open();
}
struct Graph::Impl {};
Graph::Graph(const GraphMemory&) {
  not_open();
}
Graph::~Graph() = default;
void Graph::rehearse(FunctionRef<void()>) {
  not_open();
}
void Graph::capture(FunctionRef<void()>) {
  not_open();
}
bool Graph::captured() const {
  not_open();
}
std::size_t Graph::num_nodes() const {
  not_open();
}
double Graph::instantiation_seconds() const {
  not_open();
}
void Graph::launch() {
  not_open();
}

CUstream_st* stream(Queue) {
  not_open();
}
void wait_for(Queue, Queue) {
  not_open();
}
QueueScope::QueueScope(Queue) {
  not_open();
}
QueueScope::~QueueScope() = default;
bool is_persistent(const void*, std::size_t) {
  not_open();
}
void require_persistent(const void*, std::size_t, const char*) {
  not_open();
}
void record_event(void*, Queue) {
  not_open();
}
void wait_for(Queue, void*) {
  not_open();
}
bool reached(void*) {
  not_open();
}
void use_device_in_this_thread() {
  not_open();
}
// Nothing is allocated on a device, in no scope.
PersistentMemoryScope::PersistentMemoryScope() = default;
PersistentMemoryScope::~PersistentMemoryScope() = default;

void synchronize() {
  not_open();
}
void* create_event() {
  not_open();
}
void destroy_event(void*) noexcept {
  not_open();
}
void record_event(void*) {
  not_open();
}
double seconds_between(void*, void*) {
  not_open();
}
void fill(void*, DType, std::int64_t, double) {
  not_open();
}
void convert(void*, DType, const void*, DType, std::int64_t) {
  not_open();
}
void add(void*, DType, const void*, DType, std::int64_t) {
  not_open();
}
void scale(void*, DType, std::int64_t, double) {
  not_open();
}
void copy_to_row(double*, const std::int64_t*, std::int64_t, std::span<const RowPart>) {
  not_open();
}
bool all_finite(const void*, DType, std::int64_t) {
  not_open();
}
std::int32_t fault_kind(const std::string&) {
  not_open();
}
void check_after_waits(std::function<void()>) {  // NOLINT: it is moved with CUDA
  not_open();
}
int count_gpus() {
  return 0;
}
std::string gpu_address(int) {
  not_open();
}
void count_begin_of_collective() {
  not_open();
}
void count_end_of_collective() {
  not_open();
}
CollectiveCounts collective_counts() {
  not_open();
}
void sum_rows(const bfloat16*, bfloat16*, std::int64_t, std::int64_t) {
  not_open();
}

// No tool of a GPU looks at this build.
void push_range(std::string_view) {}
void pop_range() {}

}  // namespace moh::cuda
