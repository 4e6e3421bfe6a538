// What the tests of loading and launching compile: y = a x + y, scaled by a macro, waiting as a dependent launch does.
struct Range {
    int first;
    int count;
};

extern "C" __global__ void saxpy(const float* x, float* y, float a, Range range) {
    asm volatile("griddepcontrol.wait;" : : : "memory");
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < range.count) y[range.first + i] += SCALE * a * x[range.first + i];
}

// Through dynamic shared memory, backwards.
extern "C" __global__ void reversed(const float* x, float* y, int count) {
    extern __shared__ float row[];
    row[threadIdx.x] = x[threadIdx.x];
    __syncthreads();
    y[threadIdx.x] = row[count - 1 - threadIdx.x];
}

// Needs a stack, because it looks into its array at places that only the device knows, and 400 bytes of shared memory.
extern "C" __global__ void hoard(const int* at, float* y) {
    __shared__ float shared[100];
    float own[64];
    for (int i = 0; i < 64; i++) own[i] = y[i];
    for (int i = 0; i < 64; i++) own[at[i]] += own[at[i + 1]];
    shared[threadIdx.x] = own[at[0]];
    __syncthreads();
    y[threadIdx.x] = shared[99 - threadIdx.x];
}
