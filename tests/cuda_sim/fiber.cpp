#include "tests/cuda_sim/fiber.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <system_error>

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif

// swapcontext would make two system calls for each switch, and a block of 128 threads switches thousands of
// times. Only the registers that a function must keep for its caller are saved.
extern "C" void moh_sim_switch_stack(void** save_pointer, void* next_pointer);

#if defined(__x86_64__)
asm(R"(
.text
.globl moh_sim_switch_stack
.type moh_sim_switch_stack,@function
moh_sim_switch_stack:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
.size moh_sim_switch_stack,.-moh_sim_switch_stack
)");
#elif defined(__aarch64__)
asm(R"(
.text
.globl moh_sim_switch_stack
.type moh_sim_switch_stack,%function
moh_sim_switch_stack:
  stp x19, x20, [sp, #-160]!
  stp x21, x22, [sp, #16]
  stp x23, x24, [sp, #32]
  stp x25, x26, [sp, #48]
  stp x27, x28, [sp, #64]
  stp x29, x30, [sp, #80]
  stp d8, d9, [sp, #96]
  stp d10, d11, [sp, #112]
  stp d12, d13, [sp, #128]
  stp d14, d15, [sp, #144]
  mov x9, sp
  str x9, [x0]
  mov sp, x1
  ldp x21, x22, [sp, #16]
  ldp x23, x24, [sp, #32]
  ldp x25, x26, [sp, #48]
  ldp x27, x28, [sp, #64]
  ldp x29, x30, [sp, #80]
  ldp d8, d9, [sp, #96]
  ldp d10, d11, [sp, #112]
  ldp d12, d13, [sp, #128]
  ldp d14, d15, [sp, #144]
  ldp x19, x20, [sp], #160
  ret
.size moh_sim_switch_stack,.-moh_sim_switch_stack
)");
#else
#error "the CUDA simulator knows how to switch stacks on x86-64 and 64-bit Arm"
#endif

namespace moh::sim {

namespace {

constexpr std::size_t kStackBytes = std::size_t{128} << 10;

/// The caller of enter(). One for all host threads: a fiber may go on in another one than it left.
struct Host {
  void* stack_pointer = nullptr;
#if defined(__SANITIZE_ADDRESS__)
  bool left = false;
  void* fake_stack = nullptr;
  const void* stack = nullptr;
  std::size_t stack_bytes = 0;
#endif
};
Host host;
Fiber* running = nullptr;  // where its object was when it was switched to

std::size_t page_bytes() {
  return static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
}

/// The end of a stack's memory, where its body is noted.
void (**body_of(std::byte* stack))() {
  return reinterpret_cast<void (**)()>(stack + kStackBytes) - 1;
}

/// The distance of a stack's first frame from the end of its memory. With one for all, the frames of a
/// block's threads would share a few sets of the processor's first cache.
std::size_t next_distance() {
  constexpr std::size_t kLineBytes = 64, kSets = 64, kStep = 5;
  static std::size_t stacks = 0;
  return (1 + stacks++ * kStep % kSets) * kLineBytes;
}

}  // namespace

Fiber::~Fiber() {
  if (has_stack()) munmap(stack_ - page_bytes(), page_bytes() + kStackBytes);
}

void Fiber::make_stack() {
  void* memory = mmap(nullptr, page_bytes() + kStackBytes, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED || mprotect(memory, page_bytes(), PROT_NONE) != 0)
    throw std::system_error(errno, std::generic_category(), "the stack of a simulated thread");
  stack_ = static_cast<std::byte*>(memory) + page_bytes();
}

void Fiber::start(void (*body)()) {
#if defined(__SANITIZE_ADDRESS__)
  fake_stack_ = nullptr;
  __asan_unpoison_memory_region(stack_, kStackBytes);  // of a body that was dropped
#endif
  *body_of(stack_) = body;
  // The switch finds on the stack: saved registers, and main() as the place to return to.
  void** top = reinterpret_cast<void**>(stack_ + kStackBytes - next_distance());
#if defined(__x86_64__)
  constexpr int kRegisters = 6;
  *--top = nullptr;  // main's own return address; it also aligns the stack as a call would
  *--top = reinterpret_cast<void*>(&Fiber::main);
  for (int i = 0; i < kRegisters; ++i) *--top = nullptr;
#else
  constexpr int kRegisters = 20, kReturnAddress = 11;
  top -= kRegisters;
  for (int i = 0; i < kRegisters; ++i) top[i] = nullptr;
  top[kReturnAddress] = reinterpret_cast<void*>(&Fiber::main);
#endif
  stack_pointer_ = top;
}

void Fiber::enter() {
  running = this;
#if defined(__SANITIZE_ADDRESS__)
  host.left = true;
  __sanitizer_start_switch_fiber(&host.fake_stack, stack_, kStackBytes);
#endif
  moh_sim_switch_stack(&host.stack_pointer, stack_pointer_);
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_finish_switch_fiber(host.fake_stack, nullptr, nullptr);
#endif
}

void Fiber::switch_to(Fiber& next) {
  running = &next;
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_start_switch_fiber(&fake_stack_, next.stack_, kStackBytes);
#endif
  moh_sim_switch_stack(&stack_pointer_, next.stack_pointer_);
  arrive();
}

void Fiber::leave() {
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_start_switch_fiber(&fake_stack_, host.stack, host.stack_bytes);
#endif
  moh_sim_switch_stack(&stack_pointer_, host.stack_pointer);
  arrive();
}

/// Follows a switch to a fiber, which by now may have another object than when it was left.
void Fiber::arrive() {
#if defined(__SANITIZE_ADDRESS__)
  const void* stack = nullptr;
  std::size_t stack_bytes = 0;
  __sanitizer_finish_switch_fiber(running->fake_stack_, &stack, &stack_bytes);
  if (!std::exchange(host.left, false)) return;
  host.stack = stack;
  host.stack_bytes = stack_bytes;
#endif
}

void Fiber::main() {
  arrive();
  (*body_of(running->stack_))();
}

}  // namespace moh::sim
