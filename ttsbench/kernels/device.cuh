// Everything the kernels say to the device beyond plain CUDA C++: memory with its cache policy, tensor cores, signals
// between blocks, order between launches. Inline PTX is here and nowhere else, so that the same kernel source runs on a CPU
// under test: with TTSBENCH_EMULATED the file "emulator.h" of the tests gives the same names.
//
// The source needs no header of the CUDA toolkit: bfloat16 travels as `unsigned short`, or two to an `unsigned`, the element
// with the lower index in the lower half.
#pragma once

#ifdef TTSBENCH_EMULATED
#include "emulator.h"
#else

// ---- Memory that other blocks write during the launch ----
// .cg goes past L1, which is not coherent between multiprocessors. These are volatile, so that none moves across a barrier.
// They are weak all the same: the memory model lets no other thread write meanwhile, so the assembler takes what a loop
// reads by ld_cg for constant in it and drops the loop. Whoever waits for a value must ask by ld_relaxed.

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

__device__ __forceinline__ void st_cg_u16(void* p, unsigned short v) {
    asm volatile("st.global.cg.u16 [%0], %1;" : : "l"(p), "h"(v) : "memory");
}

__device__ __forceinline__ void st_cg_u32(void* p, unsigned v) {
    asm volatile("st.global.cg.u32 [%0], %1;" : : "l"(p), "r"(v) : "memory");
}

__device__ __forceinline__ void st_cg_v2(void* p, uint2 v) {
    asm volatile("st.global.cg.v2.u32 [%0], {%1, %2};" : : "l"(p), "r"(v.x), "r"(v.y) : "memory");
}

__device__ __forceinline__ void st_cg_v4(void* p, uint4 v) {
    asm volatile("st.global.cg.v4.u32 [%0], {%1, %2, %3, %4};"
                 :
                 : "l"(p), "r"(v.x), "r"(v.y), "r"(v.z), "r"(v.w)
                 : "memory");
}

// ---- Weights: read once by a launch, constant during it ----
// Volatile keeps them where the source issues them: a prefetch into registers must not sink to its use.

__device__ __forceinline__ uint2 ld_stream_v2(const void* p) {
    uint2 v;
    asm volatile("ld.global.nc.L1::no_allocate.v2.u32 {%0, %1}, [%2];" : "=r"(v.x), "=r"(v.y) : "l"(p));
    return v;
}

__device__ __forceinline__ uint4 ld_stream_v4(const void* p) {
    uint4 v;
    asm volatile("ld.global.nc.L1::no_allocate.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
                 : "l"(p));
    return v;
}

// sm_90 takes an L2 priority only as a policy in a register: make one at the start, pass it to every load.
__device__ __forceinline__ unsigned long long l2_evict_first() {
    unsigned long long policy;
    asm volatile("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(policy));
    return policy;
}

__device__ __forceinline__ unsigned long long l2_evict_last() {
    unsigned long long policy;
    asm volatile("createpolicy.fractional.L2::evict_last.b64 %0, 1.0;" : "=l"(policy));
    return policy;
}

__device__ __forceinline__ uint4 ld_stream_v4(const void* p, unsigned long long policy) {
    uint4 v;
    asm volatile("ld.global.nc.L1::no_allocate.L2::cache_hint.v4.u32 {%0, %1, %2, %3}, [%4], %5;"
                 : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
                 : "l"(p), "l"(policy));
    return v;
}

// Into L2 alone; `p` and `bytes` are multiples of 16. One thread asks for the whole range.
__device__ __forceinline__ void prefetch_l2(const void* p, unsigned bytes) {
    asm volatile("cp.async.bulk.prefetch.L2.global [%0], %1;" : : "l"(p), "r"(bytes));
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

__device__ __forceinline__ float round_bf16(float v) { return bf16_lo(pack_bf16(v, 0.0f)); }

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

// ---- Signals between blocks, at the scope of the device ----

__device__ __forceinline__ unsigned atom_add_release(unsigned* p, unsigned v) {
    unsigned before;
    asm volatile("atom.add.release.gpu.global.u32 %0, [%1], %2;" : "=r"(before) : "l"(p), "r"(v) : "memory");
    return before;
}

__device__ __forceinline__ void red_add_release(unsigned* p, unsigned v) {
    asm volatile("red.add.release.gpu.global.u32 [%0], %1;" : : "l"(p), "r"(v) : "memory");
}

__device__ __forceinline__ void st_release(unsigned* p, unsigned v) {
    asm volatile("st.release.gpu.global.u32 [%0], %1;" : : "l"(p), "r"(v) : "memory");
}

__device__ __forceinline__ unsigned ld_acquire(const unsigned* p) {
    unsigned v;
    asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(v) : "l"(p) : "memory");
    return v;
}

// ---- Polling: the only loads that a loop may repeat until another block has written ----
// Cheaper than ld_acquire, which empties L1 at every try. When the value says that other data is there, fence_acq_rel() must
// follow the last try; when it is itself the data, nothing need. A vector is 32-bit words that arrive each on its own.

__device__ __forceinline__ unsigned ld_relaxed_u32(const void* p) {
    unsigned v;
    asm volatile("ld.relaxed.gpu.global.u32 %0, [%1];" : "=r"(v) : "l"(p) : "memory");
    return v;
}

__device__ __forceinline__ uint2 ld_relaxed_v2(const void* p) {
    uint2 v;
    asm volatile("ld.relaxed.gpu.global.v2.u32 {%0, %1}, [%2];" : "=r"(v.x), "=r"(v.y) : "l"(p) : "memory");
    return v;
}

__device__ __forceinline__ uint4 ld_relaxed_v4(const void* p) {
    uint4 v;
    asm volatile("ld.relaxed.gpu.global.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
                 : "l"(p)
                 : "memory");
    return v;
}

__device__ __forceinline__ void fence_acq_rel() { asm volatile("fence.acq_rel.gpu;" : : : "memory"); }

// ---- Within a block ----

// __syncthreads() for `threads` threads, a multiple of 32, that name the same `id` (1 to 15; 0 is __syncthreads itself).
__device__ __forceinline__ void bar_sync(unsigned id, unsigned threads) {
    asm volatile("bar.sync %0, %1;" : : "r"(id), "r"(threads) : "memory");
}

// ---- Copies into shared memory that go on by themselves ----
// A phase of an mbarrier ends when as many threads have arrived as it was made for, and as many bytes as they said to expect;
// the next one begins at once. The phases of a barrier have parity 0, 1, 0, ...

typedef unsigned long long mbarrier;

__device__ __forceinline__ unsigned shared_address(const void* p) {
    return static_cast<unsigned>(__cvta_generic_to_shared(p));
}

// By one thread, which then calls mbarrier_init_fence() once for all that it made; the others after a __syncthreads().
__device__ __forceinline__ void mbarrier_init(mbarrier* barrier, unsigned arrivals) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" : : "r"(shared_address(barrier)), "r"(arrivals) : "memory");
}

