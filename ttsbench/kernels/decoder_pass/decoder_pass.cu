// A decoder stack in one launch: all layers, the final norm and the head, for up to 64 rows of one position each.
//
// Every block stays on its multiprocessor for the whole pass and owns the same columns of every product. A layer is five
// phases:
//     norm + q, k, v | attention | output + residual | norm + gate, up + silu | down + residual
// Each needs all of the phase before it, from all blocks, so a pass is a chain of some hand-overs between blocks, and the
// weights, which depend on nothing, have to flow past it without a pause. Hence two halves of a block:
//
//     one warp copies weights, in the order of their use, into a ring of units in shared memory, as far ahead as it holds;
//     eight warps multiply. They wait for activations by asking L2 until these are there.
//
// A product [R, K] x [N, K]^T is cut by columns over blocks, 8 at a time, and by terms over the warps of a block, whose
// partial sums meet in shared memory, always in the same order: results do not depend on who was faster. Above 16 rows the
// warps are divided into groups of rows as well.
//
// Hand-over. A word of activations that is not there yet is EMPTY, two bfloat16 NaN that no conversion yields, so nothing
// but the data travels and no barrier is needed. Every place is written once in a launch, and emptied again as soon as
// what has arrived proves that every reader is done with it. A block that has nothing to write in a phase must not read in
// it either: nobody would know when it is done.
//
// Shapes: R rows, D width, F inner width, H query heads, KH key-value heads, E head width, V codes, L layers.
#include "device.cuh"

#define DEV __device__ __forceinline__

typedef unsigned short bf16;

constexpr int WARPS = 8;                      // that multiply
constexpr int THREADS = 32 * WARPS;
constexpr int D = HIDDEN, F = INNER, H = NUM_HEADS, KH = NUM_KV_HEADS, E = HEAD_DIM, V = VOCABULARY;
constexpr int GROUP = H / KH, QKV = (H + 2 * KH) * E;
constexpr int HALVES = ROW_HALVES;            // stretches of eight rows that a warp multiplies: 1 or 2
constexpr int SPLIT = WARPS / ROW_GROUPS;     // warps that share the terms of the same rows
constexpr int ROWS = 8 * HALVES * ROW_GROUPS; // at most
constexpr int UNIT = UNIT_TERMS;              // a unit of weights: 8 columns by so many terms
constexpr int BLOCKS = UNIT / 32 / SPLIT;     // of 32 terms, that a warp takes of a unit
constexpr int PITCH = UNIT * 2 + 64;          // bytes between columns: eight lanes then read from eight different banks
constexpr int UNIT_BYTES = 8 * PITCH;
constexpr int TILES_QKV = (QKV / 8 + GRID - 1) / GRID, TILES_D = (D / 8 + GRID - 1) / GRID;
constexpr int PAIRS = (F / 8 + GRID - 1) / GRID, TILES_V = (V / 8 + GRID - 1) / GRID;
constexpr int larger(int a, int b) { return a > b ? a : b; }
constexpr int MOST_TILES = larger(larger(TILES_QKV, 2 * PAIRS), larger(TILES_D, TILES_V));

static_assert(ROWS <= 16 || HALVES == 2, "a tensor core takes sixteen rows");
static_assert(D % UNIT == 0 && H * E % UNIT == 0 && F % UNIT == 0, "products are cut into whole units");
static_assert(UNIT % (32 * SPLIT) == 0 && PITCH / 16 % 8 == 4, "lanes");
static_assert(QKV / 8 >= GRID && F / 8 >= GRID && V / 8 >= GRID, "every block empties places, so every block must have read");
static_assert(E == 128 && GROUP == 2, "attention: a lane holds four dims of a head, pairs of lanes share a position");

struct Layer {
    const bf16 *input_norm, *qkv, *head_norm, *output, *post_norm, *gate_up, *down;
};

struct Pass {
    const bf16* x;             // [R, D]
    Layer layers[NUM_LAYERS];
    const bf16* final_norm;    // [D]
    const bf16* head;          // [V, D]
    bf16* logits;              // [R, V]
    bf16* hidden;              // [R, D] after the final norm, or null
    bf16* kv;                  // [L, 2, positions of the cache, KH, E]
    const bf16* cos;           // [positions, E / 2]
    const bf16* sin;
    const long long* slots;    // [R] and so on: see KVRows
    const long long* positions;
    const long long* kv_slots;
    const int* tables;
    bf16* packed;              // [L, ROWS, QKV], EMPTY, as the next four
    bf16* attended;            // [L, ROWS, H * E]
    bf16* middle;              // [L, ROWS, D]
    bf16* inner;               // [L, ROWS, F]
    bf16* out;                 // [L + 1, ROWS, D]: the last layer's lies in one of two places by turns
    unsigned* launches;        // so far
#ifdef TRACE
    long long* trace;
#endif
    long long cache_positions; // of one layer's keys
    int rows, table_stride, block_size;
    float eps;
};

