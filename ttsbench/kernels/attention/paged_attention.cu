// A row and key-value head: one warp where all positions of a slot are one chunk of sixteen (the code predictor), else
// WARPS of a block. What is computed: `reference.py`.
//
// The chain around this kernel is short of time between its wait and its end, so all that is there before the wait is in
// registers by then: where the row stands, norms, rotary tables, and the first chunk of keys and values. Earlier positions may
// be read so: they were written before a kernel that lets the next start after its own wait, as this one does itself in every
// other layer, and when it does, all before it have ended (see `kernels/overlap.py`). Past L1, where a line of before may lie.
//
// Products run on tensor cores, [16, 16] times [16, 8], with keys and values as the larger operand: scores are K times
// Q^T, outputs V^T times P^T, and the two queries of a head group are two of eight columns. With g = lane / 4 and
// t = lane % 4 (see mma_bf16 in device.cuh):
//     a vector        lane (g, t) has dims 8 t .. 8 t + 7 of each quarter of what belongs to g
//     keys            rows g and g + 8 of the chunk, as such vectors
//     values          rows 2 t, 2 t + 1, 2 t + 8, 2 t + 9 of the chunk, dims 8 g .. 8 g + 7 of each half
//     scores          lane (g, t): positions g and g + 8, columns 2 t and 2 t + 1
//     outputs         lane (g, t): dims as of values, columns 2 t and 2 t + 1
// All lanes of a g hold one vector, and which one is ours to say: the own key is made where row p % 16 of its chunk is, p the
// row's position, the two queries at the same time in another pair of g, and the own value passes through a third.
//
// Modes, by how many rows a slot may have in a launch, which stand side by side:
//     ALONE    one
//     PAIRS    two: a row makes the key of its predecessor, too
//     STORE    any number, first launch: keys and values of all rows that are not alone in their slot
//     ATTEND   second launch: a row alone is done as in ALONE, others find their own key in the cache
//
// A row's sum is cut by its positions alone, whoever else is there and however many warps share it: eight stretches, of which
// the i-th has chunks i, i + 8 and so on.
//
// Shapes: N rows, H query heads, KH key-value heads, E head width, S slots, P cache positions, L rotary positions.
#include "../device.cuh"

#define DEV __device__ __forceinline__

typedef unsigned short bf16;

enum { ALONE, PAIRS, STORE, ATTEND };
constexpr int E = 128, GROUP = 2, CHUNK = 16, TILES = E / 16;
constexpr int KH = NUM_KV_HEADS, STRIDE = KH * E, WIDTH = (GROUP + 2) * STRIDE;   // of a position in the cache, of a row
constexpr float LOWEST = -1e30f;
constexpr bool ONE_CHUNK = WARPS == 1;
constexpr int STRETCHES = ONE_CHUNK ? 1 : 8;

static_assert(PAGE % CHUNK == 0, "a chunk is of one page");

struct Step {
    const bf16* qkv;             // [N, WIDTH]
    const bf16* norm;            // [H + KH, E]
    const bf16* cos;             // [L, E / 2]
    const bf16* sin;
    const long long* slots;      // [N] and so on: see KVRows
    const long long* positions;
    const long long* kv_slots;
    const int* tables;           // [S, table_stride]
    bf16* keys;                  // [P, KH, E]
    bf16* values;
    bf16* out;                   // [N, H * E]
    int rows, table_stride;
    float eps;
};

// A lane's dims of a head, two to a word.
struct Head {
    unsigned w[16];
};

DEV int group() { return threadIdx.x % 32 / 4; }

DEV int member() { return threadIdx.x % 4; }

DEV void set(unsigned* words, uint4 v) { words[0] = v.x, words[1] = v.y, words[2] = v.z, words[3] = v.w; }

DEV void load_head(Head& head, const bf16* at, bool wanted) {
#pragma unroll
    for (int quarter = 0; quarter < 4; ++quarter)
        set(head.w + 4 * quarter, wanted ? ld_cg_v4(at + 32 * quarter + 8 * member()) : make_uint4(0, 0, 0, 0));
}

