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

    struct Waste {  // of one instruction: lines and turns beyond what the same bytes need
        unsigned long long code;
        long long lines, waves;
    };

    Counters* counters;
    std::unordered_map<unsigned long long, unsigned> instructions;
    std::vector<Waste> wasted;  // per instruction
    long long most_lines, most_waves;
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

    void count(const Group& group, unsigned instruction) {
        Waste& waste = wasted[instruction];
        long long actual = 0, ideal = 0;
        if (group.shared) {
            count_waves(group, actual, ideal);
            counters->shared_waves += actual;
            counters->shared_waves_ideal += ideal;
            waste.waves += actual - ideal;
            if (waste.waves > most_waves) most_waves = waste.waves, counters->conflicting_code = waste.code;
            return;
        }
        count_lines(group, actual, ideal);
        (group.writes ? counters->store_lines : counters->load_lines) += actual;
        (group.writes ? counters->store_lines_ideal : counters->load_lines_ideal) += ideal;
        waste.lines += actual - ideal;
        if (waste.lines > most_lines) most_lines = waste.lines, counters->uncoalesced_code = waste.code;
    }

public:
    void begin(unsigned threads, Counters* into) {
        counters = into;
        visits.assign(threads, {});
        warps.assign(threads / 32, {});
        for (Waste& waste : wasted) waste.lines = waste.waves = 0;
        most_lines = most_waves = 0;
    }

    void add(unsigned thread, unsigned long long code, unsigned long long address, int size, bool writes, bool shared) {
        const unsigned instruction = instructions.emplace(code, instructions.size()).first->second;
        if (wasted.size() <= instruction) wasted.push_back({code, 0, 0});
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
            count(group, instruction);
            warp.open.erase(key);
        }
    }

    void settle_warp(unsigned warp) {
        for (auto& [key, group] : warps[warp].open) count(group, key >> 32);
        warps[warp].open.clear();
        warps[warp].epoch++;
    }

    void settle() {
        for (unsigned warp = 0; warp < warps.size(); warp++) settle_warp(warp);
    }
};

}  // namespace emulator