#ifdef TRACE
__shared__ int trace_at;
#define MARK(id) do { if (threadIdx.x == 0) { pass.trace[blockIdx.x * 4096 + trace_at] = (clock64() << 4) | (id); ++trace_at; } } while (0)
#else
#define MARK(id) do {} while (0)
#endif

// ---- weights -------------------------------------------------------------------------------------------------------

struct Ring {
    unsigned char* units;
    mbarrier *full, *empty;
    int slot;
    unsigned parity;

    DEV void advance() {
        if (++slot == SLOTS) {
            slot = 0;
            parity ^= 1;
        }
    }
};

struct Gains {   // of the norms, two at a time
    bf16* at;    // [2, D]
    mbarrier *full, *empty;
    unsigned number;

    DEV int slot() const { return number & 1; }
    DEV unsigned parity() const { return number >> 1 & 1; }
};

// One warp: columns of `weight` [N, K] from `first` on, terms from `term` on.
DEV void send_unit(Ring& ring, const bf16* weight, int K) {
    const int lane = threadIdx.x % 32;
    mbarrier_wait(&ring.empty[ring.slot], ring.parity ^ 1);
    if (lane == 0) mbarrier_expect(&ring.full[ring.slot], 8 * UNIT * 2);
    __syncwarp();
    if (lane < 8) copy_bulk(ring.units + ring.slot * UNIT_BYTES + lane * PITCH, weight + (size_t)lane * K, UNIT * 2, &ring.full[ring.slot]);
    ring.advance();
}

template <int K>
DEV void send_tiles(Ring& ring, const bf16* weight, int tiles) {
    for (int term = 0; term < K; term += UNIT)
        for (int tile = blockIdx.x; tile < tiles; tile += GRID) send_unit(ring, weight + (size_t)tile * 8 * K + term, K);
}

DEV void send_pairs(Ring& ring, const bf16* weight) {
    for (int term = 0; term < D; term += UNIT)
        for (int pair = blockIdx.x; pair < F / 8; pair += GRID) {
            send_unit(ring, weight + (size_t)pair * 8 * D + term, D);
            send_unit(ring, weight + (size_t)(F + pair * 8) * D + term, D);
        }
}

DEV void send_gains(Gains& gains, const bf16* weight) {
    mbarrier_wait(&gains.empty[gains.slot()], gains.parity() ^ 1);
    if (threadIdx.x % 32 == 0) {
        mbarrier_expect(&gains.full[gains.slot()], D * 2);
        copy_bulk(gains.at + gains.slot() * D, weight, D * 2, &gains.full[gains.slot()]);
    }
    __syncwarp();
    ++gains.number;
}

DEV void send_all(const Pass& pass, Ring& ring, Gains& gains) {
    for (int number = 0; number < NUM_LAYERS; ++number) {
        const Layer& layer = pass.layers[number];
        send_gains(gains, layer.input_norm);
        send_tiles<D>(ring, layer.qkv, QKV / 8);
        send_tiles<H * E>(ring, layer.output, D / 8);
        send_gains(gains, layer.post_norm);
        send_pairs(ring, layer.gate_up);
        send_tiles<F>(ring, layer.down, D / 8);
    }
    send_gains(gains, pass.final_norm);
    send_tiles<D>(ring, pass.head, V / 8);
}

// A lane's share of the unit in turn: column lane / 4, eight terms of lane % 4 in each block of 32.
DEV void take_unit(uint4 (&w)[BLOCKS], Ring& ring) {
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    mbarrier_wait(&ring.full[ring.slot], ring.parity);
    const unsigned char* at = ring.units + ring.slot * UNIT_BYTES + lane / 4 * PITCH + (warp % SPLIT * BLOCKS * 32 + lane % 4 * 8) * 2;
#pragma unroll
    for (int i = 0; i < BLOCKS; ++i) w[i] = *(const uint4*)(at + i * 64);
    __syncwarp();
    if (lane == 0) mbarrier_arrive(&ring.empty[ring.slot]);
    ring.advance();
}

// ---- activations ---------------------------------------------------------------------------------------------------

constexpr unsigned EMPTY = 0xffffffffu;

DEV bool is_empty(uint4 v) { return v.x == EMPTY || v.y == EMPTY || v.z == EMPTY || v.w == EMPTY; }

DEV void clear(bf16* at, int elements) {
    for (int i = blockIdx.x * THREADS + threadIdx.x; i < elements / 8; i += GRID * THREADS)
        st_cg_v4(at + (size_t)i * 8, make_uint4(EMPTY, EMPTY, EMPTY, EMPTY));
}

DEV int first_row() { return threadIdx.x / 32 / SPLIT * 8 * HALVES + threadIdx.x % 32 / 4; }

// Where a lane's terms of a row of x [R, K] begin.
DEV const bf16* row_at(const bf16* x, int half, int K) {
    return x + (size_t)(first_row() + 8 * half) * K + threadIdx.x / 32 % SPLIT * BLOCKS * 32 + threadIdx.x % 4 * 8;
}

