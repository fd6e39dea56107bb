// Looks at every access to memory that a kernel makes, while it makes it.
//
// The kernels are compiled with -fsanitize=thread, but not linked to ThreadSanitizer: the calls that the compiler puts
// before each access come here (hooks.cpp). Checked are
//   bounds          each access lies inside one array of the launch or one __shared__ variable, and leaves const alone
//   initialisation  no byte of shared memory is read before this block wrote it
//   races           two threads touch the same bytes, at least one writes, not both are atomic, no barrier is between
// An instruction is known by its address; the line of the source is looked up only when there is something to report.
#include "checks.h"

#include <dlfcn.h>

#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

#include "traffic.h"
#include "watch.h"

namespace emulator {
namespace {

// Who touched a byte last, and when. `phase` counts the barriers of the block, `warp_phase` the warp's __syncwarps.
struct Touch {
    unsigned block, thread, phase, warp_phase;  // block counts from 1; 0 means nobody
    bool atomic;
    unsigned long long code;
};

// The last write and some reads: the last one, one by another lane of its warp, one by another warp. Whoever writes
// next, one of the three is by somebody else whom no barrier separates, if there is such a read at all.
struct Cell {
    Touch write, read, same_warp, other_warp;
};

struct Memory {
    Region region;
    std::vector<Cell> cells;    // one for 4 bytes: kernels have no smaller numbers
    std::vector<char> written;  // shared memory only, byte by byte
};

std::vector<Memory> arrays, shared;
unsigned blocks, phase;
std::vector<unsigned> warp_phase;
Traffic traffic;
Counters counters;
const void* kernel_image;  // the library of the kernel

Memory* containing(std::vector<Memory>& all, unsigned long long address) {
    for (Memory& memory : all)
        if (address - memory.region.begin < memory.region.bytes) return &memory;
    return nullptr;
}

// "0 bytes after the end of x": the nearest region tells what the index was meant for.
std::string nearest(const std::vector<Memory>& all, unsigned long long address) {
    unsigned long long best = ~0ull;
    std::string text = "far from every array";
    for (const Memory& memory : all) {
        const Region& r = memory.region;
        const bool after = address >= r.begin + r.bytes;
        const unsigned long long distance = after ? address - r.begin - r.bytes : r.begin - address;
        if (distance >= best || distance > (1 << 20)) continue;
        best = distance;
        const long long element = ((long long)address - (long long)r.begin) / r.element_bytes;
        text = after ? "element " + std::to_string(element) + " of " + r.name + ", which has "
                           + std::to_string(r.bytes / r.element_bytes)
                     : std::to_string(distance) + " bytes before the start of " + r.name;
    }
    return text;
}

bool ordered(const Touch& earlier, const Touch& now) {
    if (!earlier.block) return true;
    if (earlier.block != now.block) return false;
    if (earlier.thread == now.thread || earlier.phase < now.phase) return true;
    return earlier.thread / 32 == now.thread / 32 && earlier.warp_phase < now.warp_phase;
}

void race(const Memory& memory, const Touch& earlier, const Touch& now, bool writes, bool wrote, long long offset) {
    const bool apart = earlier.block != now.block;
    std::string text = std::string(writes ? "writes" : "reads") + " element "
                       + std::to_string(offset / memory.region.element_bytes) + " of " + memory.region.name + ", which "
                       + (apart ? "another block" : "thread number " + std::to_string(earlier.thread) + " of the block")
                       + (wrote ? " wrote" : " read") + (apart ? "" : " with no barrier in between");
    fail_and_stop("race", now.code, earlier.code, text.c_str());
}

void check_races(Memory& memory, const Touch& now, bool writes, long long offset, Cell& cell) {
    if (!ordered(cell.write, now) && !(cell.write.atomic && now.atomic))
        race(memory, cell.write, now, writes, true, offset);
    if (writes) {
        for (const Touch* read : {&cell.read, &cell.same_warp, &cell.other_warp})
            if (!ordered(*read, now) && !(read->atomic && now.atomic)) race(memory, *read, now, true, false, offset);
        cell.write = now;
    } else {
        if (cell.read.block != now.block || cell.read.thread / 32 != now.thread / 32) {
            cell.other_warp = cell.read;
            cell.same_warp = {};
        } else if (cell.read.thread != now.thread) {
            cell.same_warp = cell.read;
        }
        cell.read = now;
    }
}

bool belongs_to_kernel(const void* address) {
    Dl_info info;
    return dladdr(address, &info) && info.dli_fbase == kernel_image;
}

void outside(const std::vector<Memory>& all, const char* what, unsigned long long address, int size, bool writes,
             unsigned long long code) {
    const std::string text = std::string(writes ? "writes " : "reads ") + std::to_string(size) + " bytes outside "
                             + what + ": " + nearest(all, address);
    fail_and_stop("out of bounds", code, 0, text.c_str());
}

void check_cells(Memory& memory, unsigned long long first, int size, bool writes, bool atomic,
                 unsigned long long code) {
    const unsigned thread = current_thread();
    const Touch now = {blocks, thread, phase, warp_phase[thread / 32], atomic, code};
    for (unsigned long long cell = first / 4; cell <= (first + size - 1) / 4; cell++)
        check_races(memory, now, writes, first, memory.cells[cell]);
}

void shared_access(unsigned long long offset, int size, bool reads, bool writes, bool atomic, unsigned long long code) {
    Memory* memory = containing(shared, offset);
    if (!memory || offset + size > memory->region.begin + memory->region.bytes)
        outside(shared, "every __shared__ variable", offset, size, writes, code);
    const unsigned long long first = offset - memory->region.begin;
    if (reads && memchr(&memory->written[first], 0, size))
        fail_and_stop("uninitialised read", code, 0,
                      ("reads element " + std::to_string(first / memory->region.element_bytes) + " of __shared__ "
                       + memory->region.name + " before anyone in the block wrote it").c_str());
    if (writes) memset(&memory->written[first], 1, size);
    check_cells(*memory, first, size, writes, atomic, code);
    (writes ? counters.shared_stores : counters.shared_loads)++;
}

void array_access(unsigned long long address, int size, bool writes, bool atomic, unsigned long long code) {
    Memory* memory = containing(arrays, address);
    if (!memory || address + size > memory->region.begin + memory->region.bytes) {
        if (!memory && !writes && belongs_to_kernel(reinterpret_cast<void*>(address))) return;  // a table of constants
        outside(arrays, "every array of the launch", address, size, writes, code);
    }
    if (writes && !memory->region.writable)
        fail_and_stop("write to const", code, 0,
                      (std::string("writes to ") + memory->region.name + ", which the kernel declares const").c_str());
    check_cells(*memory, address - memory->region.begin, size, writes, atomic, code);
    (writes ? counters.global_stores : counters.global_loads)++;
}

}  // namespace

void access(const void* where, int size, bool reads, bool writes, bool atomic, void* return_address) {
    const Launch* launch = current_launch();
    const char* byte = static_cast<const char*>(where);
    const char* here = reinterpret_cast<const char*>(launch->here);
    if (on_my_stack(where) || (byte >= here && byte < here + sizeof *launch->here)) return;
    const unsigned long long code = reinterpret_cast<unsigned long long>(return_address) - 1;  // inside the call
    const unsigned long long address = reinterpret_cast<unsigned long long>(where);
    const bool in_shared = byte >= launch->shared_begin && byte < launch->shared_end;
    if (in_shared) shared_access(byte - launch->shared_begin, size, reads, writes, atomic, code);
    else array_access(address, size, writes, atomic, code);
    const unsigned long long place = in_shared ? byte - launch->shared_begin : address;
    if (atomic) counters.atomics++;
    else traffic.add(current_thread(), code, place, size, writes, in_shared);
}

void watch_launch(unsigned threads) {
    blocks = 0;
    counters = {};
    traffic.begin(threads, &counters);
    Dl_info info;
    dladdr(reinterpret_cast<void*>(current_launch()->kernel), &info);
    kernel_image = info.dli_fbase;
}

void watch_block(unsigned threads) {
    blocks++;
    phase = 0;
    warp_phase.assign(threads / 32, 0);
    for (Memory& memory : shared) {
        std::fill(memory.cells.begin(), memory.cells.end(), Cell{});
        std::fill(memory.written.begin(), memory.written.end(), 0);
    }
}

void watch_barrier_complete() {
    phase++;
    counters.barriers++;
    traffic.settle();
}

void watch_warp_complete() {
    warp_phase[current_thread() / 32]++;
    counters.warp_barriers++;
    traffic.settle_warp(current_thread() / 32);
}

void watch_shuffle_complete() {
    counters.shuffles++;
    traffic.settle_warp(current_thread() / 32);
}

void watch_block_end() { traffic.settle(); }
void watch_switch(unsigned) {}
void watch_switch_outside() {}
void watch_begin() {}
void watch_end() {}
void watch_barrier_arrive() {}
void watch_barrier_pass() {}
void watch_warp_arrive() {}
void watch_warp_pass() {}
void watch_launch_end() {}

}  // namespace emulator

using namespace emulator;

extern "C" {

void emulator_check(const Region* given, int n_arrays, const Region* variables, int n_shared) {
    arrays.clear();
    shared.clear();
    for (int n = 0; n < n_arrays; n++) arrays.push_back({given[n], std::vector<Cell>((given[n].bytes + 3) / 4), {}});
    for (int n = 0; n < n_shared; n++)
        shared.push_back(
            {variables[n], std::vector<Cell>((variables[n].bytes + 3) / 4), std::vector<char>(variables[n].bytes)});
}

const Counters* emulator_counters() { return &counters; }
}
