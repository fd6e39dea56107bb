// What Python gives to a checked launch, and what it gets back. The fields are mirrored in checked.py.
#pragma once

namespace emulator {

// An array of the launch, or a __shared__ variable (then `begin` counts from the start of the section).
struct Region {
    unsigned long long begin, bytes;
    int element_bytes;
    int writable;
    char name[64];
};

// One access of a warp is what its lanes do at one instruction at the same time.
struct Counters {
    long long global_loads, global_stores;              // accesses of threads
    long long load_lines, load_lines_ideal;             // 128-byte lines that the warps' accesses touch,
    long long store_lines, store_lines_ideal;           // and how few could hold the same bytes
    long long shared_loads, shared_stores;              // accesses of threads
    long long shared_waves, shared_waves_ideal;         // turns that the 32 banks need; more than ideal are conflicts
    long long atomics, barriers, warp_barriers, shuffles;  // atomics of threads, barriers of blocks, the rest of warps
    long long uncoalesced_code, conflicting_code;  // the instructions that waste the most lines and turns; 0: none does
};

}  // namespace emulator

extern "C" {
void emulator_check(const emulator::Region* arrays, int n_arrays, const emulator::Region* shared, int n_shared);
const emulator::Counters* emulator_counters();
}