// The lane's terms of `UNITS` units of its rows, from unit `first` on.
template <int UNITS, int K>
DEV void ask_rows(uint4 (&a)[HALVES][UNITS * BLOCKS], const bf16* x, int rows, int first) {
#pragma unroll
    for (int h = 0; h < HALVES; ++h)
#pragma unroll
        for (int i = 0; i < UNITS * BLOCKS; ++i)
            a[h][i] = first_row() + 8 * h < rows ? ld_relaxed_v4(row_at(x, h, K) + (first + i / BLOCKS) * UNIT + i % BLOCKS * 32)
                                                 : make_uint4(0, 0, 0, 0);
}

// Ask again for what was not there.
template <int UNITS, int K>
DEV void await_rows(uint4 (&a)[HALVES][UNITS * BLOCKS], const bf16* x, int first) {
    bool missing = true;
    while (missing) {
        missing = false;
#pragma unroll
        for (int h = 0; h < HALVES; ++h)
#pragma unroll
            for (int i = 0; i < UNITS * BLOCKS; ++i)
                if (is_empty(a[h][i])) {
                    a[h][i] = ld_relaxed_v4(row_at(x, h, K) + (first + i / BLOCKS) * UNIT + i % BLOCKS * 32);
                    missing = true;
                }
    }
    __syncwarp();
}

// ---- products ------------------------------------------------------------------------------------------------------

DEV void multiply(float (&sums)[4], const uint4 (&w)[BLOCKS], const uint4* low, const uint4* high) {
#pragma unroll
    for (int i = 0; i < BLOCKS; ++i) {
        const uint4 a = low[i], b = HALVES > 1 ? high[i] : make_uint4(0, 0, 0, 0);
        mma_bf16(sums, a.x, b.x, a.y, b.y, w[i].x, w[i].y);
        mma_bf16(sums, a.z, b.z, a.w, b.w, w[i].z, w[i].w);
    }
}

// Adds a[first unit ..] times the units in turn to the sums of this block's tiles.
template <int UNITS, int TILES>
DEV void multiply_units(float (&sums)[TILES][4], const uint4 (&a)[HALVES][UNITS * BLOCKS], Ring& ring, int mine) {
    constexpr int AHEAD = BLOCKS <= 4;   // registers for the next unit as well
    uint4 w[1 + AHEAD][BLOCKS];
    if (AHEAD && mine > 0) take_unit(w[0], ring);
#pragma unroll
    for (int i = 0; i < UNITS * TILES; ++i) {
        const int next = i + AHEAD;
        if (next < UNITS * TILES && next % TILES < mine) take_unit(w[next % (1 + AHEAD)], ring);
        if (i % TILES < mine)
            multiply(sums[i % TILES], w[i % (1 + AHEAD)], &a[0][i / TILES * BLOCKS], &a[HALVES - 1][i / TILES * BLOCKS]);
    }
}

DEV float square_sum(unsigned v) { return bf16_lo(v) * bf16_lo(v) + bf16_hi(v) * bf16_hi(v); }

DEV unsigned normed(unsigned v, float scale, unsigned gain) {
    return pack_bf16(round_bf16(bf16_lo(v) * scale) * bf16_lo(gain), round_bf16(bf16_hi(v) * scale) * bf16_hi(gain));
}

DEV void sync_multipliers() { bar_sync(1, THREADS); }

// RMSNorm of rows whose terms lie over the warps of a group.
DEV void norm_rows(uint4 (&a)[HALVES][D / UNIT * BLOCKS], Gains& gains, float eps, float* squares) {
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
#pragma unroll
    for (int h = 0; h < HALVES; ++h) {
        float sum = 0.f;
#pragma unroll
        for (int i = 0; i < D / UNIT * BLOCKS; ++i)
            sum += square_sum(a[h][i].x) + square_sum(a[h][i].y) + square_sum(a[h][i].z) + square_sum(a[h][i].w);
        sum += __shfl_xor_sync(0xffffffffu, sum, 1);
        sum += __shfl_xor_sync(0xffffffffu, sum, 2);
        if (lane % 4 == 0) squares[(first_row() + 8 * h) * SPLIT + warp % SPLIT] = sum;
    }
    mbarrier_wait(&gains.full[gains.slot()], gains.parity());
    sync_multipliers();
    const bf16* gain_at = gains.at + gains.slot() * D + warp % SPLIT * BLOCKS * 32 + lane % 4 * 8;
#pragma unroll
    for (int h = 0; h < HALVES; ++h) {
        float sum = 0.f;
#pragma unroll
        for (int w = 0; w < SPLIT; ++w) sum += squares[(first_row() + 8 * h) * SPLIT + w];
        const float scale = rsqrtf(sum / D + eps);
#pragma unroll
        for (int i = 0; i < D / UNIT * BLOCKS; ++i) {
            const uint4 gain = *(const uint4*)(gain_at + i / BLOCKS * UNIT + i % BLOCKS * 32);
            a[h][i].x = normed(a[h][i].x, scale, gain.x);
            a[h][i].y = normed(a[h][i].y, scale, gain.y);
            a[h][i].z = normed(a[h][i].z, scale, gain.z);
            a[h][i].w = normed(a[h][i].w, scale, gain.w);
        }
    }
    __syncwarp();
    if (lane == 0) mbarrier_arrive(&gains.empty[gains.slot()]);
    ++gains.number;
}

