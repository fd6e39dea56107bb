// Between a compiled kernel file and the runtime: what a kernel calls, and what one launch consists of.
#pragma once

namespace emulator {

struct Index {
    unsigned x, y, z;
};

// What a kernel sees as threadIdx, blockIdx, blockDim and gridDim. The runtime rewrites it at every switch.
struct Here {
    Index thread, block, block_size, grid_size;
};

struct Launch {
    const char* name;
    void (*kernel)(void** arguments);  // unpacks the arguments and runs one CUDA thread to its end
    void** arguments;
    Here* here;
    char *shared_begin, *shared_end;  // all __shared__ variables of the file
    unsigned long long seed;          // 0: threads and blocks in order; otherwise shuffled
};

// What went wrong, for Python to turn into an exception.
struct Failure {
    char kind[32];
    Index block, thread;
    unsigned long long code, other_code;  // addresses of the instructions at fault, 0 if the text names the line
    char text[2048];
};

}  // namespace emulator

extern "C" {
void emulator_barrier(const char* file, int line);
void emulator_warp_barrier(const char* file, int line, unsigned mask);
unsigned long long emulator_exchange(
    const char* file, int line, unsigned mask, unsigned long long value, unsigned source);
unsigned emulator_lane();
int emulator_launch(const emulator::Launch* launch);  // 0, or 1 and emulator_failure says what happened
const emulator::Failure* emulator_failure();
// From now on launches run only the blocks first ... end - 1: a test can look at the far end of a grid that would take
// days, in which indices no longer fit 32 bits.
void emulator_only(unsigned long long first, unsigned long long end);
}
