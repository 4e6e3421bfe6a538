// Mistakes that a GPU forgives now and then; the emulator must name each.
#include "../../ttsbench/kernels/device.cuh"

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

__device__ void make(mbarrier* barrier, unsigned arrivals) {
    if (threadIdx.x == 0) mbarrier_init(barrier, arrivals), mbarrier_init_fence();
    __syncthreads();
}

extern "C" __global__ void late_init() {
    __shared__ mbarrier barrier;
    if (threadIdx.x == 0) mbarrier_init(&barrier, 64);
    // __syncthreads() is missing.
    mbarrier_arrive(&barrier);
}

extern "C" __global__ void twice_made() {
    __shared__ mbarrier barrier;
    mbarrier_init(&barrier, 64);
}

extern "C" __global__ void written_over() {
    __shared__ mbarrier barrier;
    make(&barrier, 1);
    barrier++;
    mbarrier_arrive(&barrier);
}

extern "C" __global__ void unfenced(const unsigned* x) {
    __shared__ mbarrier barrier;
    __shared__ __align__(16) unsigned place[4];
    mbarrier_init(&barrier, 1);
    mbarrier_expect(&barrier, 16);
    copy_bulk(place, x, 16, &barrier);
}

// Arrivals end no phase while bytes are missing; one more is too many.
extern "C" __global__ void too_many_arrivals() {
    __shared__ mbarrier barrier;
    make(&barrier, 2);
    if (threadIdx.x == 0) mbarrier_expect(&barrier, 16);
    __syncthreads();
    if (threadIdx.x < 2) mbarrier_arrive(&barrier);
}

extern "C" __global__ void too_few_arrivals() {
    __shared__ mbarrier barrier;
    make(&barrier, 3);
    if (threadIdx.x < 2) mbarrier_arrive(&barrier);
    mbarrier_wait(&barrier, 0);
}

extern "C" __global__ void missing_bytes(const unsigned* x) {
    __shared__ mbarrier barrier;
    __shared__ __align__(16) unsigned places[8];
    make(&barrier, 1);
    if (threadIdx.x == 0) {
        mbarrier_expect(&barrier, 32);
        copy_bulk(places, x, 16, &barrier);
    }
    while (!mbarrier_try_wait(&barrier, 0)) {
    }
}

extern "C" __global__ void wrong_parity() {
    __shared__ mbarrier barrier;
    make(&barrier, 64);
    mbarrier_arrive(&barrier);
    mbarrier_wait(&barrier, 0);
    mbarrier_wait(&barrier, 1);
}

extern "C" __global__ void sleeps_through() {
    __shared__ mbarrier barrier;
    make(&barrier, 1);
    if (threadIdx.x == 0) mbarrier_wait(&barrier, 0);
    if (threadIdx.x == 32) {
        __nanosleep(1);
        mbarrier_arrive(&barrier);
        mbarrier_arrive(&barrier);
    }
}

extern "C" __global__ void reads_before_the_bytes(const unsigned* x, unsigned* y) {
    __shared__ mbarrier barrier;
    __shared__ __align__(16) unsigned places[64];
    make(&barrier, 1);
    if (threadIdx.x == 0) {
        mbarrier_expect(&barrier, 256);
        for (int i = 0; i < 64; i += 4) copy_bulk(places + i, x + i, 16, &barrier);
    }
    __syncthreads();
    y[threadIdx.x] = places[threadIdx.x];
    mbarrier_wait(&barrier, 0);
}

extern "C" __global__ void leaves_copies_behind(const unsigned* x) {
    __shared__ mbarrier barrier;
    __shared__ __align__(16) unsigned places[64];
    make(&barrier, 1);
    if (threadIdx.x == 0) mbarrier_expect(&barrier, 256);
    if (threadIdx.x == 0) copy_bulk(places, x, 256, &barrier);
}

extern "C" __global__ void odd_copy(const unsigned* x) {
    __shared__ mbarrier barrier;
    __shared__ __align__(16) unsigned places[8];
    make(&barrier, 1);
    if (threadIdx.x == 0) copy_bulk(places + blockDim.x / 64, x, 8 + 8 * (blockDim.x / 64), &barrier);
}

// Asks word by word for a pair that is written word by word.
extern "C" __global__ void torn_pair(unsigned* words, unsigned* seen) {
    if (threadIdx.x != 0) return;
    if (blockIdx.x == 0) {
        for (unsigned i = 1; i < 100; i++) {
            st_cg_v4(words, make_uint4(i, i, i, i));
            __nanosleep(1);
        }
    } else {
        for (unsigned i = 0; i < 100; i++) {
            uint4 v = ld_relaxed_v4(words);
            if (v.x != v.w) atomicAdd(seen, 1u);
        }
    }
}
