#include <iterator>
#include <map>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "core/cuda/arena_scope.h"
#include "core/cuda/device.h"
#include "core/cuda/memory_blocks.h"
#include "core/cuda/queue.h"
#include "core/error.h"

namespace moh::cuda {

namespace {

struct Memory {
  std::mutex mutex;
  MemoryStats counts;
  std::vector<SharedArena> arenas;                     // those that have an owner or allocated blocks
  std::int64_t pool_reserved = 0;                      // bytes that CUDA's pool holds
  bool pool_used = false;                              // since trim_pool()
  SharedArena current;                                 // the source of allocate(); null: CUDA's pool
  std::map<const std::byte*, std::size_t> persistent;  // blocks of PersistentMemoryScope, and their bytes
  std::vector<void*> to_free;                          // what was released during a capture
  bool tracks = false;                                 // since track_blocks()
  std::map<const std::byte*, std::size_t> tracked;     // blocks handed out since then, and their bytes
};

thread_local bool takes_persistent = false;

Memory& memory() {
  static auto* all = new Memory;  // never destroyed: tensors with static lifetime may outlive main()
  return *all;
}

/// Frees arenas that have no owner any more, as far as their blocks are released. Postponed during a capture
/// to the end of the ArenaScope, which calls this again.
void drop_unused_arenas() {
  if (capturing()) return;
  std::erase_if(memory().arenas, [](const SharedArena& arena) {
    if (arena.use_count() > 1) return false;
    arena->trim();
    return arena->blocks_out() == 0;
  });
}

void* take_from_pool(std::size_t bytes) {
  memory().pool_used = true;
  void* block = nullptr;
  const cudaError_t status = cudaMallocAsync(&block, bytes, stream(Queue::kCompute));
  if (status != cudaErrorMemoryAllocation) check(status, "cudaMallocAsync");
  return block;
}

void* take_from_device(std::size_t bytes) {
  require_no_capture("allocate persistent memory");
  void* block = nullptr;
  const cudaError_t status = cudaMalloc(&block, bytes);
  if (status != cudaErrorMemoryAllocation) check(status, "cudaMalloc");
  if (block != nullptr) memory().persistent[static_cast<std::byte*>(block)] = bytes;
  return block;
}

/// Null when the device has no memory, even after what was released before is free.
void* take_block(std::size_t bytes) {
  if (memory().current && !takes_persistent) return memory().current->take(bytes);
  const auto take = takes_persistent ? take_from_device : take_from_pool;
  if (void* const block = take(bytes); block != nullptr) return block;
  cudaGetLastError();
  require_no_capture("allocate outside of an arena");
  MOH_CUDA_CALL(cudaStreamSynchronize(stream(Queue::kCompute)));
  MOH_CUDA_CALL(cudaMemPoolTrimTo(memory_pool(), 0));
  return take(bytes);
}

void free_block(void* block) {
  // A failure is that of an earlier kernel, and the next call reports it.
  if (memory().persistent.erase(static_cast<std::byte*>(block)) > 0) {
    cudaFree(block);
  } else {
    cudaFreeAsync(block, stream(Queue::kCompute));
  }
}

void give_back_block(void* block, std::size_t bytes) {
  for (const SharedArena& arena : memory().arenas) {
    if (!arena->owns(block)) continue;
    arena->give_back(block, bytes);
    return drop_unused_arenas();
  }
  if (capturing()) {  // a graph cannot free what it has not allocated
    memory().to_free.push_back(block);
  } else {
    free_block(block);
  }
}

std::int64_t pool_reserved_bytes() {
  std::uint64_t bytes = 0;
  MOH_CUDA_CALL(cudaMemPoolGetAttribute(memory_pool(), cudaMemPoolAttrReservedMemCurrent, &bytes));
  return static_cast<std::int64_t>(bytes);
}

/// Bytes that the pool, the arenas and persistent blocks hold from the system. The pool is queried only when
/// it is in use.
HeldBytes held_by_source() {
  if (!memory().current) memory().pool_reserved = pool_reserved_bytes();
  HeldBytes held{.pool = memory().pool_reserved};
  for (const SharedArena& arena : memory().arenas) held.arenas += arena->reserved_bytes();
  for (const auto& [block, bytes] : memory().persistent) held.persistent += static_cast<std::int64_t>(bytes);
  return held;
}

std::int64_t reserved_bytes() {
  const HeldBytes held = held_by_source();
  return held.pool + held.arenas + held.persistent;
}

[[noreturn]] void refuse(std::size_t bytes) {
  cudaGetLastError();
  std::size_t free_bytes = 0, total_bytes = 0;
  cudaMemGetInfo(&free_bytes, &total_bytes);
  std::int64_t in_arenas = 0;
  for (const SharedArena& arena : memory().arenas) in_arenas += arena->reserved_bytes();
  throw MemoryError("cuda memory: expected " + std::to_string(bytes) +
                    " more bytes, but the device refused (" +
                    std::to_string(memory().counts.total.current_bytes) + " bytes in use by this process; " +
                    std::to_string(memory().pool_reserved) + " held by the pool, " +
                    std::to_string(in_arenas) + " by captured work; " + std::to_string(free_bytes) + " of " +
                    std::to_string(total_bytes) + " free); use a smaller batch or model");
}

}  // namespace

SharedArena make_arena() {
  const std::lock_guard lock(memory().mutex);
  return memory().arenas.emplace_back(std::make_shared<Arena>());
}

void disown(SharedArena& arena) {
  const std::lock_guard lock(memory().mutex);
  arena = nullptr;
  drop_unused_arenas();
}

Arena::Mark mark_of(const SharedArena& arena) {
  const std::lock_guard lock(memory().mutex);
  return arena->mark();
}

bool return_to(const SharedArena& arena, const Arena::Mark& mark) {
  const std::lock_guard lock(memory().mutex);
  const bool same = arena->return_to(mark);
  memory().counts.reserved_bytes = reserved_bytes();
  return same;
}

ArenaScope::ArenaScope(const SharedArena& arena) {
  const std::lock_guard lock(memory().mutex);
  MOH_CHECK(memory().current == nullptr, "one arena at a time");
  memory().current = arena;
}

ArenaScope::~ArenaScope() {
  const std::lock_guard lock(memory().mutex);
  memory().current = nullptr;
  for (void* block : std::exchange(memory().to_free, {})) free_block(block);
  drop_unused_arenas();
}

PersistentMemoryScope::PersistentMemoryScope() : previous_(std::exchange(takes_persistent, true)) {}
PersistentMemoryScope::~PersistentMemoryScope() {
  takes_persistent = previous_;
}

bool is_persistent(const void* begin, std::size_t bytes) {
  const std::lock_guard lock(memory().mutex);
  const auto& blocks = memory().persistent;
  const auto* const first = static_cast<const std::byte*>(begin);
  const auto after = blocks.upper_bound(first);
  return after != blocks.begin() && first + bytes <= std::prev(after)->first + std::prev(after)->second;
}

void require_persistent(const void* begin, std::size_t bytes, const char* what) {
  MOH_CHECK(is_persistent(begin, bytes),
            std::string(what) +
                ": memory that the compute queue may hand out again; it comes from a PersistentMemoryScope");
}

void* allocate(std::size_t bytes, MemoryPurpose purpose) {
  require_compute_queue("allocate");
  use_device_in_this_thread();
  const std::size_t wanted = bytes == 0 ? 1 : bytes;  // CUDA does not allocate 0 bytes
  const std::lock_guard lock(memory().mutex);
  void* const block = take_block(wanted);
  if (block == nullptr) refuse(wanted);
  if (memory().tracks) memory().tracked[static_cast<std::byte*>(block)] = wanted;
  memory().counts.count(purpose, static_cast<std::int64_t>(bytes));
  const std::int64_t reserved = reserved_bytes();
  if (reserved > memory().counts.reserved_bytes) ++memory().counts.system_allocations;
  memory().counts.reserved_bytes = reserved;
  return block;
}

void release(void* block, std::size_t bytes, MemoryPurpose purpose) noexcept {
  const std::lock_guard lock(memory().mutex);
  memory().tracked.erase(static_cast<std::byte*>(block));
  give_back_block(block, bytes);
  memory().counts.count(purpose, -static_cast<std::int64_t>(bytes));
}

void recount(std::size_t bytes, MemoryPurpose from, MemoryPurpose to) noexcept {
  const std::lock_guard lock(memory().mutex);
  memory().counts.count(from, -static_cast<std::int64_t>(bytes));
  memory().counts.count(to, static_cast<std::int64_t>(bytes));
}

void trim_pool() {
  const std::lock_guard lock(memory().mutex);
  if (!std::exchange(memory().pool_used, false)) return;
  MOH_CUDA_CALL(cudaMemPoolTrimTo(memory_pool(), 0));
  memory().pool_reserved = pool_reserved_bytes();
  memory().counts.reserved_bytes = reserved_bytes();
}

void track_blocks() {
  const std::lock_guard lock(memory().mutex);
  memory().tracks = true;
}

MemoryBlock block_at(const void* address) {
  const std::lock_guard lock(memory().mutex);
  const auto* const at = static_cast<const std::byte*>(address);
  const auto after = memory().tracked.upper_bound(at);
  if (after == memory().tracked.begin()) return {};
  const auto& [begin, bytes] = *std::prev(after);
  return at < begin + bytes ? MemoryBlock{begin, bytes} : MemoryBlock{};
}

HeldBytes held_bytes() {
  const std::lock_guard lock(memory().mutex);
  return held_by_source();
}

MemoryStats memory_stats() {
  const std::lock_guard lock(memory().mutex);
  return memory().counts;
}

void reset_memory_peaks() {
  const std::lock_guard lock(memory().mutex);
  memory().counts.reset_peaks();
}

}  // namespace moh::cuda
