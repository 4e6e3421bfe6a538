// A draw as one kernel: a block owns a row and holds its whole vocabulary in registers, HELD codes that follow each other to a
// thread. What a draw is: reference.py.
//
// Nothing exceeds the largest logit, so a code is as likely as its *distance* from that is small: the bits of a number that is
// not negative order like integers. The few codes that top-k can keep are found without a search: of the nearest code of each
// thread the k-th nearest is an upper limit for the k-th nearest of all, and few codes lie below. These change places so that a
// thread has one of them, and the rank of each is counted. Where that does not do (a large k, many equal logits, no top-k at
// all), the same steps go over the whole vocabulary, and the limit is searched by halving.
//
// Probabilities become integers, so that every sum is exact, in whatever order threads add it: the cumulative distribution
// rises with the code, a code of no probability is never drawn, and a row's code depends on nothing but the row.
//
// Macros: HELD, a multiple of VECTOR, which is 8 or 1: logits of one load. FLOAT32: logits are float32 and not bfloat16. FIRST:
// codebook 0, which has rules of its own. CHUNK: bytes of an embedding copied at a time, 16, 4 or 2. NORM: of the same dtype as
// logits, and normed on the way, all but the scale.
#include "../device.cuh"

typedef unsigned long long u64;

constexpr unsigned FULL = 0xffffffffu;
constexpr int THREADS = 128, WARPS = THREADS / 32;
constexpr int INFINITE = 0x7f800000;  // bits of infinity: the distance of a forbidden code
constexpr int LOWEST = -2147483647 - 1;
#define FORBIDDEN __int_as_float(0xff800000)
constexpr float ONE = 1099511627776.0f;  // 2^40, weight of the likeliest code; the smallest that counts is 1, e^-27.7 of that
constexpr float LARGEST_UNIFORM = 1.0f - 1.0f / 16777216.0f;

// Of B rows and S slots; strides in elements, those of embeddings in bytes.
struct Draw {
    const void* logits;
    const long long* slots;
    const long long* frames;
    const long long* seeds;
    const unsigned char* sample;
    const float* temperature;
    const int* top_k;
    const float* top_p;
    const float* penalty;
    const int* min_frames;
    unsigned char* seen;
    long long* codes;
    unsigned char* finite;
    const char* table;
    char* out;
    const char* norm_weight;
    char* norm_rows;
    const float* squares_of;
    float* squares;
    long long logits_stride, seen_stride, codes_stride, table_stride, out_stride;
    int book, vocabulary, eos, first_control_id, out_bytes;
};

struct __align__(16) Shared {
    float largest[THREADS];     // of each thread
    float2 candidate[THREADS];  // its logit, and the bits of its code
    float scaled[THREADS];      // of each candidate; -inf where there is none
    int counts[2][WARPS];
    u64 sums[2][WARPS];
    int code;
};

// What a thread knows of its block. `turn` changes with each exchange between warps: a place is written again only when all
// have read it, which the barrier of the exchange in between says.
struct Block {
    Shared& shared;
    int thread, lane, warp, turn;
};

// ---- Sums and extremes over the block, for every thread ----

__device__ __forceinline__ const int* exchange(Block& block, int of_warp) {
    int* place = block.shared.counts[block.turn ^= 1];
    if (block.lane == 0) place[block.warp] = of_warp;
    __syncthreads();
    return place;
}

__device__ __forceinline__ int block_sum(Block& block, int v) {
    const int* all = exchange(block, __reduce_add_sync(FULL, v));
    return all[0] + all[1] + all[2] + all[3];
}

__device__ __forceinline__ int block_min(Block& block, int v) {
    const int* all = exchange(block, __reduce_min_sync(FULL, v));
    return min(min(all[0], all[1]), min(all[2], all[3]));
}

__device__ __forceinline__ int block_max(Block& block, int v) { return ~block_min(block, ~v); }

// The sum over the threads before this one; `total` is that over all.
template <class T>
__device__ __forceinline__ T sum_before(Block& block, T (*places)[WARPS], T v, T& total) {
    T sum = v;
#pragma unroll
    for (int step = 1; step < 32; step *= 2) {
        T other = __shfl_up_sync(FULL, sum, step);
        if (block.lane >= step) sum += other;
    }
    T* place = places[block.turn ^= 1];
    if (block.lane == 31) place[block.warp] = sum;
    __syncthreads();
    T before = sum - v;
    total = 0;
#pragma unroll
    for (int warp = 0; warp < WARPS; warp++) {
        if (warp < block.warp) before += place[warp];
        total += place[warp];
    }
    return before;
}

