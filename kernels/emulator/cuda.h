// The part of CUDA C that the kernels use, for an ordinary C++ compiler. Put before the text of a .cu file.
//
// A CUDA thread is a fiber; a barrier or a shuffle is a call into the runtime, which lets the other threads run.
// __shared__ variables are statics in a section of their own: one block runs at a time, so one copy is enough. For the
// same reason a __device__ function with a __shared__ variable must not be `inline` or a template.
#pragma once
#include <cmath>
#include <cstring>
#include <type_traits>
#include <utility>

#include "runtime.h"

static emulator::Here emulator_here;
#define threadIdx emulator_here.thread
#define blockIdx emulator_here.block
#define blockDim emulator_here.block_size
#define gridDim emulator_here.grid_size
#define warpSize 32

#define __global__
#define __device__ __attribute__((unused))
#define __host__
#define __constant__
#define __forceinline__ inline __attribute__((always_inline))
#define __noinline__ __attribute__((noinline))
#define __launch_bounds__(...)
#define __align__(bytes) __attribute__((aligned(bytes)))

// A gap before each variable, so that an index just outside one does not land in another.
#define EMULATOR_JOIN(a, b) a##b
#define EMULATOR_GAP(number) EMULATOR_JOIN(emulator_gap_, number)
#define EMULATOR_SHARED static __attribute__((section("emulator_shared"), used, aligned(16)))
#define __shared__                               \
    EMULATOR_SHARED char EMULATOR_GAP(__COUNTER__)[256]; \
    EMULATOR_SHARED

#define __syncthreads() emulator_barrier(__FILE__, __LINE__)
#define __syncwarp(...) emulator_warp_barrier(__FILE__, __LINE__, emulator::mask(__VA_ARGS__))
#define __shfl_sync(mask, value, ...) \
    emulator::exchange(__FILE__, __LINE__, mask, value, emulator::from_lane(__VA_ARGS__))
#define __shfl_xor_sync(mask, value, ...) \
    emulator::exchange(__FILE__, __LINE__, mask, value, emulator::from_partner(__VA_ARGS__))
#define __shfl_down_sync(mask, value, ...) \
    emulator::exchange(__FILE__, __LINE__, mask, value, emulator::from_above(__VA_ARGS__))
#define __shfl_up_sync(mask, value, ...) \
    emulator::exchange(__FILE__, __LINE__, mask, value, emulator::from_below(__VA_ARGS__))

namespace emulator {

inline unsigned mask(unsigned lanes = 0xffffffffu) { return lanes; }

// The lane to read from, for each kind of shuffle. `width` cuts the warp into sections that do not see each other.
inline unsigned from_lane(int source, int width = 32) {
    return (emulator_lane() & ~(width - 1)) | (source & (width - 1));
}
inline unsigned from_partner(int bits, int width = 32) {
    const unsigned lane = emulator_lane(), source = lane ^ bits;
    return (source & ~(width - 1)) <= (lane & ~(width - 1)) ? source : lane;
}
inline unsigned from_above(unsigned delta, int width = 32) {
    const unsigned lane = emulator_lane();
    return (lane & (width - 1)) + delta < (unsigned)width ? lane + delta : lane;
}
inline unsigned from_below(unsigned delta, int width = 32) {
    const unsigned lane = emulator_lane();
    return (lane & (width - 1)) >= delta ? lane - delta : lane;
}

template <class T>
inline T exchange(const char* file, int line, unsigned mask, T value, unsigned source) {
    static_assert(sizeof(T) <= 8, "a shuffle moves at most 8 bytes");
    unsigned long long bits = 0;
    memcpy(&bits, &value, sizeof value);
    bits = emulator_exchange(file, line, mask, bits, source);
    memcpy(&value, &bits, sizeof value);
    return value;
}

// Calls the kernel with arguments given by address, as the CUDA driver does.
template <auto kernel>
struct Call;
template <class... Arguments, void (*kernel)(Arguments...)>
struct Call<kernel> {
    template <size_t... n>
    __attribute__((no_sanitize("thread"))) static void unpack(void** arguments, std::index_sequence<n...>) {
        kernel(*static_cast<std::remove_cv_t<Arguments>*>(arguments[n])...);
    }
    __attribute__((no_sanitize("thread"))) static void run(void** arguments) {
        unpack(arguments, std::index_sequence_for<Arguments...>());
    }
};

}  // namespace emulator