// Every warp's sums to `parts` [WARPS, TILES, 2, 32] pairs, which no warp may still be reading.
template <int TILES>
DEV void share_sums(const float (&sums)[TILES][4], float2* parts) {
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
#pragma unroll
    for (int t = 0; t < TILES; ++t) {
        float2* at = parts + (warp * TILES + t) * 64 + lane;
        at[0] = make_float2(sums[t][0], sums[t][1]);
        if (HALVES > 1) at[32] = make_float2(sums[t][2], sums[t][3]);
    }
    sync_multipliers();
}

// Two neighbouring columns of one row.
struct Place {
    int tile, row, column, half, group, lane;

    template <int TILES>
    DEV float2 total(const float2* parts, int at_tile) const {
        float2 sum = make_float2(0.f, 0.f);
#pragma unroll
        for (int w = 0; w < SPLIT; ++w) {
            const float2 part = parts[((group * SPLIT + w) * TILES + at_tile) * 64 + half * 32 + lane];
            sum.x += part.x;
            sum.y += part.y;
        }
        return sum;
    }
};

// Calls write(place) for each place of TILES tiles that this thread has to write.
template <int TILES, class Write>
DEV void each_place(int rows, Write write) {
    for (int i = threadIdx.x; i < TILES * ROWS * 4; i += THREADS) {
        const int lane = i % 32, half = i / 32 % HALVES, group = i / 32 / HALVES % ROW_GROUPS, tile = i / 32 / HALVES / ROW_GROUPS;
        const int row = (group * HALVES + half) * 8 + lane / 4;
        if (row < rows) write(Place{tile, row, lane % 4 * 2, half, group, lane});
    }
}

DEV int tiles_of_block(int tiles) { return blockIdx.x < tiles ? (tiles - 1 - (int)blockIdx.x) / GRID + 1 : 0; }

// Whatever a phase needs besides its operands.
struct Work {
    Ring ring;
    Gains gains;
    float2* parts;
    float* squares;
    unsigned* kept;      // the residual stream of this block's columns
    float* scratch;
};

template <int TILES, class Write>
DEV void norm_product(Work& work, const Pass& pass, const bf16* x, bool arriving, int mine, bf16* hidden, Write write) {
    uint4 a[HALVES][D / UNIT * BLOCKS];
    ask_rows<D / UNIT, D>(a, x, pass.rows, 0);
    if (arriving) await_rows<D / UNIT, D>(a, x, 0);
    MARK(2);
    norm_rows(a, work.gains, pass.eps, work.squares);
    MARK(3);
    if (hidden != nullptr)
#pragma unroll
        for (int h = 0; h < HALVES; ++h)
#pragma unroll
            for (int i = 0; i < D / UNIT * BLOCKS; ++i)
                if (first_row() + 8 * h < pass.rows) st_cg_v4((bf16*)row_at(hidden, h, D) + i / BLOCKS * UNIT + i % BLOCKS * 32, a[h][i]);
    float sums[TILES][4] = {};
    multiply_units<D / UNIT, TILES>(sums, a, work.ring, mine);
    MARK(4);
    share_sums<TILES>(sums, work.parts);
    each_place<TILES>(pass.rows, write);
    MARK(5);
}

// out = residual + x W^T.
template <int K>
DEV void add_product(Work& work, const Pass& pass, const bf16* x, bf16* out) {
    const int mine = tiles_of_block(D / 8);
    if (mine == 0) return;
    float sums[TILES_D][4] = {};
    uint4 a[2][HALVES][BLOCKS];
    ask_rows<1, K>(a[0], x, pass.rows, 0);
    sync_multipliers();   // the parts of the phase before have been read
#pragma unroll
    for (int u = 0; u < K / UNIT; ++u) {
        if (u + 1 < K / UNIT) ask_rows<1, K>(a[(u + 1) % 2], x, pass.rows, u + 1);
        await_rows<1, K>(a[u % 2], x, u);
        if (u == 0) MARK(2);
        multiply_units<1, TILES_D>(sums, a[u % 2], work.ring, mine);
    }
    MARK(4);
    share_sums<TILES_D>(sums, work.parts);
    each_place<TILES_D>(pass.rows, [&](const Place& place) {
        if (place.tile >= mine) return;
        const float2 sum = place.total<TILES_D>(work.parts, place.tile);
        unsigned& old = work.kept[((place.group * HALVES + place.half) * TILES_D + place.tile) * 32 + place.lane];
        old = pack_bf16(round_bf16(sum.x) + bf16_lo(old), round_bf16(sum.y) + bf16_hi(old));
        st_cg_u32(out + (size_t)place.row * D + (blockIdx.x + place.tile * GRID) * 8 + place.column, old);
    });
    MARK(5);
}

