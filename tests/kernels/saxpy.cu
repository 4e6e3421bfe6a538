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