// Bits and numbers
inline double __longlong_as_double(long long bits) { double x; memcpy(&x, &bits, 8); return x; }
inline long long __double_as_longlong(double x) { long long bits; memcpy(&bits, &x, 8); return bits; }
inline float __int_as_float(int bits) { float x; memcpy(&x, &bits, 4); return x; }
inline int __float_as_int(float x) { int bits; memcpy(&bits, &x, 4); return bits; }
inline unsigned __float_as_uint(float x) { unsigned bits; memcpy(&bits, &x, 4); return bits; }
inline float __uint_as_float(unsigned bits) { float x; memcpy(&x, &bits, 4); return x; }
inline unsigned __umulhi(unsigned a, unsigned b) { return (unsigned long long)a * b >> 32; }
inline unsigned long long __umul64hi(unsigned long long a, unsigned long long b) {
    return (unsigned __int128)a * b >> 64;
}
inline int __popc(unsigned x) { return __builtin_popcount(x); }

// CUDA offers these overloads without a header; std's are exact, and so is the plain division here.
using std::abs, std::ceil, std::erf, std::erfc, std::exp, std::exp2, std::expm1, std::fabs, std::floor, std::fma;
using std::fmax, std::fmin, std::isfinite, std::isinf, std::isnan, std::log, std::log1p, std::log2, std::pow;
using std::copysign, std::rint, std::round, std::sqrt, std::tanh, std::trunc;
inline float rsqrt(float x) { return 1.0f / std::sqrt(x); }
inline double rsqrt(double x) { return 1.0 / std::sqrt(x); }
inline double cospi(double x) { return std::cos(x * 3.141592653589793); }
inline double sinpi(double x) { return std::sin(x * 3.141592653589793); }
inline float rsqrtf(float x) { return 1.0f / std::sqrt(x); }
template <class A, class B>
inline std::common_type_t<A, B> max(A a, B b) {
    using T = std::common_type_t<A, B>;
    if constexpr (std::is_floating_point_v<T>) return std::fmax((T)a, (T)b);
    else return (T)a > (T)b ? (T)a : (T)b;
}
template <class A, class B>
inline std::common_type_t<A, B> min(A a, B b) {
    using T = std::common_type_t<A, B>;
    if constexpr (std::is_floating_point_v<T>) return std::fmin((T)a, (T)b);
    else return (T)a < (T)b ? (T)a : (T)b;
}

// Atomics on integers; each returns the value before.
template <class T, class V>
inline T atomicAdd(T* target, V value) {
    static_assert(std::is_integral_v<T>, "no atomics on floats: their sum would depend on the order of the threads");
    return __atomic_fetch_add(target, (T)value, __ATOMIC_RELAXED);
}
template <class T, class V>
inline T atomicOr(T* target, V value) { return __atomic_fetch_or(target, (T)value, __ATOMIC_RELAXED); }
template <class T, class V>
inline T atomicXor(T* target, V value) { return __atomic_fetch_xor(target, (T)value, __ATOMIC_RELAXED); }
template <class T, class V>
inline T atomicExch(T* target, V value) { return __atomic_exchange_n(target, (T)value, __ATOMIC_RELAXED); }
template <class T, class V, class W>
inline T atomicCAS(T* target, V expected, W value) {
    T old = (T)expected;
    __atomic_compare_exchange_n(target, &old, (T)value, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
    return old;
}
template <class T, class V>
inline T atomicMax(T* target, V value) {
    T old = __atomic_load_n(target, __ATOMIC_RELAXED);
    while (old < (T)value
           && !__atomic_compare_exchange_n(target, &old, (T)value, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {}
    return old;
}
template <class T, class V>
inline T atomicMin(T* target, V value) {
    T old = __atomic_load_n(target, __ATOMIC_RELAXED);
    while ((T)value < old
           && !__atomic_compare_exchange_n(target, &old, (T)value, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {}
    return old;
}

extern char emulator_shared_begin[] __asm__("__start_emulator_shared") __attribute__((weak, visibility("hidden")));
extern char emulator_shared_end[] __asm__("__stop_emulator_shared") __attribute__((weak, visibility("hidden")));

// One line of these per kernel follows the text of the file: the entry point that Python calls.
#define EMULATOR_KERNEL(name)                                                                                       \
    extern "C" __attribute__((visibility("default"), no_sanitize("thread"))) int emulator_run_##name(               \
        void** arguments, const emulator::Index* sizes, unsigned long long seed) {                                  \
        emulator_here.grid_size = sizes[0];                                                                         \
        emulator_here.block_size = sizes[1];                                                                        \
        const emulator::Launch launch = {#name, emulator::Call<name>::run, arguments, &emulator_here,               \
                                         emulator_shared_begin, emulator_shared_end, seed};                         \
        return emulator_launch(&launch);                                                                            \
    }
