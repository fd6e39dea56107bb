// Runs launches that were written to a file, without Python: a program of its own that a sanitizer can watch.
//
//     replay KERNELS.so LAUNCHES
//
// Each array is allocated with its exact size, so AddressSanitizer knows where it ends.
#include <dlfcn.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "runtime.h"

namespace {

// The layout is written by sanitizer.py.
struct Header {
    char kernel[64];
    emulator::Index grid, block;
    unsigned pieces, arguments;
    unsigned long long seed;
};
struct Argument {
    long long piece;  // -1: a number, or a null pointer
    unsigned long long value;  // the number, or where in the piece the array begins
};

[[noreturn]] void give_up(const char* why) {
    fprintf(stderr, "replay: %s\n", why);
    exit(3);
}

template <class T>
void read(FILE* file, T* into, size_t count) {
    if (count && fread(into, sizeof(T), count, file) != count) give_up("the file of launches ends too early");
}

void replay(FILE* file, const Header& header, void* kernels) {
    std::vector<char*> pieces(header.pieces);
    for (char*& piece : pieces) {
        unsigned long long bytes;
        read(file, &bytes, 1);
        piece = static_cast<char*>(malloc(bytes));
        read(file, piece, bytes);
    }
    std::vector<Argument> arguments(header.arguments);
    read(file, arguments.data(), arguments.size());
    std::vector<unsigned long long> values;
    std::vector<void*> addresses;
    for (const Argument& argument : arguments) {
        const char* array = argument.piece < 0 ? nullptr : pieces[argument.piece];
        values.push_back(reinterpret_cast<unsigned long long>(array) + argument.value);
    }
    for (unsigned long long& value : values) addresses.push_back(&value);
    const std::string door = std::string("emulator_run_") + header.kernel;
    const auto run = reinterpret_cast<int (*)(void**, const emulator::Index*, unsigned long long)>(
        dlsym(kernels, door.c_str()));
    if (!run) give_up(dlerror());
    const emulator::Index sizes[2] = {header.grid, header.block};
    fprintf(stderr, "replay: %s\n", header.kernel);
    if (run(addresses.data(), sizes, header.seed) != 0) {
        fprintf(stderr, "emulator: %s: %s\n", emulator_failure()->kind, emulator_failure()->text);
        exit(4);
    }
    for (char* piece : pieces) free(piece);
}

}  // namespace

int main(int count, char** words) {
    if (count != 3) give_up("usage: replay KERNELS.so LAUNCHES");
    void* kernels = dlopen(words[1], RTLD_NOW);
    if (!kernels) give_up(dlerror());
    FILE* file = fopen(words[2], "rb");
    if (!file) give_up("there is no such file of launches");
    Header header;
    while (fread(&header, sizeof header, 1, file) == 1) replay(file, header, kernels);
    fclose(file);
}
