// Every name of device.cuh at work, for a device and for the emulator alike.
#include "../../ttsbench/kernels/device.cuh"

// Rounding: two neighbours at a time.
extern "C" __global__ void round_pairs(const float* x, unsigned* packed, float* rounded, int pairs) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= pairs) return;
    packed[i] = pack_bf16(x[2 * i], x[2 * i + 1]);
    rounded[2 * i] = bf16_lo(packed[i]);
    rounded[2 * i + 1] = round_bf16(x[2 * i + 1]);
    if (__float_as_uint(bf16_hi(packed[i])) != __float_as_uint(rounded[2 * i + 1])) packed[i] = ~packed[i];
}

// One product of a warp from and to registers as they are, lane by lane: a [32, 4], b [32, 2], d [32, 4].
extern "C" __global__ void multiply(const unsigned* a, const unsigned* b, float* d) {
    a += 4 * threadIdx.x, b += 2 * threadIdx.x, d += 4 * threadIdx.x;
    float sum[4] = {d[0], d[1], d[2], d[3]};
    mma_bf16(sum, a[0], a[1], a[2], a[3], b[0], b[1]);
    for (int i = 0; i < 4; i++) d[i] = sum[i];
}

// Pairs of bfloat16: products, products with a sum, and the transpose of [8, 8] over a warp. All have 32 words.
extern "C" __global__ void pairs(const unsigned* a, const unsigned* b, const unsigned* c, unsigned* product, unsigned* sum,
                                 unsigned* transposed) {
    int lane = threadIdx.x;
    product[lane] = mul_bf16x2(a[lane], b[lane]);
    sum[lane] = fma_bf16x2(a[lane], b[lane], c[lane]);
    transposed[lane] = transpose_bf16(a[lane]);
}

// Every other 16 bytes of x [8, 4] into y, which keeps the rest.
extern "C" __global__ void some(const unsigned* x, uint4* y) {
    uint4 v = y[threadIdx.x];
    ld_cg_v4_if(v, x + 4 * threadIdx.x, threadIdx.x % 2 == 0);
    y[threadIdx.x] = v;
}

// 64 bytes by one thread: each kind of load and store takes its part. `x` and `y` have 16 words.
extern "C" __global__ void copy(const unsigned* x, unsigned* y) {
    if (threadIdx.x != 0) return;
    unsigned long long first = l2_evict_first(), last = l2_evict_last();
    prefetch_l2(x, 64);
    uint4 a = ld_stream_v4(x, first), b = ld_stream_v4(x + 4), c = ld_stream_v4(x + 4, last);
    st_cg_v4(y, a);
    st_cg_v4(y + 4, make_uint4(b.x, c.y, b.z, c.w));
    st_cg_v4(y + 8, ld_cg_v4(x + 8));
    st_cg_v2(y + 12, ld_cg_v2(x + 12));
    st_cg_u32(y + 14, ld_stream_v2(x + 14).x);
    st_cg_u16(y + 15, ld_cg_u16(x + 15));
    st_cg_u16(reinterpret_cast<unsigned short*>(y + 15) + 1, ld_cg_u32(x + 15) >> 16);
}

// All blocks have come `times` times. One thread counts for its block.
__device__ void grid_barrier(unsigned* count, unsigned times) {
    __syncthreads();
    if (threadIdx.x == 0) {
        if (times % 2) {
            red_add_release(count, 1);
            while (ld_acquire(count) < times * gridDim.x) {
            }
        } else if (atom_add_release(count, 1) + 1 < times * gridDim.x) {
            while (ld_relaxed_u32(count) < times * gridDim.x) {
            }
            fence_acq_rel();
        } else {
            fence_acq_rel();
        }
    }
    __syncthreads();
}

