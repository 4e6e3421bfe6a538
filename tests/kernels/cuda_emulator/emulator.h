// CUDA C++ on a CPU, for tests: the words of the language, and what device.cuh gives on a device. How it runs is scheduler.h's.
//
// What a GPU leaves undefined is an error here where that is cheap to see: a misaligned vector, a load outside the memory a
// launch was given, lanes that meet in different operations, a warp that cannot go on, a thread of a dependent launch that stores
// before it has waited or never waits.
#pragma once

#include "scheduler.h"

#include <cmath>
#include <cstdint>
#include <type_traits>

#define __global__
#define __device__
#define __host__
#define __constant__
#define __forceinline__ inline
#define __launch_bounds__(...)
#define __grid_constant__
#define __align__(bytes) __attribute__((aligned(bytes)))
#define __shared__ thread_local  // a block has a thread of its own; inside a function this is static as well

#define threadIdx (emulator::current->index)
#define blockIdx (emulator::current->block->index)
#define blockDim (emulator::current->block->launch.block)
#define gridDim (emulator::current->block->launch.grid)
constexpr int warpSize = 32;

// ---- Vectors ----

template <class T>
struct alignas(2 * sizeof(T)) Vector2 {
    T x, y;
};
template <class T>
struct alignas(sizeof(T) == 8 ? 16 : 4 * sizeof(T)) Vector4 {
    T x, y, z, w;
};
using uint2 = Vector2<unsigned>;
using uint4 = Vector4<unsigned>;
using float2 = Vector2<float>;
using float4 = Vector4<float>;
inline uint2 make_uint2(unsigned x, unsigned y) { return {x, y}; }
inline uint4 make_uint4(unsigned x, unsigned y, unsigned z, unsigned w) { return {x, y, z, w}; }
inline float2 make_float2(float x, float y) { return {x, y}; }
inline float4 make_float4(float x, float y, float z, float w) { return {x, y, z, w}; }

// ---- Numbers ----

inline unsigned __float_as_uint(float v) { return emulator::bits<unsigned>(v); }
inline int __float_as_int(float v) { return emulator::bits<int>(v); }
inline float __uint_as_float(unsigned v) { return emulator::bits<float>(v); }
inline float __int_as_float(int v) { return emulator::bits<float>(v); }
#define rsqrtf emulated_rsqrtf  // a name that newer C libraries have themselves
inline float rsqrtf(float v) { return 1.0f / std::sqrt(v); }
inline float __expf(float v) { return std::exp(v); }
inline float __fdividef(float a, float b) { return a / b; }
inline float __frcp_rn(float v) { return 1.0f / v; }
inline float __fdiv_rn(float a, float b) { return a / b; }
inline float __fadd_rn(float a, float b) { return a + b; }
inline float __fmul_rn(float a, float b) { return a * b; }
inline float __fmaf_rn(float a, float b, float c) { return std::fma(a, b, c); }
inline unsigned __byte_perm(unsigned a, unsigned b, unsigned selector) {
    uint64_t bytes = uint64_t{b} << 32 | a;
    unsigned v = 0;
    for (unsigned i = 0; i < 4; i++) v |= static_cast<unsigned>(bytes >> (selector >> 4 * i & 7) * 8 & 0xff) << 8 * i;
    return v;
}
inline unsigned __umulhi(unsigned a, unsigned b) { return static_cast<unsigned>(uint64_t{a} * b >> 32); }
template <class A, class B>
std::common_type_t<A, B> min(A a, B b) {
    return b < a ? b : a;
}
template <class A, class B>
std::common_type_t<A, B> max(A a, B b) {
    return a < b ? b : a;
}

// ---- Within a block and a warp ----

constexpr unsigned ALL_LANES = 0xffffffffu;

inline void __syncthreads() { emulator::barrier(); }
inline void __syncwarp(unsigned mask = ALL_LANES) { emulator::exchange("__syncwarp", mask, {}); }

template <class T>
T __shfl_sync(unsigned mask, T v, int source, int width = 32) {
    unsigned lane = emulator::lane();
    return emulator::value_of<T>("__shfl_sync", mask, v, (lane & -width) | (source & (width - 1)));
}
template <class T>
T __shfl_xor_sync(unsigned mask, T v, int bits, int width = 32) {
    unsigned lane = emulator::lane(), source = lane ^ bits;
    return emulator::value_of<T>("__shfl_xor_sync", mask, v, source < (lane & -width) + width ? source : lane);
}
template <class T>
T __shfl_down_sync(unsigned mask, T v, unsigned distance, int width = 32) {
    unsigned lane = emulator::lane(), source = lane + distance;
    return emulator::value_of<T>("__shfl_down_sync", mask, v, source < (lane & -width) + width ? source : lane);
}
template <class T>
T __shfl_up_sync(unsigned mask, T v, unsigned distance, int width = 32) {
    unsigned lane = emulator::lane();
    bool inside = (lane & (width - 1)) >= distance;
    return emulator::value_of<T>("__shfl_up_sync", mask, v, inside ? lane - distance : lane);
}
inline int emulated_reduction(const char* operation, unsigned mask, int v, int (*both)(int, int)) {
    const emulator::Words* all = emulator::exchange(operation, mask, {static_cast<unsigned>(v)});
    for (unsigned lane = 0; lane < 32; lane++)
        if ((mask >> lane & 1) && lane != emulator::lane()) v = both(v, static_cast<int>(all[lane][0]));
    return v;
}
inline int __reduce_add_sync(unsigned mask, int v) {
    return emulated_reduction("__reduce_add_sync", mask, v, [](int a, int b) { return a + b; });
}
inline int __reduce_min_sync(unsigned mask, int v) {
    return emulated_reduction("__reduce_min_sync", mask, v, [](int a, int b) { return min(a, b); });
}