// ---- attention -----------------------------------------------------------------------------------------------------

struct Head {
    float low[2], high[2];   // dims 2 l, 2 l + 1 of lane l, and E / 2 + the same
};

DEV Head unpacked(unsigned low, unsigned high) { return {{bf16_lo(low), bf16_hi(low)}, {bf16_lo(high), bf16_hi(high)}}; }

DEV float dot(const Head& a, const Head& b) {
    return a.low[0] * b.low[0] + a.low[1] * b.low[1] + a.high[0] * b.high[0] + a.high[1] * b.high[1];
}

// Norm weights and rotation of the three heads of a lane.
struct Turn {
    unsigned low[3], high[3], cos, sin;

    DEV static Turn of(const Layer& layer, const Pass& pass, int head, int position) {
        const int lane = threadIdx.x % 32;
        Turn turn;
#pragma unroll
        for (int i = 0; i < 3; ++i) {
            const bf16* norm = layer.head_norm + (i < GROUP ? head * GROUP + i : H + head) * E + 2 * lane;
            turn.low[i] = *(const unsigned*)norm;
            turn.high[i] = *(const unsigned*)(norm + E / 2);
        }
        turn.cos = *(const unsigned*)(pass.cos + (size_t)position * (E / 2) + 2 * lane);
        turn.sin = *(const unsigned*)(pass.sin + (size_t)position * (E / 2) + 2 * lane);
        return turn;
    }

    DEV Head operator()(const Head& x, int i, float eps) const {
        const float scale = rsqrtf(warp_sum(dot(x, x)) / E + eps);
        const float c[2] = {bf16_lo(cos), bf16_hi(cos)}, s[2] = {bf16_lo(sin), bf16_hi(sin)};
        const float wl[2] = {bf16_lo(low[i]), bf16_hi(low[i])}, wh[2] = {bf16_lo(high[i]), bf16_hi(high[i])};
        Head out;
#pragma unroll
        for (int j = 0; j < 2; ++j) {
            const float a = round_bf16(round_bf16(x.low[j] * scale) * wl[j]), b = round_bf16(round_bf16(x.high[j] * scale) * wh[j]);
            out.low[j] = round_bf16(a * c[j] - b * s[j]);
            out.high[j] = round_bf16(b * c[j] + a * s[j]);
        }
        return out;
    }
};

// Queries, key and value of one key-value head of a row, as soon as they are there.
struct Own {
    Head q[2], k;
    uint2 v;

    DEV static Own await(const bf16* packed, int head) {
        const int lane = threadIdx.x % 32;
        const bf16 *q_at = packed + head * GROUP * E + 2 * lane, *k_at = packed + (H + head) * E + 2 * lane;
        unsigned w[6];
        uint2 v;
        bool missing;
        do {
            w[0] = ld_relaxed_u32(q_at), w[1] = ld_relaxed_u32(q_at + E / 2);
            w[2] = ld_relaxed_u32(q_at + E), w[3] = ld_relaxed_u32(q_at + E + E / 2);
            w[4] = ld_relaxed_u32(k_at), w[5] = ld_relaxed_u32(k_at + E / 2);
            v = ld_relaxed_v2(packed + (H + KH + head) * E + 4 * lane);
            missing = v.x == EMPTY || v.y == EMPTY;
#pragma unroll
            for (int i = 0; i < 6; ++i) missing = missing || w[i] == EMPTY;
        } while (missing);
        __syncwarp();
        return {{unpacked(w[0], w[1]), unpacked(w[2], w[3])}, unpacked(w[4], w[5]), v};
    }

    DEV void turn(const Turn& by, float eps) {
        q[0] = by(q[0], 0, eps);
        q[1] = by(q[1], 1, eps);
        k = by(k, 2, eps);
    }

    DEV void store(bf16* key, bf16* value) const {
        const int lane = threadIdx.x % 32;
        st_cg_u32(key + 2 * lane, pack_bf16(k.low[0], k.low[1]));
        st_cg_u32(key + E / 2 + 2 * lane, pack_bf16(k.high[0], k.high[1]));
        st_cg_v2(value + 4 * lane, v);
    }
};

// Sixteen positions: two lanes score one of them, and every lane holds four dims of all values.
struct Chunk {
    uint4 key[8];
    uint2 value[16];
    bool seen;

    // `where` is this lane's position's place in the cache; it is asked for only if `seen_here`.
    DEV static Chunk ask(const bf16* keys, const bf16* values, long long where, bool seen_here) {
        const int lane = threadIdx.x % 32;
        Chunk chunk;
        chunk.seen = seen_here;
        const bf16* at = keys + where * (KH * E) + lane % 2 * (E / 2);
#pragma unroll
        for (int i = 0; i < 8; ++i) chunk.key[i] = seen_here ? ld_cg_v4(at + i * 8) : make_uint4(0, 0, 0, 0);
#pragma unroll
        for (int p = 0; p < 16; ++p) {
            const long long there = __shfl_sync(0xffffffffu, where, 2 * p);
            const int is_seen = __shfl_sync(0xffffffffu, (int)seen_here, 2 * p);
            chunk.value[p] = is_seen ? ld_cg_v2(values + there * (KH * E) + 4 * lane) : make_uint2(0, 0);
        }
        return chunk;
    }
};