DEV void store_head(bf16* at, const Head& head) {
#pragma unroll
    for (int quarter = 0; quarter < 4; ++quarter) {
        const unsigned* w = head.w + 4 * quarter;
        st_cg_v4(at + 32 * quarter + 8 * member(), make_uint4(w[0], w[1], w[2], w[3]));
    }
}

// What the first warp has made: its own registers where there is no other, else shared memory.
struct Made {
    Head head;
    const bf16* shared;

    DEV uint4 quarter(int i) const {
        const unsigned* w = head.w + 4 * i;
        return ONE_CHUNK ? make_uint4(w[0], w[1], w[2], w[3]) : *(const uint4*)(shared + 32 * i + 8 * member());
    }

    DEV void share(bf16* at) const {
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            const unsigned* w = head.w + 4 * i;
            *(uint4*)(at + 32 * i + 8 * member()) = make_uint4(w[0], w[1], w[2], w[3]);
        }
    }
};

// The lane's dims of a norm's gains, and of cosines and sines, which serve both halves of a head.
struct Turn {
    uint4 gains[4], cos[2], sin[2];

    DEV void load(const bf16* norm, const bf16* cosines, const bf16* sines, bool wanted) {
        const int at = 8 * member();
#pragma unroll
        for (int quarter = 0; quarter < 4; ++quarter)
            gains[quarter] = wanted ? ld_cg_v4(norm + 32 * quarter + at) : make_uint4(0, 0, 0, 0);
#pragma unroll
        for (int quarter = 0; quarter < 2; ++quarter) {
            cos[quarter] = ld_cg_v4(cosines + 32 * quarter + at);
            sin[quarter] = ld_cg_v4(sines + 32 * quarter + at);
        }
    }
};

// Where a warp keeps those until it needs them: registers are short in between. A lane reads what it wrote itself, so nobody
// waits.
struct Kept {
    uint4 gains[4][32], cos[2][32], sin[2][32];

    DEV void keep(const Turn& turn) {
        const int lane = threadIdx.x % 32;
#pragma unroll
        for (int quarter = 0; quarter < 4; ++quarter) gains[quarter][lane] = turn.gains[quarter];
#pragma unroll
        for (int quarter = 0; quarter < 2; ++quarter) cos[quarter][lane] = turn.cos[quarter], sin[quarter][lane] = turn.sin[quarter];
    }
};

// Norm, gains and rotation.
DEV void turn(Head& head, const Kept& kept, float eps) {
    const int lane = threadIdx.x % 32;
    Head gains;
    unsigned cos[8], sin[8];
#pragma unroll
    for (int quarter = 0; quarter < 4; ++quarter) set(gains.w + 4 * quarter, kept.gains[quarter][lane]);
#pragma unroll
    for (int quarter = 0; quarter < 2; ++quarter) {
        set(cos + 4 * quarter, kept.cos[quarter][lane]);
        set(sin + 4 * quarter, kept.sin[quarter][lane]);
    }
    float squares[4] = {};
#pragma unroll
    for (int i = 0; i < 16; ++i)
        squares[i % 4] += bf16_lo(head.w[i]) * bf16_lo(head.w[i]) + bf16_hi(head.w[i]) * bf16_hi(head.w[i]);
    float sum = (squares[0] + squares[1]) + (squares[2] + squares[3]);
    sum += __shfl_xor_sync(0xffffffffu, sum, 1);
    sum += __shfl_xor_sync(0xffffffffu, sum, 2);
    const float scale = rsqrtf(sum / E + eps);
#pragma unroll
    for (int i = 0; i < 16; ++i)
        head.w[i] = mul_bf16x2(pack_bf16(bf16_lo(head.w[i]) * scale, bf16_hi(head.w[i]) * scale), gains.w[i]);
#pragma unroll
    for (int i = 0; i < 8; ++i) {
        const unsigned low = head.w[i], high = head.w[i + 8];
        head.w[i] = fma_bf16x2(low, cos[i], mul_bf16x2(high, sin[i] ^ 0x80008000u));
        head.w[i + 8] = fma_bf16x2(high, cos[i], mul_bf16x2(low, sin[i]));
    }
}

