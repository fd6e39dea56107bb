// Counts what the memory of a GPU would see: lines of global memory and turns of the shared-memory banks, warp by warp.
//
// A GPU runs the 32 lanes of a warp together, so one load instruction is one access of the whole warp. Here the lanes
// run one after another; accesses are put together again by instruction and by how often a lane has come there since
// the last barrier or shuffle, where the lanes meet. For loops that all lanes enter together this is what a GPU does;
// when lanes of a warp take different branches in between, it is an approximation.
#pragma once
#include <algorithm>
#include <unordered_map>
#include <vector>

#include "checks.h"

namespace emulator {

class Traffic {
    struct Group {
        unsigned long long address[32];
        unsigned lanes;  // a bit for each that takes part
        int size;
        bool writes, shared;
    };
    struct Visits {
        unsigned epoch, count;
    };
    struct Warp {
        unsigned epoch;
        std::unordered_map<unsigned long long, Group> open;
    };

    Counters* counters;
    std::unordered_map<unsigned long long, unsigned> instructions;
    std::vector<std::vector<Visits>> visits;  // per thread and instruction
    std::vector<Warp> warps;

    // Distinct 128-byte lines, and how many would do for that many distinct bytes.
    static void count_lines(const Group& group, long long& actual, long long& ideal) {
        std::vector<unsigned long long> addresses, lines;
        for (int lane = 0; lane < 32; lane++)
            if (group.lanes >> lane & 1) addresses.push_back(group.address[lane]);
        std::sort(addresses.begin(), addresses.end());
        addresses.erase(std::unique(addresses.begin(), addresses.end()), addresses.end());
        for (unsigned long long address : addresses)
            for (unsigned long long line = address / 128; line <= (address + group.size - 1) / 128; line++)
                if (lines.empty() || lines.back() != line) lines.push_back(line);
        actual += lines.size();
        ideal += (addresses.size() * group.size + 127) / 128;
    }

    // 32 banks, each 4 bytes wide. Lanes that read the same word share it; different words of one bank take turns.
    // Numbers of 8 bytes are served half a warp at a time.
    static void count_waves(const Group& group, long long& actual, long long& ideal) {
        const int together = group.size <= 4 ? 32 : 128 / group.size;
        for (int first = 0; first < 32; first += together) {
            std::vector<unsigned long long> words;
            for (int lane = first; lane < first + together; lane++)
                if (group.lanes >> lane & 1)
                    for (int byte = 0; byte < group.size; byte += 4) words.push_back((group.address[lane] + byte) / 4);
            if (words.empty()) continue;
            std::sort(words.begin(), words.end());
            words.erase(std::unique(words.begin(), words.end()), words.end());
            int turns[32] = {};
            for (unsigned long long word : words) turns[word % 32]++;
            actual += *std::max_element(turns, turns + 32);
            ideal++;
        }
    }

    void count(const Group& group) {
        if (group.shared) count_waves(group, counters->shared_waves, counters->shared_waves_ideal);
        else if (group.writes) count_lines(group, counters->store_lines, counters->store_lines_ideal);
        else count_lines(group, counters->load_lines, counters->load_lines_ideal);
    }

public:
    void begin(unsigned threads, Counters* into) {
        counters = into;
        visits.assign(threads, {});
        warps.assign(threads / 32, {});
    }

    void add(unsigned thread, unsigned long long code, unsigned long long address, int size, bool writes, bool shared) {
        const unsigned instruction = instructions.emplace(code, instructions.size()).first->second;
        std::vector<Visits>& mine = visits[thread];
        Warp& warp = warps[thread / 32];
        if (mine.size() <= instruction) mine.resize(instruction + 1, {~0u, 0});
        Visits& here = mine[instruction];
        if (here.epoch != warp.epoch) here = {warp.epoch, 0};
        const unsigned long long key = (unsigned long long)instruction << 32 | here.count++;
        Group& group = warp.open.try_emplace(key, Group{{}, 0, size, writes, shared}).first->second;
        group.address[thread % 32] = address;
        group.lanes |= 1u << thread % 32;
        if (group.lanes == ~0u) {
            count(group);
            warp.open.erase(key);
        }
    }

    void settle_warp(unsigned warp) {
        for (auto& [key, group] : warps[warp].open) count(group);
        warps[warp].open.clear();
        warps[warp].epoch++;
    }

    void settle() {
        for (unsigned warp = 0; warp < warps.size(); warp++) settle_warp(warp);
    }
};

}  // namespace emulator