// Softmax so far of both queries, not yet divided.
struct Softmax {
    float largest[2], total[2], out[2][4];

    DEV void start() {
#pragma unroll
        for (int g = 0; g < 2; ++g) {
            largest[g] = -1e30f;
            total[g] = out[g][0] = out[g][1] = out[g][2] = out[g][3] = 0.f;
        }
    }

    DEV void start_from(const Own& own) {
#pragma unroll
        for (int g = 0; g < 2; ++g) {
            largest[g] = warp_sum(dot(own.q[g], own.k)) * rsqrtf((float)E);
            total[g] = 1.f;
            out[g][0] = bf16_lo(own.v.x), out[g][1] = bf16_hi(own.v.x), out[g][2] = bf16_lo(own.v.y), out[g][3] = bf16_hi(own.v.y);
        }
    }

    // `queries` [2, E] in shared memory.
    DEV void add(const Chunk& chunk, const float* queries) {
        const int lane = threadIdx.x % 32;
#pragma unroll
        for (int g = 0; g < 2; ++g) {
            const float* q = queries + g * E + lane % 2 * (E / 2);
            float score = 0.f;
#pragma unroll
            for (int i = 0; i < 8; ++i) {
                const float4 a = *(const float4*)(q + i * 8), b = *(const float4*)(q + i * 8 + 4);
                const uint4 k = chunk.key[i];
                score += bf16_lo(k.x) * a.x + bf16_hi(k.x) * a.y + bf16_lo(k.y) * a.z + bf16_hi(k.y) * a.w;
                score += bf16_lo(k.z) * b.x + bf16_hi(k.z) * b.y + bf16_lo(k.w) * b.z + bf16_hi(k.w) * b.w;
            }
            score += __shfl_xor_sync(0xffffffffu, score, 1);
            score = chunk.seen ? score * rsqrtf((float)E) : -1e30f;
            float peak = fmaxf(score, largest[g]);
#pragma unroll
            for (int m = 2; m < 32; m *= 2) peak = fmaxf(peak, __shfl_xor_sync(0xffffffffu, peak, m));
            const float share = chunk.seen ? expf(score - peak) : 0.f, shrink = expf(largest[g] - peak);
            float sum = share;
#pragma unroll
            for (int m = 2; m < 32; m *= 2) sum += __shfl_xor_sync(0xffffffffu, sum, m);
            total[g] = total[g] * shrink + sum;
            largest[g] = peak;
#pragma unroll
            for (int j = 0; j < 4; ++j) out[g][j] *= shrink;
#pragma unroll
            for (int p = 0; p < 16; ++p) {
                const float weight = __shfl_sync(0xffffffffu, share, 2 * p);
                out[g][0] += weight * bf16_lo(chunk.value[p].x);
                out[g][1] += weight * bf16_hi(chunk.value[p].x);
                out[g][2] += weight * bf16_lo(chunk.value[p].y);
                out[g][3] += weight * bf16_hi(chunk.value[p].y);
            }
        }
    }
};

DEV void write_queries(float* queries, const Own& own) {
    const int lane = threadIdx.x % 32;
#pragma unroll
    for (int g = 0; g < 2; ++g) {
        *(float2*)(queries + g * E + 2 * lane) = make_float2(own.q[g].low[0], own.q[g].low[1]);
        *(float2*)(queries + g * E + E / 2 + 2 * lane) = make_float2(own.q[g].high[0], own.q[g].high[1]);
    }
    __syncwarp();
}

DEV long long place_of(const Pass& pass, long long slot, int position) {
    return (long long)pass.tables[slot * pass.table_stride + position / pass.block_size] * pass.block_size + position % pass.block_size;
}