// Keys and values of sixteen positions, which are of one page.
struct Chunk {
    unsigned key[2][16];
    uint4 value[2][4];

    // The first `count` of them, from `at` on.
    DEV void load_keys(const bf16* at, int count) {
        at += group() * STRIDE + 8 * member();
#pragma unroll
        for (int half = 0; half < 2; ++half)
#pragma unroll
            for (int quarter = 0; quarter < 4; ++quarter) {
                uint4 v = make_uint4(0, 0, 0, 0);
                ld_cg_v4_if(v, at + 8 * half * STRIDE + 32 * quarter, group() + 8 * half < count);
                set(key[half] + 4 * quarter, v);
            }
    }

    DEV void load_values(const bf16* at, int count) {
        at += 2 * member() * STRIDE + 8 * group();
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            const int more = i % 2 + i / 2 * 8;
#pragma unroll
            for (int half = 0; half < 2; ++half) {
                value[half][i] = make_uint4(0, 0, 0, 0);
                ld_cg_v4_if(value[half][i], at + more * STRIDE + half * (E / 2), 2 * member() + more < count);
            }
        }
    }

    // Row `position` % 16 of the values, before they are packed, from `at`.
    DEV void load_value(const bf16* at, int position) {
        const int mine = member() == position % 8 / 2 ? position % 2 + position / 8 % 2 * 2 : -1;
#pragma unroll
        for (int i = 0; i < 4; ++i)
#pragma unroll
            for (int half = 0; half < 2; ++half) ld_cg_v4_if(value[half][i], at + half * (E / 2) + 8 * group(), i == mine);
    }

    // Row `position` % 16 of the keys, where it is the lane's; else nothing.
    DEV void take_key(const Made& made, int position) {
        const bool mine = group() == position % 8;
#pragma unroll
        for (int half = 0; half < 2; ++half)
            if (position / 8 % 2 == half)
#pragma unroll
                for (int i = 0; i < 4; ++i) {
                    const uint4 now = make_uint4(key[half][4 * i], key[half][4 * i + 1], key[half][4 * i + 2], key[half][4 * i + 3]);
                    set(key[half] + 4 * i, mine ? made.quarter(i) : now);
                }
    }
};

// Softmax so far of this lane's two columns, not yet divided; `total` is this lane's part.
struct Softmax {
    float largest[2], total[2], out[TILES][4];

    DEV void start() {
        largest[0] = largest[1] = LOWEST;
        total[0] = total[1] = 0.f;
#pragma unroll
        for (int tile = 0; tile < TILES; ++tile) out[tile][0] = out[tile][1] = out[tile][2] = out[tile][3] = 0.f;
    }

    // Weights of the first `count` positions of a chunk, as the operand that its values are multiplied by.
    DEV uint2 weights(const unsigned (&key)[2][16], const Made& made, int count) {
        constexpr int CHAINS = ONE_CHUNK ? 4 : 2;   // a tensor core takes some 33 cycles for each link
        float sums[CHAINS][4] = {};
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            const uint4 head = made.quarter(i);
            const unsigned *first = key[0] + 4 * i, *second = key[1] + 4 * i;
            mma_bf16(sums[2 * i % CHAINS], first[0], second[0], first[1], second[1], head.x, head.y);
            mma_bf16(sums[(2 * i + 1) % CHAINS], first[2], second[2], first[3], second[3], head.z, head.w);
        }
        constexpr float scale = 1.44269504f * 0.0883883476f;   // 1 / sqrt(E), and powers of two from here on
        float weight[4], peak[2];
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            float score = sums[0][i] + sums[1][i];
            if (CHAINS == 4) score += sums[CHAINS - 2][i] + sums[CHAINS - 1][i];
            score *= scale;
            weight[i] = group() + i / 2 * 8 < count ? score : LOWEST;
        }
