// Runs the blocks of a launch one after another and the threads of a block as fibers, each until its next barrier.
//
// A thread that reaches a barrier or a shuffle waits; the last one to arrive sets the others free and goes on itself.
// When nobody can run and not everybody is done, some thread missed a barrier: that is reported, never waited for.
// With a seed, every choice of the next thread and the order of the blocks is random, but the same for the same seed.
#include "runtime.h"

#include <cstdio>
#include <numeric>
#include <string>
#include <vector>

#include "fibers.h"
#include "thread.h"
#include "watch.h"

namespace emulator {
namespace {

const Launch* launch;
unsigned count, finished, waiting_at_barrier;
std::vector<Thread> threads;
std::vector<unsigned> queue;  // a ring of the threads that can run: `queued` of them, from `head` on
unsigned head, queued;
FiberPool fibers;
std::vector<unsigned> arrived;  // per warp: lanes that wait at a full-warp shuffle
Fiber outside;                  // the caller of the launch
Thread* me;
Failure failure;
bool failed;
unsigned long long random_state;
unsigned long long first_block = 0, end_block = ~0ull;  // see emulator_only

unsigned random_below(unsigned limit) {
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return (random_state >> 16) % limit;
}

unsigned number_of(const Thread* thread) { return thread - threads.data(); }

// The next thread to run, nullptr when none can.
Thread* pick() {
    if (!queued) return nullptr;
    if (launch->seed) std::swap(queue[head], queue[(head + random_below(queued)) % count]);
    Thread* next = &threads[queue[head]];
    head = (head + 1) % count;
    queued--;
    return next;
}

void set_free(Thread* thread) {
    thread->state = runnable;
    queue[(head + queued++) % count] = number_of(thread);
}

void become(Thread* thread) {
    me = thread;
    launch->here->thread = thread->index;
}

void fiber_body();

void go_to(Fiber* from, Thread* next) {
    if (!next->fiber) {
        next->fiber = fibers.take();
        fiber_prepare(next->fiber, fiber_body);
    }
    become(next);
    watch_switch(number_of(next));
    fiber_switch(from, next->fiber);
}

void leave(Fiber* from) {
    watch_switch_outside();
    fiber_switch(from, &outside);
}

// Each fiber runs one CUDA thread after another for as long as there are some that have not begun: a kernel without
// barriers needs one stack, and no switch at all.
void fiber_body() {
    for (;;) {
        watch_begin();
        launch->kernel(launch->arguments);
        watch_end();
        me->state = done;
        finished++;
        Fiber* mine = me->fiber;
        Thread* next = pick();
        if (!next) {
            leave(mine);
        } else if (!next->fiber && !one_stack_per_thread) {
            next->fiber = mine;
            become(next);
        } else {
            if (!one_stack_per_thread) fibers.give_back(mine);
            go_to(mine, next);
        }
    }
}

// The thread waits (its state says for what) while others run.
void wait() {
    Thread* self = me;
    Thread* next = pick();
    if (next == self) return;
    if (next) go_to(self->fiber, next);
    else leave(self->fiber);
}

void report_stuck() {
    const Thread* stuck = nullptr;
    for (const Thread& thread : threads)
        if (thread.state == at_shuffle && !stuck) stuck = &thread;
    const bool shuffle = stuck != nullptr;
    for (const Thread& thread : threads)
        if (thread.state == at_barrier && !stuck) stuck = &thread;
    const Thread* warp = &threads[number_of(stuck) / 32 * 32];
    const std::string text =
        shuffle ? "not all lanes of the mask take part in a shuffle or __syncwarp: " + who_is_where(warp, warp + 32)
                : "not all threads reach the same __syncthreads: " + who_is_where(&threads[0], &threads[0] + count);
    fail(shuffle ? "missing lane" : "divergent barrier", stuck->index, 0, 0, text.c_str());
}

void stop_here() {
    leave(me->fiber);  // never resumed
    abort();
}

// Waits until every lane of the mask has come to this line. `complete` is called once, when they all have.
void meet(const char* file, int line, unsigned mask, void (*complete)()) {
    const unsigned number = number_of(me), lane = number % 32, warp = number / 32;
    Thread* lanes = &threads[warp * 32];
    me->state = at_shuffle, me->file = file, me->line = line, me->mask = mask;
    if (!(mask >> lane & 1)) {
        fail("missing lane", me->index, 0, 0, ("a lane that is not in the mask calls " + place(*me)).c_str());
        stop_here();
    }
    arrived[warp] |= 1u << lane;
    unsigned together = 0;  // lanes of the mask that are here
    if ((arrived[warp] & mask) == mask)
        for (int l = 0; l < 32; l++)
            if ((mask >> l & 1) && lanes[l].mask == mask && same_place(lanes[l], *me)) together |= 1u << l;
    if (together != mask) return wait();
    arrived[warp] &= ~mask;
    me->state = runnable;
    complete();
    for (int l = 0; l < 32; l++)
        if ((mask >> l & 1) && l != (int)lane) set_free(&lanes[l]);
    if (launch->seed) {  // the last to arrive is not always the first to go on
        set_free(me);
        wait();
    }
}

// Bytes of ones are NaN and -1: who reads shared memory that nobody wrote shall see it. Volatile, because a call of
// memset would go to AddressSanitizer, which does not like to see its own gaps written.
void poison_shared_memory() {
    volatile char* byte = launch->shared_begin;
    for (; byte + 8 <= launch->shared_end; byte += 8) *reinterpret_cast<volatile unsigned long long*>(byte) = ~0ull;
    for (; byte < launch->shared_end; byte++) *byte = ~0;
}

bool run_block() {
    poison_shared_memory();
    const Index size = launch->here->block_size;
    finished = waiting_at_barrier = 0;
    head = 0, queued = count;
    std::iota(queue.begin(), queue.end(), 0u);
    std::fill(arrived.begin(), arrived.end(), 0u);
    unsigned t = 0;
    for (unsigned z = 0; z < size.z; z++)
        for (unsigned y = 0; y < size.y; y++)
            for (unsigned x = 0; x < size.x; x++, t++) {
                threads[t].fiber = nullptr, threads[t].state = runnable, threads[t].turn = 0;
                threads[t].mask = 0, threads[t].index = {x, y, z};
            }
    fibers.take_all_back();
    while (one_stack_per_thread && fibers.idle() < count) fibers.add();  // before anybody runs
    watch_block(count);
    go_to(&outside, pick());
    if (!failed && finished < count) report_stuck();
    watch_block_end();
    if (one_stack_per_thread) fibers.clear();
    return !failed;
}

}  // namespace

void fail(const char* kind, const Index& thread, unsigned long long code, unsigned long long other, const char* text) {
    if (failed) return;
    failed = true;
    failure = {};
    snprintf(failure.kind, sizeof failure.kind, "%s", kind);
    snprintf(failure.text, sizeof failure.text, "%s", text);
    failure.block = launch->here->block;
    failure.thread = thread;
    failure.code = code, failure.other_code = other;
}

void fail_and_stop(const char* kind, unsigned long long code, unsigned long long other, const char* text) {
    fail(kind, me->index, code, other, text);
    stop_here();
}

unsigned current_thread() { return number_of(me); }
const Launch* current_launch() { return launch; }
bool on_my_stack(const void* address) {
    const char* byte = static_cast<const char*>(address);
    const char* stack = me->fiber->stack;
    return byte >= stack && byte < stack + stack_bytes;
}

}  // namespace emulator

