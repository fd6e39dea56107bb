// A CUDA thread as the scheduler sees it, and words for where threads are when one of them waits in vain.
#pragma once
#include <cstring>
#include <string>
#include <vector>

#include "fibers.h"
#include "runtime.h"

namespace emulator {

enum State : char { runnable, at_barrier, at_shuffle, done };

struct Thread {
    Fiber* fiber;  // nullptr until it begins
    State state;
    unsigned char turn;  // which of the two slots the next shuffle uses
    const char* file;    // where it waits
    int line;
    unsigned mask;
    Index index;
    unsigned long long slot[2];
};

inline bool same_place(const Thread& a, const Thread& b) { return a.line == b.line && !strcmp(a.file, b.file); }

inline std::string place(const Thread& thread) {
    if (thread.state == done) return "have ended";
    if (thread.state == runnable) return "could go on";
    const std::string what = thread.state == at_barrier ? "__syncthreads" : "a shuffle or __syncwarp";
    return "wait at " + what + " in " + thread.file + ":" + std::to_string(thread.line);
}

// One clause for each place: how many are there, and who is the first.
inline std::string who_is_where(const Thread* first, const Thread* last) {
    struct Place {
        std::string name;
        int count;
        Index first;
    };
    std::vector<Place> places;
    for (const Thread* thread = first; thread < last; thread++) {
        const std::string here = place(*thread);
        size_t p = 0;
        while (p < places.size() && places[p].name != here) p++;
        if (p == places.size()) places.push_back({here, 0, thread->index});
        places[p].count++;
    }
    std::string text;
    for (const Place& p : places)
        text += (text.empty() ? "" : "; ") + std::to_string(p.count) + " threads " + p.name + " (the first is ("
                + std::to_string(p.first.x) + ", " + std::to_string(p.first.y) + ", " + std::to_string(p.first.z)
                + "))";
    return text;
}

}  // namespace emulator
