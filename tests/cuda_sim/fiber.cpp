#include "tests/cuda_sim/fiber.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <system_error>
#include <utility>

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

thread_local Fiber* running = nullptr;

std::size_t page_bytes() {
  return static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
}

}  // namespace

Fiber::Fiber() {
  void* memory = mmap(nullptr, page_bytes() + kStackBytes, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED || mprotect(memory, page_bytes(), PROT_NONE) != 0)
    throw std::system_error(errno, std::generic_category(), "the stack of a simulated thread");
  stack_ = static_cast<std::byte*>(memory) + page_bytes();
}

Fiber::~Fiber() {
  munmap(stack_ - page_bytes(), page_bytes() + kStackBytes);
}

void Fiber::start(std::function<void()> body) {
  body_ = std::move(body);
  done_ = false;
  fake_stack_ = nullptr;
#if defined(__SANITIZE_ADDRESS__)
  __asan_unpoison_memory_region(stack_, kStackBytes);  // of a body that was dropped
#endif
  // The switch finds on the stack: saved registers, and main() as the place to return to.
  void** top = reinterpret_cast<void**>(stack_ + kStackBytes);
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

bool Fiber::resume() {
  if (done_) return false;
  Fiber* const outer = std::exchange(running, this);
  switch_in();
  running = outer;
  return !done_;
}

void Fiber::yield() {
  running->switch_out(/*for_good=*/false);
}

void Fiber::switch_in() {
#if defined(__SANITIZE_ADDRESS__)
  void* caller_fake_stack = nullptr;
  __sanitizer_start_switch_fiber(&caller_fake_stack, stack_, kStackBytes);
#endif
  moh_sim_switch_stack(&caller_stack_pointer_, stack_pointer_);
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_finish_switch_fiber(caller_fake_stack, nullptr, nullptr);
#endif
}

void Fiber::switch_out([[maybe_unused]] bool for_good) {
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_start_switch_fiber(for_good ? nullptr : &fake_stack_, caller_stack_, caller_stack_bytes_);
#endif
  moh_sim_switch_stack(&stack_pointer_, caller_stack_pointer_);
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_finish_switch_fiber(fake_stack_, &caller_stack_, &caller_stack_bytes_);
#endif
}

void Fiber::main() {
  Fiber& self = *running;
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_finish_switch_fiber(nullptr, &self.caller_stack_, &self.caller_stack_bytes_);
#endif
  self.body_();
  self.done_ = true;
  self.switch_out(/*for_good=*/true);
}

}  // namespace moh::sim
