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

#include "tests/cuda_sim/fiber.h"
#include "tests/cuda_sim/ready_threads.h"
#include "tests/cuda_sim/shared_memory_log.h"

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#endif

namespace moh::sim {

namespace {

constexpr std::size_t kMostSharedBytes = 232448;  // 227 KiB: a block of sm_90
constexpr int kSeveralBlocks = 3;

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

/// Takes a thread back to the beginning of its stack.
struct ThreadFault : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// A launch in progress.
struct Run {
  const char* kernel_name;
  FunctionRef<void()> kernel;
  ReadyThreads ready;
  std::uint64_t random = freedom().seed;
  std::optional<std::string> failure;
  std::size_t idle_spins = 0;

  /// Null when no thread can go on.
  Thread* take_ready() {
    if (ready.empty()) return nullptr;
    if (freedom().order == ThreadOrder::kRandom) ready.shuffle_front(random);
    Thread* const next = ready.pop_front();
    if (!ready.empty()) {
      ready.peek(0)->fiber.prefetch();
      __builtin_prefetch(ready.peek(1));
    }
    return next;
  }
};

Run* run = nullptr;

void run_threads();

/// Fibers that run no thread: they are expensive to make.
std::vector<Fiber>& spare_fibers() {
  static std::vector<Fiber> fibers;
  return fibers;
}

void give_fiber(Thread& thread) {
  auto& spare = spare_fibers();
  if (spare.empty()) {
    thread.fiber.make_stack();
    thread.fiber.start(run_threads);
  } else {
    thread.fiber = std::move(spare.back());
    spare.pop_back();
  }
}

/// Makes `thread` the one that runs, once its fiber does.
Fiber& fiber_of(Thread& thread) {
  current_launch.thread = &thread;
  if (!thread.fiber.has_stack()) give_fiber(thread);
  return thread.fiber;
}

/// A fiber whose thread has ended begins another one, or does nothing before it is given one. The host looks
/// after a block that has ended.
void after_thread(Thread& ended) {
  Thread* const next = run->failure || ended.block->done() ? nullptr : run->take_ready();
  if (next != nullptr && !next->fiber.has_stack()) {
    next->fiber = std::move(ended.fiber);
    current_launch.thread = next;
    return;
  }
  spare_fibers().push_back(std::move(ended.fiber));
  Fiber& own = spare_fibers().back();
  if (next == nullptr) {
    own.leave();
  } else {
    own.switch_to(fiber_of(*next));
  }
}

/// Every fiber runs one thread after the other; a switch to a spare fiber begins one.
void run_threads() {
  for (;;) {
    Thread& self = this_thread();
    try {
      run->kernel();
    } catch (const ThreadFault& fault) {  // an exception must not leave its stack
      run->failure = fault.what();
    }
    self.done = true;
    note_progress();
    self.block->thread_ended();
    after_thread(self);
  }
}

void wait_here(const char* what, const std::source_location& where) {
  Thread& self = this_thread();
  self.waits_at = what;
  self.where = where;
  Thread* const next = run->take_ready();
  if (next == nullptr) {
    self.fiber.leave();
  } else if (next != &self) {
    self.fiber.switch_to(fiber_of(*next));
  }
}

void wake(Thread* thread) {
  thread->waits_at = nullptr;
  if (freedom().order == ThreadOrder::kWarpAhead)
    run->ready.push_front(thread);
  else
    run->ready.push_back(thread);
}

Dim3 index_of(std::size_t number, const Dim3& dims) {
  if (number < dims.x) return {static_cast<unsigned>(number), 0, 0};  // without divisions
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

FreedomScope::FreedomScope(const Freedom& freedom)
    : previous_(std::exchange(current_launch.freedom, freedom)) {}
FreedomScope::~FreedomScope() {
  current_launch.freedom = previous_;
}

Block::Block(Dim3 block_index, Dim3 threads, std::size_t shared_bytes)
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
    run->ready.push_back(&thread);
  }
}

Block::~Block() {
  for (Thread& thread : threads_) {
    if (!thread.fiber.has_stack()) continue;
    thread.fiber.start(run_threads);  // not where the thread stands
    spare_fibers().push_back(std::move(thread.fiber));
  }
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

void Block::refuse_other_places(const WarpMeeting& meeting, const char* what,
                                const std::source_location& where) {
  fault(join({"lanes of a warp are at different places: ", meeting.what, " at ", text(meeting.where), " and ",
              what}),
        where);
}

void Block::meet_in_warp(const char* what, void* operand, const std::source_location& where,
                         FunctionRef<void(Operands&)> complete) {
  Thread& self = this_thread();
  WarpMeeting& meeting = warps_[self.warp()];
  if (meeting.arrived == 0) {
    meeting.what = what;
    meeting.where = where;
  } else if (meeting.what != what || meeting.where.line() != where.line()) {
    refuse_other_places(meeting, what, where);
  }
  meeting.operands[self.lane()] = operand;
  meeting.waiting[meeting.arrived++] = &self;
  if (meeting.arrived < 32) return wait_here(what, where);
  complete(meeting.operands);
  meeting.arrived = 0;
  for (Thread* thread : meeting.waiting) {
    if (thread != &self) wake(thread);
  }
  note_progress();
}

void Block::meet_at_barrier(const char* what, int id, unsigned count, const std::source_location& where) {
  Barrier& barrier = barriers_[static_cast<std::size_t>(id)];
  if (id == 0 && !barrier.waiting.empty() && barrier.where.line() != where.line())
    fault(join({"threads of a block are at different barriers: ", text(barrier.where), " and this"}), where);
  barrier.where = where;
  if (barrier.waiting.size() + 1 < count) {
    barrier.waiting.push_back(&this_thread());
    return wait_here(what, where);
  }
  for (Thread* thread : barrier.waiting) wake(thread);
  barrier.waiting.clear();
  note_progress();
}

bool computes() {
  static const char* const wanted = std::getenv("MOH_SIM_COMPUTES");
  return wanted == nullptr || std::string_view(wanted) != "0";
}

void run_grid(const char* kernel_name, Dim3 grid, Dim3 threads, std::size_t shared_bytes,
              FunctionRef<void()> kernel) {
  const std::size_t resident = freedom().order == ThreadOrder::kInTurn ? 1 : kSeveralBlocks;
  Run own{kernel_name, kernel, ReadyThreads(resident * threads.count())};
  struct End {
    ~End() {
      run = nullptr;
      current_launch.thread = nullptr;
    }
  } end;
  run = &own;
  current_launch.grid = grid;
  check_limits(grid, threads, shared_bytes);
  std::size_t& most = shared_bytes_by_kernel()[kernel_name];
  most = std::max(most, shared_bytes);
  if (!computes()) return;
  std::vector<std::unique_ptr<Block>> blocks;
  std::size_t started = 0;
  while (started < grid.count() || !blocks.empty()) {
    while (blocks.size() < resident && started < grid.count())
      blocks.push_back(std::make_unique<Block>(index_of(started++, grid), threads, shared_bytes));
    Thread* const next = own.take_ready();
    if (next == nullptr) report_deadlock(blocks);
    fiber_of(*next).enter();
    if (own.failure) throw_fault(*own.failure);
    std::erase_if(blocks, [](const auto& block) {
      if (block->done()) block->check_shared();
      return block->done();
    });
  }
}

void note_progress() {
  run->idle_spins = 0;
}

void spin(const std::source_location& where) {
  constexpr std::size_t kEndless = 1 << 20;
  if (++run->idle_spins > kEndless) fault("threads wait for what no thread does", where);
  Thread& self = this_thread();
  run->ready.push_back(&self);
  wait_here("spin", where);
  self.waits_at = nullptr;
}

void fault(const std::string& what, const std::source_location& where) {
  throw ThreadFault(join({name_of(this_thread()), ": ", what, " at ", text(where)}));
}

}  // namespace moh::sim