__device__ __forceinline__ u64 block_sum(Block& block, u64 v) {
    u64 total;
    sum_before(block, block.shared.sums, v, total);
    return total;
}

// ---- The random number of a draw: philox.py ----

__device__ __forceinline__ float uniform_of(unsigned word) {
    float u = __fmul_rn(__fadd_rn(static_cast<float>(word >> 8), 0.5f), 1.0f / 16777216.0f);
    return fminf(u, LARGEST_UNIFORM);
}

__device__ __forceinline__ float draw_uniform(u64 seed, unsigned frame, unsigned book) {
    unsigned c0 = frame, c1 = book, c2 = 0, c3 = 0;
    unsigned k0 = static_cast<unsigned>(seed), k1 = static_cast<unsigned>(seed >> 32);
#pragma unroll
    for (int round = 0; round < 10; round++) {
        unsigned high0 = __umulhi(0xD2511F53u, c0), low0 = 0xD2511F53u * c0;
        unsigned high1 = __umulhi(0xCD9E8D57u, c2), low1 = 0xCD9E8D57u * c2;
        c0 = high1 ^ c1 ^ k0, c1 = low1, c2 = high0 ^ c3 ^ k1, c3 = low0;
        k0 += 0x9E3779B9u, k1 += 0xBB67AE85u;
    }
    return uniform_of(c0);
}

// ---- Division of many numbers by one ----

// Where a quotient is far from the ends of the exponents, and exact by the steps below.
__device__ __forceinline__ bool is_simple(float v) {
    float size = fabsf(v);
    return size == 0.0f || (size > 1.0f / ONE && size < ONE);
}

// As __fdiv_rn, whose special cases cost a branch each: without these the divisions of a thread overlap. The first quotient is
// off by two units in the last place at most, the second by one, from where the third step gives the nearest (Markstein).
template <int N>
__device__ __forceinline__ void divide(float (&x)[N], float by) {
    float reciprocal = __frcp_rn(by);
    bool simple = is_simple(by);
#pragma unroll
    for (int i = 0; i < N; i++) simple &= is_simple(x[i]);
    if (simple) {
#pragma unroll
        for (int i = 0; i < N; i++) {
            float q = __fmul_rn(x[i], reciprocal);
            q = __fmaf_rn(__fmaf_rn(-q, by, x[i]), reciprocal, q);
            x[i] = __fmaf_rn(__fmaf_rn(-q, by, x[i]), reciprocal, q);
        }
    } else {
#pragma unroll
        for (int i = 0; i < N; i++) x[i] = __fdiv_rn(x[i], by);
    }
}

// ---- Logits ----

// Integers that fall as the number rises, and the number again.
__device__ __forceinline__ int falling(float v) {
    int bits = __float_as_int(v);
    return ~(bits ^ (bits >> 31 & 0x7fffffff));
}

__device__ __forceinline__ float of_falling(int key) {
    return __int_as_float(~key ^ (~key >> 31 & 0x7fffffff));
}

// The HELD logits from code `first` on; 0 where there are none.
__device__ __forceinline__ void load_logits(float (&x)[HELD], const Draw& p, long long row, int first) {
#ifdef FLOAT32
    const float* from = static_cast<const float*>(p.logits) + row * p.logits_stride;
#else
    const unsigned short* from = static_cast<const unsigned short*>(p.logits) + row * p.logits_stride;
#endif
#pragma unroll
    for (int i = 0; i < HELD; i += VECTOR) {
        int code = first + i;
        if (code >= p.vocabulary) {
#pragma unroll
            for (int j = 0; j < VECTOR; j++) x[i + j] = 0.0f;
            continue;
        }
#if VECTOR == 8 && defined(FLOAT32)
        uint4 low = ld_cg_v4(from + code), high = ld_cg_v4(from + code + 4);
        unsigned words[8] = {low.x, low.y, low.z, low.w, high.x, high.y, high.z, high.w};
#pragma unroll
        for (int j = 0; j < 8; j++) x[i + j] = __uint_as_float(words[j]);
#elif VECTOR == 8
        uint4 all = ld_cg_v4(from + code);
        unsigned words[4] = {all.x, all.y, all.z, all.w};
#pragma unroll
        for (int j = 0; j < 4; j++) {
            x[i + 2 * j] = bf16_lo(words[j]);
            x[i + 2 * j + 1] = bf16_hi(words[j]);
        }
#elif defined(FLOAT32)
        x[i] = __uint_as_float(ld_cg_u32(from + code));
#else
        x[i] = bf16_lo(ld_cg_u16(from + code));
#endif
    }
}