__device__ __forceinline__ void mbarrier_init_fence() { asm volatile("fence.mbarrier_init.release.cluster;" : : : "memory"); }

__device__ __forceinline__ void mbarrier_arrive(mbarrier* barrier) {
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" : : "r"(shared_address(barrier)) : "memory");
}

// Arrives, too.
__device__ __forceinline__ void mbarrier_expect(mbarrier* barrier, unsigned bytes) {
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;"
                 :
                 : "r"(shared_address(barrier)), "r"(bytes)
                 : "memory");
}

// Has the phase of this parity ended? It must be the one in progress or the one before it. May wait a little first.
__device__ __forceinline__ bool mbarrier_try_wait(mbarrier* barrier, unsigned parity) {
    unsigned done;
    asm volatile("{\n"
                 ".reg .pred done;\n"
                 "mbarrier.try_wait.parity.shared::cta.b64 done, [%1], %2;\n"
                 "selp.u32 %0, 1, 0, done;\n"
                 "}"
                 : "=r"(done)
                 : "r"(shared_address(barrier)), "r"(parity)
                 : "memory");
    return done;
}

__device__ __forceinline__ void mbarrier_wait(mbarrier* barrier, unsigned parity) {
    while (!mbarrier_try_wait(barrier, parity)) {
    }
}

// By one thread, of a whole range: all are multiples of 16. The phase of `barrier` in progress counts the bytes.
__device__ __forceinline__ void copy_bulk(void* shared, const void* global, unsigned bytes, mbarrier* barrier) {
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];"
                 :
                 : "r"(shared_address(shared)), "l"(global), "r"(bytes), "r"(shared_address(barrier))
                 : "memory");
}

__device__ __forceinline__ void copy_bulk(
    void* shared, const void* global, unsigned bytes, mbarrier* barrier, unsigned long long policy) {
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint [%0], [%1], %2, [%3], %4;"
                 :
                 : "r"(shared_address(shared)), "l"(global), "r"(bytes), "r"(shared_address(barrier)), "l"(policy)
                 : "memory");
}

// ---- Registers, from warps that need few to warps that need many ----
// Each by all four warps of a group of 128 threads, once; N is a multiple of 8. What is taken must have been given by others,
// or have been left over: a group waits until it is.

template <int N>
__device__ __forceinline__ void give_registers() {
    asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" : : "n"(N));
}

template <int N>
__device__ __forceinline__ void take_registers() {
    asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" : : "n"(N));
}

// ---- Order between launches (programmatic dependent launch; both do nothing in a launch without the attribute) ----

// Until the launches before this one are done and what they wrote is visible.
__device__ __forceinline__ void gdc_wait() { asm volatile("griddepcontrol.wait;" : : : "memory"); }

// The next launch may start once every block has said this, or has ended.
__device__ __forceinline__ void gdc_launch_dependents() { asm volatile("griddepcontrol.launch_dependents;" : : : "memory"); }

#endif

// ---- The same on both: every lane of a warp gets the result ----

__device__ __forceinline__ float warp_sum(float v) {
#pragma unroll
    for (int step = 16; step > 0; step /= 2) v += __shfl_xor_sync(0xffffffffu, v, step);
    return v;
}

__device__ __forceinline__ float warp_max(float v) {
#pragma unroll
    for (int step = 16; step > 0; step /= 2) v = fmaxf(v, __shfl_xor_sync(0xffffffffu, v, step));
    return v;
}