// ---- Global memory ----

template <class T>
T emulated_load(const void* p) {
    emulator::check_address(p, sizeof(T));
    return *static_cast<const T*>(p);
}
template <class T>
void emulated_store(void* p, T v) {
    emulator::check_address(p, sizeof(T));
    emulator::check_waited("stored before it had waited");
    *static_cast<T*>(p) = v;
}
inline unsigned char ld_cg_u8(const void* p) { return emulated_load<unsigned char>(p); }
inline unsigned short ld_cg_u16(const void* p) { return emulated_load<unsigned short>(p); }
inline unsigned ld_cg_u32(const void* p) { return emulated_load<unsigned>(p); }
inline uint2 ld_cg_v2(const void* p) { return emulated_load<uint2>(p); }
inline uint4 ld_cg_v4(const void* p) { return emulated_load<uint4>(p); }
inline void ld_cg_v4_if(uint4& v, const void* p, bool wanted) {
    if (wanted) v = emulated_load<uint4>(p);
}
inline void st_cg_u32(void* p, unsigned v) { emulated_store(p, v); }
inline void st_cg_v4(void* p, uint4 v) { emulated_store(p, v); }

// Every launch is alone, so nothing is waited for; that it would be is remembered.
inline void gdc_wait() { emulator::current->waited = true; }
inline void gdc_launch_dependents() {}

// ---- Bfloat16 ----

inline float bf16_lo(unsigned packed) { return __uint_as_float(packed << 16); }
inline float bf16_hi(unsigned packed) { return __uint_as_float(packed & 0xffff0000u); }
inline unsigned emulated_bf16(float v) {
    unsigned word = __float_as_uint(v);
    return v != v ? 0x7fffu : (word + 0x7fffu + (word >> 16 & 1)) >> 16;
}
inline unsigned pack_bf16(float lo, float hi) { return emulated_bf16(hi) << 16 | emulated_bf16(lo); }

// A product is exact in float32. A sum is rounded to float32 first, which matters once in 65,536 times.
inline unsigned mul_bf16x2(unsigned a, unsigned b) {
    return pack_bf16(bf16_lo(a) * bf16_lo(b), bf16_hi(a) * bf16_hi(b));
}
inline unsigned fma_bf16x2(unsigned a, unsigned b, unsigned c) {
    return pack_bf16(std::fma(bf16_lo(a), bf16_lo(b), bf16_lo(c)), std::fma(bf16_hi(a), bf16_hi(b), bf16_hi(c)));
}

inline unsigned transpose_bf16(unsigned pair) {
    const emulator::Words* all = emulator::exchange("transpose_bf16", ALL_LANES, {pair});
    unsigned row = emulator::lane() / 4, column = emulator::lane() % 4 * 2;
    auto element = [&](unsigned i, unsigned j) { return all[4 * i + j / 2][0] >> j % 2 * 16 & 0xffffu; };
    return element(column, row) | element(column + 1, row) << 16;
}

// The fragments are described in device.cuh. Sums are float64 and rounded once; a device's order of terms is its own.
inline void mma_bf16(float (&d)[4], unsigned a0, unsigned a1, unsigned a2, unsigned a3, unsigned b0, unsigned b1) {
    const emulator::Words* all = emulator::exchange("mma_bf16", ALL_LANES, {a0, a1, a2, a3, b0, b1});
    unsigned group = emulator::lane() / 4, pair = emulator::lane() % 4;
    auto element = [&](unsigned lane, unsigned word, unsigned k) {
        return k % 2 ? bf16_hi(all[lane][word]) : bf16_lo(all[lane][word]);
    };
    for (unsigned i = 0; i < 4; i++) {
        unsigned column = 2 * pair + i % 2;
        double sum = d[i];
        for (unsigned k = 0; k < 16; k++) {
            unsigned owner = k % 8 / 2;
            double a = element(4 * group + owner, i / 2 + k / 8 * 2, k);
            sum += a * element(4 * column + owner, 4 + k / 8, k);
        }
        d[i] = static_cast<float>(sum);
    }
}