#if WARP_ATTENDS
// A warp per row and key-value head: at most sixteen positions.
DEV void attention(const Pass& pass, const Layer& layer, const bf16* packed, bf16* attended, bf16* keys, bf16* values, Work& work) {
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    for (int item = blockIdx.x + GRID * warp; item < pass.rows * KH; item += GRID * WARPS) {
        const int row = item / KH, head = item % KH, now = (int)pass.positions[row];
        const bool seen = lane / 2 < now;
        const Chunk chunk = Chunk::ask(keys + head * E, values + head * E, seen ? place_of(pass, pass.slots[row], lane / 2) : 0, seen);
        const Turn turn = Turn::of(layer, pass, head, now);
        const size_t mine = (size_t)pass.kv_slots[row] * KH * E + head * E;
        Own own = Own::await(packed + (size_t)row * QKV, head);
        own.turn(turn, pass.eps);
        own.store(keys + mine, values + mine);
        float* queries = work.scratch + warp * GROUP * E;
        write_queries(queries, own);
        Softmax softmax;
        softmax.start_from(own);
        if (now > 0) softmax.add(chunk, queries);
        __syncwarp();
#pragma unroll
        for (int g = 0; g < 2; ++g) {
            const float scale = 1.f / softmax.total[g];
            st_cg_v2(attended + (size_t)row * H * E + (head * GROUP + g) * E + 4 * lane,
                     make_uint2(pack_bf16(softmax.out[g][0] * scale, softmax.out[g][1] * scale),
                                pack_bf16(softmax.out[g][2] * scale, softmax.out[g][3] * scale)));
        }
    }
}
#else
// A block per row and key-value head: its warps take sixteen positions each in turn, and then meet.
DEV void attention(const Pass& pass, const Layer& layer, const bf16* packed, bf16* attended, bf16* keys, bf16* values, Work& work) {
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    float* queries = work.scratch + warp * GROUP * E;
    float* outs = (float*)work.parts;                    // [WARPS, GROUP, E + 2]
    for (int item = blockIdx.x; item < pass.rows * KH; item += GRID) {
        const int row = item / KH, head = item % KH, now = (int)pass.positions[row];
        const long long slot = pass.slots[row];
        int position = warp * 16 + lane / 2;
        bool seen = position < now;
        Chunk chunk = Chunk::ask(keys + head * E, values + head * E, seen ? place_of(pass, slot, position) : 0, seen);
        const Turn turn = Turn::of(layer, pass, head, now);
        const size_t mine = (size_t)pass.kv_slots[row] * KH * E + head * E;
        Own own = Own::await(packed + (size_t)row * QKV, head);
        own.turn(turn, pass.eps);
        write_queries(queries, own);
        Softmax softmax;
        if (warp == 0) {
            own.store(keys + mine, values + mine);
            softmax.start_from(own);
        } else
            softmax.start();
        for (int first = warp * 16; first < now; first += WARPS * 16) {
            softmax.add(chunk, queries);
            position += WARPS * 16;
            seen = position < now;
            if (first + WARPS * 16 < now)
                chunk = Chunk::ask(keys + head * E, values + head * E, seen ? place_of(pass, slot, position) : 0, seen);
        }
        sync_multipliers();   // what lay in `parts` has been read
#pragma unroll
        for (int g = 0; g < 2; ++g) {
            float* at = outs + (warp * GROUP + g) * (E + 4);
            *(float4*)(at + 4 * lane) = make_float4(softmax.out[g][0], softmax.out[g][1], softmax.out[g][2], softmax.out[g][3]);
            if (lane == 0) at[E] = softmax.largest[g], at[E + 1] = softmax.total[g];
        }
        sync_multipliers();
        if (threadIdx.x < GROUP * E / 2) {
            const int g = threadIdx.x / (E / 2), dim = threadIdx.x % (E / 2) * 2;
            float peak = -1e30f, total = 0.f, sum[2] = {0.f, 0.f};
#pragma unroll
            for (int w = 0; w < WARPS; ++w) peak = fmaxf(peak, outs[(w * GROUP + g) * (E + 4) + E]);
#pragma unroll
            for (int w = 0; w < WARPS; ++w) {
                const float* at = outs + (w * GROUP + g) * (E + 4);
                const float weight = expf(at[E] - peak);
                total += weight * at[E + 1];
                sum[0] += weight * at[dim];
                sum[1] += weight * at[dim + 1];
            }
            st_cg_u32(attended + (size_t)row * H * E + (head * GROUP + g) * E + dim, pack_bf16(sum[0] / total, sum[1] / total));
        }
    }
}
#endif

// ---- the pass ------------------------------------------------------------------------------------------------------

DEV void keep_residual(const Pass& pass, unsigned* kept) {
    each_place<TILES_D>(pass.rows, [&](const Place& place) {
        if (place.tile < tiles_of_block(D / 8))
            kept[((place.group * HALVES + place.half) * TILES_D + place.tile) * 32 + place.lane] =
                ld_cg_u32(pass.x + (size_t)place.row * D + (blockIdx.x + place.tile * GRID) * 8 + place.column);
    });
}

