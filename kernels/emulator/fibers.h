// Fibers: several stacks, one processor. `fiber_switch` saves where this one is and continues another.
//
// By hand for x86-64 and 64-bit ARM: push the registers that a function must preserve, exchange the stack pointer, pop.
// That is some 20 instructions. Everywhere else ucontext does the same with a system call each time.
#pragma once
#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <vector>

#if !defined(EMULATOR_UCONTEXT) && !defined(__x86_64__) && !defined(__aarch64__)
#define EMULATOR_UCONTEXT
#endif
#ifdef EMULATOR_UCONTEXT
#include <ucontext.h>
#endif

namespace emulator {

// A kernel has small local arrays and calls mathematical functions, nothing deep.
constexpr size_t stack_bytes = 64 * 1024;

#ifdef EMULATOR_UCONTEXT

struct Fiber {
    ucontext_t context;
    char* stack = nullptr;
};

inline void fiber_switch(Fiber* from, Fiber* to) { swapcontext(&from->context, &to->context); }

inline void fiber_prepare(Fiber* fiber, void (*entry)()) {
    getcontext(&fiber->context);
    fiber->context.uc_stack.ss_sp = fiber->stack;
    fiber->context.uc_stack.ss_size = stack_bytes;
    fiber->context.uc_link = nullptr;
    makecontext(&fiber->context, entry, 0);
}

#else

struct Fiber {
    void* stack_pointer = nullptr;
    char* stack = nullptr;
};

extern "C" void emulator_switch(void** save, void* load);

#if defined(__x86_64__)
__asm__(R"(
    .text
    .hidden emulator_switch
    .globl emulator_switch
    .type emulator_switch, @function
emulator_switch:
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
    .size emulator_switch, . - emulator_switch
)");
constexpr int saved_words = 8, entry_word = 6;  // six registers, the address to go to, and one to align
#else
__asm__(R"(
    .text
    .hidden emulator_switch
    .globl emulator_switch
    .type emulator_switch, %function
emulator_switch:
    sub sp, sp, #160
    stp x19, x20, [sp, #0]
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
    ldp x19, x20, [sp, #0]
    ldp x21, x22, [sp, #16]
    ldp x23, x24, [sp, #32]
    ldp x25, x26, [sp, #48]
    ldp x27, x28, [sp, #64]
    ldp x29, x30, [sp, #80]
    ldp d8, d9, [sp, #96]
    ldp d10, d11, [sp, #112]
    ldp d12, d13, [sp, #128]
    ldp d14, d15, [sp, #144]
    add sp, sp, #160
    ret
    .size emulator_switch, . - emulator_switch
)");
constexpr int saved_words = 20, entry_word = 11;
#endif

inline void fiber_switch(Fiber* from, Fiber* to) { emulator_switch(&from->stack_pointer, to->stack_pointer); }

inline void fiber_prepare(Fiber* fiber, void (*entry)()) {
    void** top = reinterpret_cast<void**>(fiber->stack + stack_bytes) - saved_words;
    for (int word = 0; word < saved_words; word++) top[word] = nullptr;
    top[entry_word] = reinterpret_cast<void*>(entry);
    fiber->stack_pointer = top;
}

#endif

// A stack with a page below it that nobody may touch: a kernel with huge local arrays stops there.
inline char* new_stack() {
    const size_t page = sysconf(_SC_PAGESIZE);
    void* memory = mmap(nullptr, page + stack_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) abort();
    mprotect(memory, page, PROT_NONE);
    return static_cast<char*>(memory) + page;
}

inline void delete_stack(char* stack) {
    const size_t page = sysconf(_SC_PAGESIZE);
    munmap(stack - page, page + stack_bytes);
}

// Fibers outlive a launch: a stack is made once and used again.
class FiberPool {
    std::vector<Fiber*> all, free;

public:
    void add() {
        all.push_back(new Fiber);
        all.back()->stack = new_stack();
        free.push_back(all.back());
    }
    Fiber* take() {
        if (free.empty()) add();
        Fiber* fiber = free.back();
        free.pop_back();
        return fiber;
    }
    void give_back(Fiber* fiber) { free.push_back(fiber); }
    void take_all_back() { free = all; }
    size_t idle() const { return free.size(); }
    void clear() {
        for (Fiber* fiber : all) {
            delete_stack(fiber->stack);
            delete fiber;
        }
        all.clear();
        free.clear();
    }
};

}  // namespace emulator
