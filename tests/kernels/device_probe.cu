// Every name of device.cuh at work, for a device and for the emulator alike.
#include "../../ttsbench/kernels/decoder_pass/device.cuh"

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
    st_cg_u16(reinterpret_cast<unsigned short*>(y + 15) + 1, ld_global_cg_u32(x + 15) >> 16);
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
            while (ld_relaxed(count) < times * gridDim.x) {
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