// Phases as a decoder pass has them: every block reads what all blocks wrote in the phase before. In each, element i of the
// row [threads of the grid] becomes the largest of its block plus the sum over the grid of the last phase, modulo 1024.
extern "C" __global__ void phases(float* row, unsigned* count, int steps) {
    extern __shared__ __align__(16) float part[];
    __shared__ float sum;
    gdc_launch_dependents();
    gdc_wait();
    unsigned at = blockIdx.x * blockDim.x + threadIdx.x, warp = threadIdx.x / 32, warps = blockDim.x / 32;
    for (int step = 0; step < steps; step++) {
        float largest = warp_max(__uint_as_float(ld_cg_u32(row + at))), total = 0.0f;
        for (unsigned i = threadIdx.x; i < gridDim.x * blockDim.x; i += blockDim.x)
            total += __uint_as_float(ld_cg_u32(row + i));
        total = warp_sum(total);
        if (threadIdx.x % 32 == 0) part[warp] = total, part[warps + warp] = largest;
        bar_sync(1, blockDim.x);
        if (threadIdx.x == 0) {
            sum = 0.0f;
            for (unsigned i = 0; i < warps; i++) sum += part[i];
        }
        __syncthreads();
        for (unsigned i = 0; i < warps; i++) largest = fmaxf(largest, part[warps + i]);
        float next = fmodf(largest + sum + threadIdx.x % 7, 1024.0f);
        grid_barrier(count, 2 * step + 1);  // nobody writes before all have read
        st_cg_u32(row + at, __float_as_uint(next));
        grid_barrier(count, 2 * step + 2);
    }
    if (at == 0) st_release(count + 1, 7);
}

// Blocks hand words on as they are: each waits for words of its own width that are not EMPTY, adds 1 and gives them to the
// next. `words` is [blocks + 1, 4], all EMPTY but the first row. One thread of a block waits.
extern "C" __global__ void hand_over(unsigned* words) {
    const unsigned empty = 0xffffffffu;
    if (threadIdx.x != 0) return;
    unsigned* from = words + 4 * blockIdx.x;
    uint4 v;
    if (blockIdx.x % 3 == 0) {
        do v = ld_relaxed_v4(from);
        while (v.x == empty || v.y == empty || v.z == empty || v.w == empty);
    } else if (blockIdx.x % 3 == 1) {
        uint2 low, high;
        do low = ld_relaxed_v2(from), high = ld_relaxed_v2(from + 2);
        while (low.x == empty || low.y == empty || high.x == empty || high.y == empty);
        v = make_uint4(low.x, low.y, high.x, high.y);
    } else {
        do v.x = ld_relaxed_u32(from), v.y = ld_relaxed_u32(from + 1);
        while (v.x == empty || v.y == empty);
        do v.z = ld_relaxed_u32(from + 2), v.w = ld_relaxed_u32(from + 3);
        while (v.z == empty || v.w == empty);
    }
    st_cg_u32(from + 6, v.z + 1);
    st_cg_u32(from + 4, v.x + 1);
    st_cg_u32(from + 7, v.w + 1);
    st_cg_u32(from + 5, v.y + 1);
}

// The sum of `x` [pieces, 64] over pieces, through a ring of two places: thread 0 fills, two warps use and give back.
extern "C" __global__ void ring(const unsigned* x, unsigned* sums, int pieces) {
    __shared__ __align__(16) unsigned places[2][64];
    __shared__ __align__(8) mbarrier full[2], used[2];
    const int first = 64 * pieces * blockIdx.x;
    if (threadIdx.x == 0) {
        for (int i = 0; i < 2; i++) mbarrier_init(full + i, 1), mbarrier_init(used + i, 2);
        mbarrier_init_fence();
    }
    __syncthreads();
    if (threadIdx.x < 32) {
        for (int i = 0; i < pieces && threadIdx.x == 0; i++) {
            mbarrier_wait(used + i % 2, (i / 2 + 1) % 2);  // at once for the first two: no phase came before
            mbarrier_expect(full + i % 2, 256);
            copy_bulk(places[i % 2], x + first + 64 * i, 128, full + i % 2);
            copy_bulk(places[i % 2] + 32, x + first + 64 * i + 32, 128, full + i % 2, l2_evict_first());
        }
        return;
    }
    unsigned sum = 0;
    for (int i = 0; i < pieces; i++) {
        if (threadIdx.x < 64) mbarrier_wait(full + i % 2, i / 2 % 2);
        else while (!mbarrier_try_wait(full + i % 2, i / 2 % 2)) {
        }
        sum += places[i % 2][threadIdx.x - 32];
        __syncwarp();
        if (threadIdx.x % 32 == 0) mbarrier_arrive(used + i % 2);
    }
    sums[64 * blockIdx.x + threadIdx.x - 32] = sum;
}

// Where an address of shared memory lies, as a distance: aligned as it is asked for.
extern "C" __global__ void shared_places(int* distance) {
    __shared__ __align__(16) unsigned places[8];
    places[threadIdx.x] = 0;
    distance[threadIdx.x] = static_cast<int>(shared_address(places + threadIdx.x) - shared_address(places));
    if (shared_address(places) % 16) distance[threadIdx.x] = -1;
}