using namespace emulator;

extern "C" {

const Failure* emulator_failure() { return &failure; }

void emulator_only(unsigned long long first, unsigned long long end) { first_block = first, end_block = end; }

unsigned emulator_lane() { return number_of(me) % 32; }

void emulator_barrier(const char* file, int line) {
    watch_barrier_arrive();
    me->state = at_barrier, me->file = file, me->line = line;
    if (++waiting_at_barrier < count) {
        wait();
    } else {
        for (Thread& thread : threads)
            if (!same_place(thread, *me)) {  // everybody waits, but not for the same thing
                report_stuck();
                stop_here();
            }
        waiting_at_barrier = 0;
        watch_barrier_complete();
        for (Thread& thread : threads)
            if (&thread != me || launch->seed) set_free(&thread);
        me->state = runnable;
        if (launch->seed) wait();
    }
    watch_barrier_pass();
}

void emulator_warp_barrier(const char* file, int line, unsigned mask) {
    watch_warp_arrive();
    meet(file, line, mask, watch_warp_complete);
    watch_warp_pass();
}

// Two slots are enough: a lane that writes the same slot again has met all the others in between.
unsigned long long emulator_exchange(
    const char* file, int line, unsigned mask, unsigned long long value, unsigned source) {
    const unsigned char turn = me->turn;
    me->turn ^= 1;
    me->slot[turn] = value;
    meet(file, line, mask, watch_shuffle_complete);
    if (!(mask >> source & 1)) fail_and_stop("missing lane", 0, 0, "a shuffle reads a lane that is not in its mask");
    return threads[number_of(me) / 32 * 32 + source].slot[turn];
}

int emulator_launch(const Launch* what) {
    launch = what;
    failed = false;
    random_state = what->seed * 0x9e3779b97f4a7c15ull + 1;
    if (!random_state) random_state = 1;
    const Index grid = what->here->grid_size, size = what->here->block_size;
    count = size.x * size.y * size.z;
    threads.resize(count);
    queue.resize(count);  // here, since ThreadSanitizer would see a thread that enlarges it
    arrived.resize(count / 32);
    const unsigned long long blocks = 1ull * grid.x * grid.y * grid.z;
    std::vector<unsigned long long> order(what->seed ? blocks : 0);
    std::iota(order.begin(), order.end(), 0ull);
    for (size_t b = order.size(); b > 1; b--) std::swap(order[b - 1], order[random_below(b)]);
    watch_launch(count);
    for (unsigned long long n = first_block; n < blocks && n < end_block; n++) {
        const unsigned long long b = what->seed ? order[n] : n;
        what->here->block = {(unsigned)(b % grid.x), (unsigned)(b / grid.x % grid.y), (unsigned)(b / grid.x / grid.y)};
        if (!run_block()) break;
    }
    watch_launch_end();
    return failed;
}
}