#pragma unroll
        for (int column = 0; column < 2; ++column) {
            peak[column] = fmaxf(fmaxf(weight[column], weight[column + 2]), largest[column]);
#pragma unroll
            for (int m = 4; m < 32; m *= 2) peak[column] = fmaxf(peak[column], __shfl_xor_sync(0xffffffffu, peak[column], m));
            weight[column] = exp2f(weight[column] - peak[column]);
            weight[column + 2] = exp2f(weight[column + 2] - peak[column]);
            if (!ONE_CHUNK) {
                const float shrink = exp2f(largest[column] - peak[column]);
                total[column] *= shrink;
#pragma unroll
                for (int tile = 0; tile < TILES; ++tile) out[tile][column] *= shrink, out[tile][column + 2] *= shrink;
            }
            total[column] += weight[column] + weight[column + 2];
            largest[column] = peak[column];
        }
        return make_uint2(
            transpose_bf16(pack_bf16(weight[0], weight[1])), transpose_bf16(pack_bf16(weight[2], weight[3])));
    }

    DEV void add(const uint4 (&value)[2][4], uint2 weights) {
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            add(out[4 * half], value[half][0].x, value[half][1].x, value[half][2].x, value[half][3].x, weights);
            add(out[4 * half + 1], value[half][0].y, value[half][1].y, value[half][2].y, value[half][3].y, weights);
            add(out[4 * half + 2], value[half][0].z, value[half][1].z, value[half][2].z, value[half][3].z, weights);
            add(out[4 * half + 3], value[half][0].w, value[half][1].w, value[half][2].w, value[half][3].w, weights);
        }
    }

    // Two dims of four positions: a tensor core takes two positions of a dim in a word.
    DEV static void add(float (&out)[4], unsigned a, unsigned b, unsigned c, unsigned d, uint2 weights) {
        mma_bf16(out, __byte_perm(a, b, 0x5410), __byte_perm(a, b, 0x7632), __byte_perm(c, d, 0x5410),
                 __byte_perm(c, d, 0x7632), weights.x, weights.y);
    }

    DEV void finish() {
#pragma unroll
        for (int column = 0; column < 2; ++column)
#pragma unroll
            for (int m = 4; m < 32; m *= 2) total[column] += __shfl_xor_sync(0xffffffffu, total[column], m);
    }
};

// The row that is its slot's position before `row`'s in this launch, or -1.
DEV int predecessor(const Step& step, int row, int position) {
    for (int other = row - 1; other <= row + 1; other += 2)
        if (other >= 0 && other < step.rows && step.slots[other] == step.slots[row] && step.positions[other] == position - 1)
            return other;
    return -1;
}

DEV bool alone(const Step& step, int row) {
    const long long slot = step.slots[row];
    return !(row > 0 && step.slots[row - 1] == slot) && !(row + 1 < step.rows && step.slots[row + 1] == slot);
}

// One warp: the output [GROUP, E].
DEV void write(const Softmax& softmax, bf16* out) {
#pragma unroll
    for (int column = 0; column < 2; ++column) {
        const float scale = __fdividef(1.f, softmax.total[column]);
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            unsigned w[4];
#pragma unroll
            for (int i = 0; i < 4; ++i) {
                const float* dims = softmax.out[4 * half + i];
                w[i] = pack_bf16(dims[column] * scale, dims[column + 2] * scale);
            }
            st_cg_v4(out + column * E + half * (E / 2) + 8 * group(), make_uint4(w[0], w[1], w[2], w[3]));
        }
    }
}

// What comes out of a stretch.
struct Part {
    float out[E], largest, total, unused[2];
};