// What codebook 0 knows beside the logits; -inf where a code must not be drawn.
__device__ __forceinline__ void apply_rules(
    float (&x)[HELD], const Draw& p, const unsigned char* seen, float penalty, bool too_early, int first) {
    bool was[HELD];
#pragma unroll
    for (int i = 0; i < HELD; i += VECTOR) {
        bool known = first + i < p.vocabulary;
#if VECTOR == 8
        uint2 words = known ? ld_cg_v2(seen + first + i) : make_uint2(0, 0);
#pragma unroll
        for (int j = 0; j < 8; j++) was[i + j] = (j < 4 ? words.x : words.y) >> 8 * (j % 4) & 255;
#else
        was[i] = known && ld_cg_u8(seen + first + i);
#endif
    }
    float lessened[HELD];
#pragma unroll
    for (int i = 0; i < HELD; i++) lessened[i] = was[i] && x[i] > 0.0f ? x[i] : 0.0f;
    divide(lessened, penalty);
#pragma unroll
    for (int i = 0; i < HELD; i++) {
        int code = first + i;
        if (was[i]) x[i] = x[i] > 0.0f ? lessened[i] : __fmul_rn(x[i], penalty);
        if (code == p.eos ? too_early : code >= p.first_control_id) x[i] = FORBIDDEN;
    }
}

// ---- What is kept ----

// How many of the first `count` of `all` are larger than `mine`; those up to the next multiple of four must be there, and small.
// Counted in floats: a comparison gives 1.0 in one instruction.
__device__ __forceinline__ int larger(const float* all, int count, float mine) {
    float found[4] = {};
#pragma unroll 8
    for (int i = 0; i < count; i += 4) {
        float4 four = *reinterpret_cast<const float4*>(all + i);
        found[0] += four.x > mine ? 1.0f : 0.0f;
        found[1] += four.y > mine ? 1.0f : 0.0f;
        found[2] += four.z > mine ? 1.0f : 0.0f;
        found[3] += four.w > mine ? 1.0f : 0.0f;
    }
    return static_cast<int>(found[0] + found[1] + (found[2] + found[3]));
}

// Exclusive limit of the k smallest distances, ties with the k-th included, by halving.
template <int N>
__device__ __forceinline__ int limit_of_nearest(Block& block, const int (&distance)[N], int k) {
    int low = 0, high = INFINITE + 1, below_high = -1;
    while (high - low > 1 && below_high != k) {
        int middle = low + (high - low) / 2, mine = 0;
#pragma unroll
        for (int i = 0; i < N; i++) mine += distance[i] < middle;
        int below = block_sum(block, mine);
        if (below >= k) {
            high = middle, below_high = below;
        } else {
            low = middle;
        }
    }
    return high;
}

// No weight for the farthest codes that together hold at most 1 - top_p of the sum; of equal ones the lower go first.
template <int N>
__device__ __forceinline__ void keep_nucleus(Block& block, const int (&distance)[N], u64 (&weight)[N], float top_p) {
    u64 mine = 0;
#pragma unroll
    for (int i = 0; i < N; i++) mine += weight[i];
    u64 budget = static_cast<u64>(static_cast<double>(1.0f - top_p) * static_cast<double>(block_sum(block, mine)));
    int low = 0, high = INFINITE + 1;
    u64 beyond = 0;
    while (high - low > 1) {  // what lies at or beyond `high` fits into the budget, at or beyond `low` it does not
        int middle = low + (high - low) / 2;
        mine = 0;
#pragma unroll
        for (int i = 0; i < N; i++) mine += distance[i] >= middle ? weight[i] : 0;
        u64 held = block_sum(block, mine);
        if (held <= budget) {
            high = middle, beyond = held;
        } else {
            low = middle;
        }
    }
    int at_border = 0, all;
#pragma unroll
    for (int i = 0; i < N; i++) at_border += distance[i] == low;
    int rank = sum_before(block, block.shared.counts, at_border, all);
#pragma unroll
    for (int i = 0; i < N; i++) {
        bool border = distance[i] == low;
        rank += border;
        bool fits = border && rank < all && rank * weight[i] <= budget - beyond;
        if (distance[i] >= high || fits) weight[i] = 0;
    }
}

