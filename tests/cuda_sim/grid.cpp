#include "tests/cuda_sim/grid.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <initializer_list>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "tests/cuda_sim/shared_memory_log.h"

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#endif

namespace moh::sim {

namespace {

constexpr std::size_t kMostSharedBytes = 232448;  // 227 KiB: a block of sm_90
constexpr int kSeveralBlocks = 3;

Freedom current_freedom;

/// GCC 12 warns of overlapping copies where strings are added up (its bug 105651).
std::string join(std::initializer_list<std::string_view> parts) {
  std::string joined;
  for (const std::string_view part : parts) joined.append(part);
  return joined;
}

std::string text(const Dim3& d) {
  return join({"(", std::to_string(d.x), ", ", std::to_string(d.y), ", ", std::to_string(d.z), ")"});
}

std::string text(const std::source_location& where) {
  return join({where.file_name(), ":", std::to_string(where.line())});
}

/// Fibers are expensive to make; the next launch takes them over.
std::vector<std::unique_ptr<Fiber>>& spare_fibers() {
  static std::vector<std::unique_ptr<Fiber>> fibers;
  return fibers;
}

/// Takes a thread back to the beginning of its stack.
struct ThreadFault : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// A launch in progress.
struct Run {
  const char* kernel_name;
  Dim3 grid;
  Thread* current = nullptr;
  std::deque<Thread*> ready;
  std::mt19937_64 random{current_freedom.seed};
  std::optional<std::string> failure;
  std::size_t idle_spins = 0;