// By the lanes that have the queries' columns.
DEV void put(Part* parts, const Softmax& softmax) {
#pragma unroll
    for (int column = 0; column < 2; ++column) {
        Part& part = parts[column];
#pragma unroll
        for (int i = 0; i < TILES; i += 2) {
            const float *first = softmax.out[i], *second = softmax.out[i + 1];
            *(float4*)(part.out + i / 4 * (E / 2) + 8 * group() + i % 4 * 2) =
                make_float4(first[column], first[column + 2], second[column], second[column + 2]);
        }
        if (group() == 0) part.largest = softmax.largest[column], part.total = softmax.total[column];
    }
}

// The output [GROUP, E] from `count` parts of each query.
DEV void meet(const Part (*parts)[GROUP], int count, bf16* out) {
    for (int i = threadIdx.x; i < GROUP * E / 2; i += 32 * WARPS) {
        const int query = i / (E / 2), dim = i % (E / 2) * 2;
        float peak = LOWEST, total = 0.f, sum[2] = {0.f, 0.f};
#pragma unroll
        for (int j = 0; j < STRETCHES; ++j)
            if (j < count) peak = fmaxf(peak, parts[j][query].largest);
#pragma unroll
        for (int j = 0; j < STRETCHES; ++j)
            if (j < count) {
                const Part& part = parts[j][query];
                const float weight = exp2f(part.largest - peak);
                const float2 two = *(const float2*)(part.out + dim);
                total += weight * part.total;
                sum[0] += weight * two.x;
                sum[1] += weight * two.y;
            }
        st_cg_u32(out + query * E + dim, pack_bf16(__fdividef(sum[0], total), __fdividef(sum[1], total)));
    }
}

// Which vectors the lanes of a warp hold: of a g each.
enum { NOTHING = -1, QUERY, KEY = GROUP, VALUE, BEFORE, VECTORS };

DEV int vector_of_lane(int position, bool queries, bool own, bool before) {
    const int g = group(), pair = position & 6;
    if (queries && g / 2 == (pair + 4) % 8 / 2) return QUERY + g % 2;
    if (own && g == position % 8) return KEY;
    if (own && g == (pair + 2) % 8) return VALUE;
    return before && g == (position + 7) % 8 ? BEFORE : NOTHING;
}

