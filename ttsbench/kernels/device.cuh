// Everything the kernels say to the device beyond plain CUDA C++: memory past L1, tensor cores, order between launches. Inline
// PTX is here and nowhere else, so that the same kernel source runs on a CPU under test: with TTSBENCH_EMULATED the file
// "emulator.h" of the tests gives the same names.
//
// The source needs no header of the CUDA toolkit: bfloat16 travels as `unsigned short`, or two to an `unsigned`, the element
// with the lower index in the lower half.
#pragma once

#ifdef TTSBENCH_EMULATED
#include "emulator.h"
#else

// ---- Memory that another launch writes while this one waits ----
// .cg goes past L1, which is not coherent between multiprocessors and may hold a line of before. These are volatile, so that
// they stay where the source has them: none moves across a wait, and a load into registers does not sink to its use.

__device__ __forceinline__ unsigned char ld_cg_u8(const void* p) {
    unsigned v;
    asm volatile("ld.global.cg.u8 %0, [%1];" : "=r"(v) : "l"(p));
    return static_cast<unsigned char>(v);
}

__device__ __forceinline__ unsigned short ld_cg_u16(const void* p) {
    unsigned short v;
    asm volatile("ld.global.cg.u16 %0, [%1];" : "=h"(v) : "l"(p));
    return v;
}

__device__ __forceinline__ unsigned ld_cg_u32(const void* p) {
    unsigned v;
    asm volatile("ld.global.cg.u32 %0, [%1];" : "=r"(v) : "l"(p));
    return v;
}

__device__ __forceinline__ uint2 ld_cg_v2(const void* p) {
    uint2 v;
    asm volatile("ld.global.cg.v2.u32 {%0, %1}, [%2];" : "=r"(v.x), "=r"(v.y) : "l"(p));
    return v;
}

__device__ __forceinline__ uint4 ld_cg_v4(const void* p) {
    uint4 v;
    asm volatile("ld.global.cg.v4.u32 {%0, %1, %2, %3}, [%4];" : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w) : "l"(p));
    return v;
}

// Where `wanted`; else `v` stays as it is.
__device__ __forceinline__ void ld_cg_v4_if(uint4& v, const void* p, bool wanted) {
    asm volatile("{\n"
                 ".reg .pred wanted;\n"
                 "setp.ne.u32 wanted, %5, 0;\n"
                 "@wanted ld.global.cg.v4.u32 {%0, %1, %2, %3}, [%4];\n"
                 "}"
                 : "+r"(v.x), "+r"(v.y), "+r"(v.z), "+r"(v.w)
                 : "l"(p), "r"((unsigned)wanted));
}

__device__ __forceinline__ void st_cg_u32(void* p, unsigned v) {
    asm volatile("st.global.cg.u32 [%0], %1;" : : "l"(p), "r"(v) : "memory");
}

__device__ __forceinline__ void st_cg_v4(void* p, uint4 v) {
    asm volatile("st.global.cg.v4.u32 [%0], {%1, %2, %3, %4};"
                 :
                 : "l"(p), "r"(v.x), "r"(v.y), "r"(v.z), "r"(v.w)
                 : "memory");
}

// ---- Bfloat16 ----

__device__ __forceinline__ float bf16_lo(unsigned packed) { return __uint_as_float(packed << 16); }

__device__ __forceinline__ float bf16_hi(unsigned packed) { return __uint_as_float(packed & 0xffff0000u); }

// To the nearest, ties to even.
__device__ __forceinline__ unsigned pack_bf16(float lo, float hi) {
    unsigned packed;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(packed) : "f"(hi), "f"(lo));
    return packed;
}

// Two products at once, each rounded once.
__device__ __forceinline__ unsigned mul_bf16x2(unsigned a, unsigned b) {
    unsigned product;
    asm("mul.rn.bf16x2 %0, %1, %2;" : "=r"(product) : "r"(a), "r"(b));
    return product;
}

// a b + c twice, each rounded once.
__device__ __forceinline__ unsigned fma_bf16x2(unsigned a, unsigned b, unsigned c) {
    unsigned sum;
    asm("fma.rn.bf16x2 %0, %1, %2, %3;" : "=r"(sum) : "r"(a), "r"(b), "r"(c));
    return sum;
}

// Of an 8 x 8 matrix over a warp: lane l has M[l / 4][2 (l % 4)] and the element after it, and gets those of M^T.
__device__ __forceinline__ unsigned transpose_bf16(unsigned pair) {
    unsigned transposed;
    asm volatile("movmatrix.sync.aligned.m8n8.trans.b16 %0, %1;" : "=r"(transposed) : "r"(pair));
    return transposed;
}

// d += A B over a warp: A is 16 x 16 row-major, B is 16 x 8 column-major, d is 16 x 8 in float32. With g = lane / 4 and
// t = lane % 4, and two neighbours to a register (along k in A and B, along n in d):
//   a0: A[g][2t], a1: A[g + 8][2t], a2: A[g][2t + 8], a3: A[g + 8][2t + 8]
//   b0: B[2t][g], b1: B[2t + 8][g]
//   d0, d1: d[g][2t], d[g][2t + 1]; d2, d3: d[g + 8][2t], d[g + 8][2t + 1]
__device__ __forceinline__ void mma_bf16(
    float (&d)[4], unsigned a0, unsigned a1, unsigned a2, unsigned a3, unsigned b0, unsigned b1) {
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
}

// ---- Order between launches (programmatic dependent launch; both do nothing in a launch without the attribute) ----

// Until the launches before this one are done and what they wrote is visible.
__device__ __forceinline__ void gdc_wait() { asm volatile("griddepcontrol.wait;" : : : "memory"); }

// The next launch may start once every block has said this, or has ended.
__device__ __forceinline__ void gdc_launch_dependents() { asm volatile("griddepcontrol.launch_dependents;" : : : "memory"); }

#endif