DEV void run_layers(const Pass& pass, Work& work) {
    const int rows = pass.rows, mine_qkv = tiles_of_block(QKV / 8), mine_f = tiles_of_block(F / 8), mine_v = tiles_of_block(V / 8);
    gdc_wait();
    const unsigned launch = ld_cg_u32(pass.launches);
    bf16* const final_out = pass.out + (size_t)(NUM_LAYERS - 1 + launch % 2) * ROWS * D;
    keep_residual(pass, work.kept);
    const bf16* x = pass.x;
    for (int number = 0; number < NUM_LAYERS; ++number) {
        const Layer& layer = pass.layers[number];
        bf16* packed = pass.packed + (size_t)number * ROWS * QKV;
        bf16* attended = pass.attended + (size_t)number * ROWS * H * E;
        bf16* middle = pass.middle + (size_t)number * ROWS * D;
        bf16* inner = pass.inner + (size_t)number * ROWS * F;
        bf16* out = number == NUM_LAYERS - 1 ? final_out : pass.out + (size_t)number * ROWS * D;
        bf16* keys = pass.kv + (size_t)number * 2 * pass.cache_positions * KH * E;
        MARK(1);
        norm_product<TILES_QKV>(work, pass, x, number > 0, mine_qkv, nullptr, [&](const Place& place) {
            if (place.tile >= mine_qkv) return;
            const float2 sum = place.total<TILES_QKV>(work.parts, place.tile);
            st_cg_u32(packed + (size_t)place.row * QKV + (blockIdx.x + place.tile * GRID) * 8 + place.column, pack_bf16(sum.x, sum.y));
        });
        if (number > 0) {   // all of the last layer's output has arrived, so everybody has read what it was made from
            clear(middle - (size_t)ROWS * D, rows * D);
            clear(inner - (size_t)ROWS * F, rows * F);
        } else
            clear(pass.out + (size_t)(NUM_LAYERS - launch % 2) * ROWS * D, ROWS * D);   // of the launch before
        MARK(1);
        attention(pass, layer, packed, attended, keys, keys + pass.cache_positions * KH * E, work);
        MARK(5);
        add_product<H * E>(work, pass, attended, middle);
        MARK(1);
        norm_product<2 * PAIRS>(work, pass, middle, true, 2 * mine_f, nullptr, [&](const Place& place) {
            if (place.tile % 2 || place.tile / 2 >= mine_f) return;
            const float2 gate = place.total<2 * PAIRS>(work.parts, place.tile), up = place.total<2 * PAIRS>(work.parts, place.tile + 1);
            const float g0 = round_bf16(gate.x), g1 = round_bf16(gate.y);
            st_cg_u32(inner + (size_t)place.row * F + (blockIdx.x + place.tile / 2 * GRID) * 8 + place.column,
                      pack_bf16(g0 / (1.f + expf(-g0)) * round_bf16(up.x), g1 / (1.f + expf(-g1)) * round_bf16(up.y)));
        });
        clear(packed, rows * QKV);
        clear(attended, rows * H * E);
        if (number > 0) clear(out == final_out ? pass.out + (size_t)(number - 1) * ROWS * D : out - (size_t)ROWS * D, rows * D);
        MARK(1);
        add_product<F>(work, pass, inner, out);
        x = out;
    }
    gdc_launch_dependents();
    MARK(1);
    norm_product<TILES_V>(work, pass, x, true, mine_v, blockIdx.x == 0 ? pass.hidden : nullptr, [&](const Place& place) {
        if (place.tile >= mine_v) return;
        const float2 sum = place.total<TILES_V>(work.parts, place.tile);
        st_cg_u32(pass.logits + (size_t)place.row * V + (blockIdx.x + place.tile * GRID) * 8 + place.column, pack_bf16(sum.x, sum.y));
    });
    clear(pass.middle + (size_t)(NUM_LAYERS - 1) * ROWS * D, rows * D);
    clear(pass.inner + (size_t)(NUM_LAYERS - 1) * ROWS * F, rows * F);
    if (blockIdx.x == 0 && threadIdx.x == 0) st_cg_u32(pass.launches, launch + 1);   // every block has read it long ago
}

constexpr int PARTS_BYTES = WARPS * MOST_TILES * 64 * 8;
constexpr int GAINS_BYTES = 2 * D * 2;

extern "C" __global__ void __launch_bounds__(THREADS + 128, 1) decoder_pass(const __grid_constant__ Pass pass) {
    extern __shared__ __align__(16) unsigned char dynamic[];   // units, parts, gains
    __shared__ __align__(16) float scratch[WARPS * GROUP * E];
    __shared__ float squares[ROWS * SPLIT];
    __shared__ unsigned kept[ROWS / 8 * TILES_D * 32];
    __shared__ mbarrier full[SLOTS], empty[SLOTS], gains_full[2], gains_empty[2];
    if (threadIdx.x == 0) {
#ifdef TRACE
        trace_at = 0;
#endif
        for (int i = 0; i < SLOTS; ++i) {
            mbarrier_init(&full[i], 1);
            mbarrier_init(&empty[i], WARPS);
        }
        for (int i = 0; i < 2; ++i) {
            mbarrier_init(&gains_full[i], 1);
            mbarrier_init(&gains_empty[i], WARPS);
        }
        mbarrier_init_fence();
    }
    __syncthreads();
    unsigned char* const parts = dynamic + SLOTS * UNIT_BYTES;
    Work work{Ring{dynamic, full, empty, 0, 0}, Gains{(bf16*)(parts + PARTS_BYTES), gains_full, gains_empty, 0},
              (float2*)parts, squares, kept, scratch};
    // Registers go from the warps that copy, of which one has work, to those that multiply; four warps change together.
    if (threadIdx.x >= THREADS) {
        give_registers<40>();
        if (threadIdx.x < THREADS + 32) send_all(pass, work.ring, work.gains);
        gdc_launch_dependents();
    } else {
        take_registers<232>();
        run_layers(pass, work);
    }
}