extern "C" __global__ void __launch_bounds__(THREADS, MIN_BLOCKS) paged_attention(const __grid_constant__ Step step) {
    constexpr bool HEAD_OF_A_WARP = ONE_CHUNK || MODE == STORE;
    const int own_warp = __shfl_sync(0xffffffffu, threadIdx.x / 32, 0);   // one for all of its lanes: no branch parts them
    const int warp = HEAD_OF_A_WARP ? 0 : own_warp;
    const int head = HEAD_OF_A_WARP ? blockIdx.x * (THREADS / 32) + own_warp : blockIdx.x, row = blockIdx.y;
    const int position = (int)step.positions[row];
    const size_t place = step.kv_slots[row] * STRIDE + head * E;
    const int* table = step.tables + step.slots[row] * step.table_stride;
    const int before = MODE == PAIRS ? predecessor(step, row, position) : -1;
    const bool is_alone = MODE == STORE || MODE == ATTEND ? alone(step, row) : true;
    const bool stores = MODE == STORE ? !is_alone : is_alone;
    if (MODE == STORE && is_alone) return gdc_wait();
    const int past = !is_alone ? position + 1 : before < 0 ? position : position - 1;   // in the cache, after the wait
    const int last = position / CHUNK;
    const auto place_of = [&](int number) {
        const int first = min(number, last) * CHUNK;
        return ((size_t)table[first / PAGE] * PAGE + first % PAGE) * STRIDE + head * E;
    };

    // The first warp makes all vectors.
    const int vector = vector_of_lane(position, MODE != STORE, stores, before >= 0);
    const int number = vector < GROUP ? head * GROUP + vector : KH * (vector == VALUE ? GROUP + 1 : GROUP) + head;
    __shared__ Kept kept_by_warps[HEAD_OF_A_WARP ? THREADS / 32 : 1];
    Kept& kept = kept_by_warps[HEAD_OF_A_WARP ? own_warp : 0];
    Turn needs;
    if (warp == 0) {
        const size_t turned = (size_t)(vector == BEFORE ? position - 1 : position) * (E / 2);
        needs.load(step.norm + number * E, step.cos + turned, step.sin + turned, vector != NOTHING && vector != VALUE);
    }
    Chunk chunk;
    size_t at = 0;
    if (MODE != STORE) {
        at = place_of(warp);
        chunk.load_keys(step.keys + at, is_alone ? past - warp * CHUNK : 0);
        chunk.load_values(step.values + at, is_alone ? past - warp * CHUNK : 0);
    }
    if (warp == 0) kept.keep(needs);
    gdc_wait();
    gdc_launch_dependents();

    const bf16* const value = step.qkv + (size_t)row * WIDTH + ((GROUP + 1) * KH + head) * E;
    const auto take_values = [&](int number) {
        if (stores && number == last) chunk.load_value(value, position);
        if (MODE == PAIRS && before >= 0 && number == (position - 1) / CHUNK)
            chunk.load_value(value + (before - row) * (long long)WIDTH, position - 1);
    };
    __shared__ __align__(16) bf16 vectors[VECTORS][E + 32];   // two neighbours lie in different banks
    Made made;
    if (warp == 0)
        load_head(made.head, step.qkv + (size_t)(vector == BEFORE ? before : row) * WIDTH + number * E, vector != NOTHING);
    if (MODE == ATTEND && !is_alone) {
        chunk.load_keys(step.keys + at, past - warp * CHUNK);
        chunk.load_values(step.values + at, past - warp * CHUNK);
    }
    if (MODE != STORE) take_values(warp);
    if (warp == 0) {
        if (vector == VALUE) store_head(step.values + place, made.head);
        turn(made.head, kept, step.eps);
        if (vector == KEY) store_head(step.keys + place, made.head);
        if (!ONE_CHUNK && MODE != STORE && vector != NOTHING) made.share(vectors[vector]);
    }
    if (MODE == STORE) return;
    if (!ONE_CHUNK) __syncthreads();
    made.shared = vectors[vector == NOTHING ? QUERY : vector];

    __shared__ __align__(16) Part parts[ONE_CHUNK ? 1 : STRETCHES][GROUP];
    const bool queries = member() == ((position & 6) + 4) % 8 / 2;   // this lane's columns
    const int count = min(STRETCHES, last + 1);
    bf16* const out = step.out + ((size_t)row * KH + head) * (GROUP * E);
    Softmax softmax;
#pragma unroll 1
    for (int stretch = warp; stretch < count; stretch += WARPS) {
        softmax.start();
#pragma unroll 1
        for (int number = stretch; number <= last;) {
            if (stores && number == last) chunk.take_key(made, position);
            if (MODE == PAIRS && before >= 0 && number == (position - 1) / CHUNK) chunk.take_key(made, position - 1);
            const uint2 weights = softmax.weights(chunk.key, made, position + 1 - number * CHUNK);
            number += STRETCHES;
            if (ONE_CHUNK || (number > last && stretch + WARPS >= count)) {
                softmax.add(chunk.value, weights);
                break;
            }
            const int next = number <= last ? number : stretch + WARPS;
            at = place_of(next);
            chunk.load_keys(step.keys + at, past - next * CHUNK);
            softmax.add(chunk.value, weights);
            chunk.load_values(step.values + at, past - next * CHUNK);
            take_values(next);
        }
        softmax.finish();
        if (!ONE_CHUNK && queries) put(parts[stretch], softmax);
    }
    if (!ONE_CHUNK) {
        __syncthreads();
        meet(parts, count, out);
    } else if (queries)
        write(softmax, out);
}
