// Parts of the draw kernel by themselves, for tests; appended to its source.

// Rows of HELD numbers, each by a divisor of its own: a thread has a row.
extern "C" __global__ void divide_rows(float* x, const float* by, int rows) {
    int row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= rows) return;
    float mine[HELD];
    for (int i = 0; i < HELD; i++) mine[i] = x[row * HELD + i];
    divide(mine, by[row]);
    for (int i = 0; i < HELD; i++) x[row * HELD + i] = mine[i];
}

extern "C" __global__ void uniforms(const u64* seeds, const long long* frames, const int* books, float* out) {
    int i = threadIdx.x;
    out[i] = draw_uniform(seeds[i], static_cast<unsigned>(frames[i]), books[i]);
}

// Words of 32 bits in integers of 64.
extern "C" __global__ void uniforms_of(const long long* words, float* out) {
    out[threadIdx.x] = uniform_of(static_cast<unsigned>(words[threadIdx.x]));
}