  Thread* take_ready() {
    if (current_freedom.order == ThreadOrder::kRandom)
      std::swap(ready.front(),
                ready[std::uniform_int_distribution<std::size_t>(0, ready.size() - 1)(random)]);
    Thread* const next = ready.front();
    ready.pop_front();
    return next;
  }
};

Run* run = nullptr;

void wait_here(const char* what, const std::source_location& where) {
  Thread& self = *run->current;
  self.waits_at = what;
  self.where = where;
  Fiber::yield();
}

void wake(Thread* thread) {
  thread->waits_at = nullptr;
  if (current_freedom.order == ThreadOrder::kWarpAhead)
    run->ready.push_front(thread);
  else
    run->ready.push_back(thread);
}

Dim3 index_of(std::size_t number, const Dim3& dims) {
  return {static_cast<unsigned>(number % dims.x), static_cast<unsigned>(number / dims.x % dims.y),
          static_cast<unsigned>(number / dims.x / dims.y)};
}

std::string name_of(const Thread& thread) {
  return join({"block ", text(thread.block->index), " thread ", text(thread.index)});
}

[[noreturn]] void throw_fault(const std::string& what) {
  throw KernelFault(join({"kernel ", run->kernel_name, ": ", what}));
}

/// Nobody can go on: says who waits where.
[[noreturn]] void report_deadlock(const std::vector<std::unique_ptr<Block>>& blocks) {
  std::string report = "deadlock";
  int listed = 0;
  constexpr int kMostListed = 4;
  for (const auto& block : blocks) {
    std::size_t ended = 0, waiting = 0;
    const char* last = nullptr;
    unsigned last_line = 0;
    for (const Thread& thread : block->threads()) {
      if (thread.done) {
        ++ended;
        continue;
      }
      ++waiting;
      const bool new_place = thread.waits_at != last || thread.where.line() != last_line;
      if (new_place && listed++ < kMostListed)
        report += join({"; ", name_of(thread), " waits in ", thread.waits_at, " at ", text(thread.where)});
      last = thread.waits_at;
      last_line = thread.where.line();
    }
    report += join({"; of block ", text(block->index), " ", std::to_string(waiting), " threads wait and ",
                    std::to_string(ended), " have ended"});
  }
  throw_fault(report);
}

void check_limits(Dim3 grid, Dim3 threads, std::size_t shared_bytes) {
  const std::size_t count = threads.count();
  if (count == 0 || count > 1024 || count % 32 != 0)
    throw_fault(
        join({"a block has ", std::to_string(count), " threads; a multiple of 32 up to 1024 is possible"}));
  if (grid.count() == 0 || grid.x > 0x7fffffffU || grid.y > 65535 || grid.z > 65535)
    throw_fault(join({"the grid ", text(grid), " is empty or larger than (2147483647, 65535, 65535)"}));
  if (shared_bytes > kMostSharedBytes)
    throw_fault(join({std::to_string(shared_bytes), " bytes of shared memory; a block has ",
                      std::to_string(kMostSharedBytes)}));
}

std::map<std::string, std::size_t>& shared_bytes_by_kernel() {
  static std::map<std::string, std::size_t> most;
  return most;
}

}  // namespace

std::size_t most_shared_bytes(const std::string& kernel) {
  return shared_bytes_by_kernel()[kernel];
}

FreedomScope::FreedomScope(const Freedom& freedom) : previous_(std::exchange(current_freedom, freedom)) {}
FreedomScope::~FreedomScope() {
  current_freedom = previous_;
}

Block::Block(Dim3 block_index, Dim3 threads, std::size_t shared_bytes, const std::function<void()>& kernel)
    : index(block_index),
      dims(threads),
      shared_bytes_(shared_bytes),
      threads_(threads.count()),
      running_(threads_.size()),
      warps_(threads_.size() / 32) {
  constexpr std::size_t kAlignment = 1024;
  const std::size_t bytes = (shared_bytes + kGuardBytes + kAlignment - 1) / kAlignment * kAlignment;
  shared_ = static_cast<std::byte*>(std::aligned_alloc(kAlignment, bytes));
  std::memset(shared_, 0xff, bytes);
#if defined(__SANITIZE_ADDRESS__)
  __asan_poison_memory_region(shared_ + shared_bytes_, bytes - shared_bytes_);
#endif
  for (unsigned i = 0; i < threads_.size(); ++i) {
    Thread& thread = threads_[i];
    thread.block = this;
    thread.number = i;
    thread.index = index_of(i, dims);
    auto& spare = spare_fibers();
    if (spare.empty()) spare.push_back(std::make_unique<Fiber>());
    thread.fiber = std::move(spare.back());
    spare.pop_back();
    thread.fiber->start([&kernel] {
      try {
        kernel();
      } catch (const ThreadFault& fault) {  // an exception must not leave its stack
        run->failure = fault.what();
      }
    });
    run->ready.push_back(&thread);
  }
}

Block::~Block() {
  for (Thread& thread : threads_) spare_fibers().push_back(std::move(thread.fiber));
#if defined(__SANITIZE_ADDRESS__)
  __asan_unpoison_memory_region(shared_, shared_bytes_ + kGuardBytes);
#endif
  std::free(shared_);
}

void Block::check_shared() const {
#if !defined(__SANITIZE_ADDRESS__)
  for (std::size_t i = 0; i < kGuardBytes; ++i) {
    if (shared_[shared_bytes_ + i] != std::byte{0xff})
      throw_fault(join({"block ", text(index), " wrote past its ", std::to_string(shared_bytes_),
                        " bytes of shared memory"}));
  }
#endif
}

void Block::meet_in_warp(const char* what, void* operand, const std::source_location& where,
                         const std::function<void(Operands&)>& complete) {
  Thread& self = *run->current;
  Meeting& meeting = warps_[self.warp()];
  if (meeting.arrived == 0) {
    meeting.what = what;
    meeting.where = where;
  } else if (meeting.what != what || meeting.where.line() != where.line()) {
    fault(join({"lanes of a warp are at different places: ", meeting.what, " at ", text(meeting.where),
                " and ", what}),
          where);
  }
  meeting.operands[self.lane()] = operand;
  if (++meeting.arrived < 32) {
    meeting.waiting.push_back(&self);
    return wait_here(what, where);
  }
  complete(meeting.operands);
  meeting.arrived = 0;
  for (Thread* thread : std::exchange(meeting.waiting, {})) wake(thread);
  note_progress();
}

void Block::meet_at_barrier(const char* what, int id, unsigned count, const std::source_location& where) {
  Meeting& meeting = barriers_[static_cast<std::size_t>(id)];
  if (id == 0 && meeting.arrived > 0 && meeting.where.line() != where.line())
    fault(join({"threads of a block are at different barriers: ", text(meeting.where), " and this"}), where);
  meeting.where = where;
  if (++meeting.arrived < count) {
    meeting.waiting.push_back(run->current);
    return wait_here(what, where);
  }
  meeting.arrived = 0;
  for (Thread* thread : std::exchange(meeting.waiting, {})) wake(thread);
  note_progress();
}

bool computes() {
  static const char* const wanted = std::getenv("MOH_SIM_COMPUTES");
  return wanted == nullptr || std::string_view(wanted) != "0";
}

void run_grid(const char* kernel_name, Dim3 grid, Dim3 threads, std::size_t shared_bytes,
              const std::function<void()>& kernel) {
  Run own{kernel_name, grid};
  struct Restore {
    Run* outer = run;
    ~Restore() { run = outer; }
  } restore;
  run = &own;
  check_limits(grid, threads, shared_bytes);
  std::size_t& most = shared_bytes_by_kernel()[kernel_name];
  most = std::max(most, shared_bytes);
  if (!computes()) return;
  const std::size_t resident = current_freedom.order == ThreadOrder::kInTurn ? 1 : kSeveralBlocks;
  std::vector<std::unique_ptr<Block>> blocks;
  std::size_t started = 0;
  while (started < grid.count() || !blocks.empty()) {
    while (blocks.size() < resident && started < grid.count())
      blocks.push_back(std::make_unique<Block>(index_of(started++, grid), threads, shared_bytes, kernel));
    if (own.ready.empty()) report_deadlock(blocks);
    Thread& next = *own.take_ready();
    own.current = &next;
    next.done = !next.fiber->resume();
    if (own.failure) throw_fault(*own.failure);
    if (!next.done) continue;
    note_progress();
    Block* const block = next.block;  // `next` goes with it
    block->thread_ended();
    if (!block->done()) continue;
    block->check_shared();
    std::erase_if(blocks, [&](const auto& one) { return one.get() == block; });
  }
}

Thread& this_thread() {
  return *run->current;
}
Dim3 grid_dims() {
  return run->grid;
}
const Freedom& freedom() {
  return current_freedom;
}
bool in_kernel() {
  return run != nullptr;
}

void note_progress() {
  run->idle_spins = 0;
}

void spin(const std::source_location& where) {
  constexpr std::size_t kEndless = 1 << 20;
  if (++run->idle_spins > kEndless) fault("threads wait for what no thread does", where);
  run->ready.push_back(run->current);
  wait_here("spin", where);
  run->current->waits_at = nullptr;
}

void fault(const std::string& what, const std::source_location& where) {
  throw ThreadFault(join({name_of(*run->current), ": ", what, " at ", text(where)}));
}

}  // namespace moh::sim
