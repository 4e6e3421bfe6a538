// Mistakes that a GPU forgives now and then; the emulator must name each.
#include "../../ttsbench/kernels/decoder_pass/device.cuh"

extern "C" __global__ void no_barrier(const float* x, float* y) {
    extern __shared__ float row[];
    row[threadIdx.x] = x[threadIdx.x];
    // __syncthreads() is missing.
    y[threadIdx.x] = row[blockDim.x - 1 - threadIdx.x];
}

extern "C" __global__ void lost_barrier() {
    if (threadIdx.x < 32) bar_sync(1, 64);
}

extern "C" __global__ void lost_signal(unsigned* count) {
    while (ld_acquire(count) < gridDim.x) {
    }
}

extern "C" __global__ void parted_lanes(float* y) {
    if (threadIdx.x % 2) __syncwarp();
    else y[threadIdx.x] = warp_sum(1.0f);
}

extern "C" __global__ void missing_lane(float* y) {
    if (threadIdx.x != 5) y[threadIdx.x] = warp_sum(1.0f);
}

extern "C" __global__ void misaligned(const unsigned* x, unsigned* y) { st_cg_u32(y, ld_stream_v4(x + 1).x); }

extern "C" __global__ void outside(const unsigned* x, unsigned* y) { st_cg_u32(y + 4, ld_cg_u32(x)); }

extern "C" __global__ void much_prefetched(const unsigned* x) { prefetch_l2(x, 32); }

extern "C" __global__ void overrun() {
    extern __shared__ float row[];
    row[threadIdx.x] = 0.0f;
}
