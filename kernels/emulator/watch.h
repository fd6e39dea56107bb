// Where the runtime tells others what happens. By default nobody listens; a build with EMULATOR_CHECKED calls the
// checks, one with EMULATOR_TSAN tells ThreadSanitizer.
#pragma once
#include "runtime.h"

namespace emulator {

// What the runtime offers to those who listen
void fail(const char* kind, const Index& thread, unsigned long long code, unsigned long long other, const char* text);
void fail_and_stop(const char* kind, unsigned long long code, unsigned long long other, const char* text);
unsigned current_thread();
const Launch* current_launch();
bool on_my_stack(const void* address);

#if defined(EMULATOR_CHECKED) || defined(EMULATOR_TSAN)
#define EMULATOR_WATCH(declaration) declaration;
#else
#define EMULATOR_WATCH(declaration) inline declaration {}
#endif
#ifdef EMULATOR_TSAN
constexpr bool one_stack_per_thread = true;
#else
constexpr bool one_stack_per_thread = false;
#endif

EMULATOR_WATCH(void watch_launch(unsigned /*threads*/))
EMULATOR_WATCH(void watch_block(unsigned /*threads*/))
EMULATOR_WATCH(void watch_switch(unsigned /*thread*/))  // before the switch to a thread
EMULATOR_WATCH(void watch_switch_outside())         // before the switch back to the caller
EMULATOR_WATCH(void watch_begin())                  // first and last thing a thread does
EMULATOR_WATCH(void watch_end())
EMULATOR_WATCH(void watch_barrier_arrive())
EMULATOR_WATCH(void watch_barrier_complete())  // all have arrived, none has gone on
EMULATOR_WATCH(void watch_barrier_pass())
EMULATOR_WATCH(void watch_warp_arrive())  // the same for __syncwarp
EMULATOR_WATCH(void watch_warp_complete())
EMULATOR_WATCH(void watch_warp_pass())
EMULATOR_WATCH(void watch_shuffle_complete())
EMULATOR_WATCH(void watch_block_end())
EMULATOR_WATCH(void watch_launch_end())

}  // namespace emulator