// The code where the cumulative distribution of those below `limit` passes the uniform: one thread says which.
template <int N>
__device__ __forceinline__ void draw_among(
    Block& block, const int (&distance)[N], const int (&id)[N], int limit, float top_p, float uniform) {
    u64 weight[N], mine = 0;
#pragma unroll
    for (int i = 0; i < N; i++) {
        float scaled = -__int_as_float(distance[i]);
        weight[i] = distance[i] < limit ? static_cast<u64>(__expf(scaled) * ONE) : 0;
    }
    if (top_p < 1.0f) keep_nucleus(block, distance, weight, top_p);
#pragma unroll
    for (int i = 0; i < N; i++) mine += weight[i];
    u64 total, sum = sum_before(block, block.shared.sums, mine, total);
    double target = static_cast<double>(uniform) * static_cast<double>(total);
#pragma unroll
    for (int i = 0; i < N; i++) {
        bool before = static_cast<double>(sum) <= target;
        sum += weight[i];
        if (before && static_cast<double>(sum) > target) block.shared.code = id[i];
    }
}

// Sampling from the logits `x`, of which `largest` is the largest and `own` the thread's: leaves the code in shared memory.
__device__ __forceinline__ void sample(
    Block& block, const float (&x)[HELD], int first, float own, float largest, const Draw& p, float temperature, int top_k,
    float top_p, float uniform) {
    Shared& shared = block.shared;
    bool all = top_k <= 0 || top_k >= p.vocabulary;
    float reach = -FORBIDDEN;
    if (!all && top_k <= THREADS && temperature < ONE) {
        bool near = larger(shared.largest, THREADS, own) < top_k;
        int kth = block_max(block, near ? falling(own) : LOWEST);
        // And whatever may be at the same distance once that is divided by the temperature.
        reach = (largest - of_falling(kth)) * 1.000001f + 1e-26f;
    }
    float mine = 0.0f;
#pragma unroll
    for (int i = 0; i < HELD; i++) mine += largest - x[i] <= reach ? 1.0f : 0.0f;
    int candidates, place = sum_before(block, shared.counts, static_cast<int>(mine), candidates);
    if (!all && candidates <= THREADS) {
#pragma unroll
        for (int i = 0; i < HELD; i++) {
            if (largest - x[i] <= reach) shared.candidate[place++] = make_float2(x[i], __int_as_float(first + i));
        }
        __syncthreads();
        float scaled = FORBIDDEN;
        int id[1] = {0};
        if (block.thread < candidates) {
            float2 candidate = shared.candidate[block.thread];
            scaled = __fdiv_rn(candidate.x - largest, temperature);
            id[0] = __float_as_int(candidate.y);
        }
        shared.scaled[block.thread] = scaled;
        __syncthreads();
        int limit = larger(shared.scaled, candidates, scaled) < top_k ? INFINITE : 0;
        int distance[1] = {__float_as_int(scaled) & 0x7fffffff};
        draw_among(block, distance, id, limit, top_p, uniform);
    } else {
        float scaled[HELD];
#pragma unroll
        for (int i = 0; i < HELD; i++) scaled[i] = x[i] == FORBIDDEN ? 0.0f : x[i] - largest;
        divide(scaled, temperature);
        int distance[HELD], id[HELD];
#pragma unroll
        for (int i = 0; i < HELD; i++) {
            distance[i] = x[i] == FORBIDDEN ? INFINITE : __float_as_int(scaled[i]) & 0x7fffffff;
            id[i] = first + i;
        }
        int limit = all ? INFINITE : limit_of_nearest(block, distance, top_k);
        draw_among(block, distance, id, limit, top_p, uniform);
    }
}

