// Mistakes that a GPU forgives now and then; the emulator must name each.
#include "../../ttsbench/kernels/device.cuh"

extern "C" __global__ void no_barrier(const float* x, float* y) {
    __shared__ float row[64];
    row[threadIdx.x] = x[threadIdx.x];
    // __syncthreads() is missing.
    y[threadIdx.x] = row[63 - threadIdx.x];
}

// Each block takes the next place of `order`.
extern "C" __global__ void arrivals(int* order, int* count) { order[(*count)++] = blockIdx.x; }

extern "C" __global__ void parted_lanes(float* y) {
    if (threadIdx.x % 2) __syncwarp();
    else y[threadIdx.x] = __shfl_xor_sync(0xffffffffu, 1.0f, 2);
}

extern "C" __global__ void missing_lane(float* y) {
    if (threadIdx.x != 5) y[threadIdx.x] = __shfl_xor_sync(0xffffffffu, 1.0f, 2);
}

extern "C" __global__ void some_wait(float* y) {
    if (threadIdx.x % 2) gdc_wait();
    y[threadIdx.x] = 1.0f;
}

extern "C" __global__ void early_store(unsigned* y) {
    st_cg_u32(y + threadIdx.x, 1);
    gdc_wait();
}

extern "C" __global__ void misaligned(const unsigned* x, unsigned* y) { st_cg_u32(y, ld_cg_v4(x + 1).x); }

extern "C" __global__ void outside(const unsigned* x, unsigned* y) { st_cg_u32(y + 4, ld_cg_u32(x)); }
