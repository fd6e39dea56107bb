// Tells ThreadSanitizer what CUDA's threads are: each is a "fiber" to it, ordered with others by barriers alone.
//
// The runtime itself is compiled without -fsanitize=thread, so its own memory and its switches are invisible: threads
// are ordered only where these functions say so. A barrier is a release by each who arrives and an acquire by each who
// goes on. There are two objects for even and odd barriers: a fast thread that already waits at the next barrier must
// not be seen by a slow one that is still leaving this one.
//
// EMULATOR_BLOCKS=unordered: blocks are not ordered against each other, as on a GPU. Each block then needs its own
// fibers, which cost most of a millisecond each; otherwise they are used again, and blocks follow one another.
#include <cstdlib>
#include <cstring>
#include <vector>

#include "watch.h"

extern "C" {
void* __tsan_get_current_fiber();
void* __tsan_create_fiber(unsigned flags);
void __tsan_destroy_fiber(void* fiber);
void __tsan_switch_to_fiber(void* fiber, unsigned flags);
void __tsan_acquire(void* object);
void __tsan_release(void* object);
void AnnotateBenignRaceSized(const char* file, int line, const volatile void* memory, long size, const char* why);
}

namespace emulator {
namespace {

constexpr unsigned without_order = 1;  // a switch alone orders nothing
std::vector<void*> fibers;
void* outside_fiber;
char block_begins, block_ends, barrier[2], warp_barrier[32][2];
unsigned phase, warp_phase[32];

bool blocks_are_unordered() {
    const char* wish = getenv("EMULATOR_BLOCKS");
    return wish && !strcmp(wish, "unordered");
}

}  // namespace

void watch_launch(unsigned) {
    outside_fiber = __tsan_get_current_fiber();
    const Launch* launch = current_launch();
    if (blocks_are_unordered() && launch->shared_begin)  // one copy here, one for each block on a GPU
        AnnotateBenignRaceSized(__FILE__, __LINE__, launch->shared_begin, launch->shared_end - launch->shared_begin,
                                "shared memory belongs to one block");
}

void watch_block(unsigned threads) {
    while (fibers.size() < threads) fibers.push_back(__tsan_create_fiber(0));
    __tsan_release(&block_begins);
}

void watch_block_end() {
    if (!blocks_are_unordered()) return __tsan_acquire(&block_ends);
    for (void* fiber : fibers) __tsan_destroy_fiber(fiber);
    fibers.clear();
}

void watch_switch(unsigned thread) { __tsan_switch_to_fiber(fibers[thread], without_order); }
void watch_switch_outside() { __tsan_switch_to_fiber(outside_fiber, without_order); }
void watch_begin() { __tsan_acquire(&block_begins); }
void watch_end() { __tsan_release(&block_ends); }

void watch_barrier_arrive() { __tsan_release(&barrier[phase % 2]); }
void watch_barrier_complete() { phase++; }
void watch_barrier_pass() { __tsan_acquire(&barrier[(phase - 1) % 2]); }

// A shuffle exchanges values but orders no memory: nothing is said about it.
void watch_warp_arrive() {
    const unsigned warp = current_thread() / 32;
    __tsan_release(&warp_barrier[warp][warp_phase[warp] % 2]);
}
void watch_warp_complete() { warp_phase[current_thread() / 32]++; }
void watch_warp_pass() {
    const unsigned warp = current_thread() / 32;
    __tsan_acquire(&warp_barrier[warp][(warp_phase[warp] - 1) % 2]);
}
void watch_shuffle_complete() {}
void watch_launch_end() { __tsan_acquire(&block_ends); }

}  // namespace emulator