#if CHUNK == 16
typedef uint4 Chunk;
#elif CHUNK == 4
typedef unsigned Chunk;
#else
typedef unsigned short Chunk;
#endif

// The elements of two chunks multiplied, each product rounded once.
__device__ __forceinline__ Chunk times(Chunk a, Chunk b) {
#ifdef FLOAT32
    auto word = [](unsigned a, unsigned b) { return __float_as_uint(__fmul_rn(__uint_as_float(a), __uint_as_float(b))); };
#else
    auto word = [](unsigned a, unsigned b) { return pack_bf16(bf16_lo(a) * bf16_lo(b), bf16_hi(a) * bf16_hi(b)); };
#endif
#if CHUNK == 16
    return make_uint4(word(a.x, b.x), word(a.y, b.y), word(a.z, b.z), word(a.w, b.w));
#else
    return static_cast<Chunk>(word(a, b));
#endif
}

extern "C" __global__ void __launch_bounds__(THREADS) draw(const Draw p) {
    __shared__ Shared shared;
    int thread = threadIdx.x;
    Block block{shared, thread, thread % 32, thread / 32, 0};
    long long row = blockIdx.x;
    // What the host has sent and no kernel changes: who draws, by which settings, with which number.
    long long slot = p.slots[row], frame = p.frames[row];
    bool samples = p.sample[slot];
    float temperature = p.temperature[slot], top_p = p.top_p[slot];
    int top_k = p.top_k[slot];
    float uniform = draw_uniform(p.seeds[slot], static_cast<unsigned>(frame), p.book);
#ifdef FIRST
    float penalty = p.penalty[slot];
    bool too_early = frame < p.min_frames[slot];
#endif
    if (thread == 0) shared.code = 0;
    int first = thread * HELD;
    gdc_wait();
    gdc_launch_dependents();

    float x[HELD];
    load_logits(x, p, row, first);
    bool finite = true;
#pragma unroll
    for (int i = 0; i < HELD; i++) finite &= (__float_as_int(x[i]) & 0x7fffffff) < INFINITE;
#ifdef FIRST
    apply_rules(x, p, p.seen + slot * p.seen_stride, penalty, too_early, first);
#endif
    float mine = FORBIDDEN;
#pragma unroll
    for (int i = 0; i < HELD; i++) {
        if (first + i >= p.vocabulary) x[i] = FORBIDDEN;
        mine = fmaxf(mine, x[i]);
    }
    shared.largest[thread] = mine;
    // A row that is not finite is the first of all, so that one exchange says both.
    int key = block_min(block, finite ? falling(mine) : LOWEST);
    finite = key != LOWEST;
    float largest = of_falling(key);
    if (finite && samples) {
        sample(block, x, first, mine, largest, p, temperature, top_k, top_p, uniform);
    } else if (finite) {
        int lowest = 0x7fffffff;
#pragma unroll
        for (int i = HELD - 1; i >= 0; i--)
            if (x[i] == largest) lowest = first + i;
        lowest = block_min(block, lowest);
        if (thread == 0) shared.code = lowest;
    }
    __syncthreads();
    long long code = shared.code;
    if (thread == 0) {
        p.codes[row * p.codes_stride + p.book] = code;
#ifdef FIRST
        p.finite[row] = finite;
        p.seen[slot * p.seen_stride + code] = 1;
#else
        if (!finite) p.finite[row] = 0;
#endif
    }
    const char* from = p.table + code * p.table_stride;
    char* to = p.out + row * p.out_stride;
    for (int at = thread * CHUNK; at < p.out_bytes; at += THREADS * CHUNK) {
        Chunk chunk = *reinterpret_cast<const Chunk*>(from + at);
        *reinterpret_cast<Chunk*>(to + at) = chunk;
#ifdef NORM
        Chunk weight = *reinterpret_cast<const Chunk*>(p.norm_weight + at);
        *reinterpret_cast<Chunk*>(p.norm_rows + row * p.out_bytes + at) = times(chunk, weight);
#endif
    }
#ifdef NORM
    if (thread == 0) p.squares[row] = p.squares_of[code];
#endif
}
