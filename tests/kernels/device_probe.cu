// Every name of device.cuh at work, for a device and for the emulator alike.
#include "../../ttsbench/kernels/device.cuh"

// Rounding: two neighbours at a time.
extern "C" __global__ void round_pairs(const float* x, unsigned* packed, float* rounded, int pairs) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= pairs) return;
    packed[i] = pack_bf16(x[2 * i], x[2 * i + 1]);
    rounded[2 * i] = bf16_lo(packed[i]);
    rounded[2 * i + 1] = bf16_hi(packed[i]);
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
    st_cg_v4(y, ld_cg_v4(x));
    uint2 a = ld_cg_v2(x + 4), b = ld_cg_v2(x + 6);
    st_cg_v4(y + 4, make_uint4(a.x, a.y, b.x, b.y));
    for (int i = 8; i < 12; i++) st_cg_u32(y + i, ld_cg_u32(x + i));
    const unsigned short* halves = reinterpret_cast<const unsigned short*>(x);
    for (int i = 12; i < 15; i++) st_cg_u32(y + i, ld_cg_u16(halves + 2 * i) | (unsigned)ld_cg_u16(halves + 2 * i + 1) << 16);
    const unsigned char* bytes = reinterpret_cast<const unsigned char*>(x + 15);
    unsigned word = 0;
    for (int i = 0; i < 4; i++) word |= (unsigned)ld_cg_u8(bytes + i) << 8 * i;
    st_cg_u32(y + 15, word);
}

// `y` is `x` plus one, after the launch that writes `x`; a thread has an element.
extern "C" __global__ void follow(const float* x, float* y) {
    gdc_wait();
    gdc_launch_dependents();
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    y[i] = __uint_as_float(ld_cg_u32(x + i)) + 1.0f;
}
