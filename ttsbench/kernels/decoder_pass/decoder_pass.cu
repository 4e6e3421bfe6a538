// A decoder stack in one launch: all layers, the final norm and the head, for a few rows of one position each.
//
// Every block stays on its multiprocessor for the whole pass and owns the same columns of every product. A layer is five
// phases:
//     norm + q, k, v | attention | output + residual | norm + gate, up + silu | down + residual
// Each needs all of the phase before it, from all blocks: a pass is a chain of hand-overs, and the weights, which depend
// on nothing, have to flow past it without a pause. Hence two halves of a block:
//
//     one warp copies weights, in the order of their use, into a ring of units in shared memory, as far ahead as it holds;
//     eight warps multiply.
//
// A product [R, K] x [N, K]^T is cut by columns over blocks, 8 at a time, and by terms over the warps of a block, whose
// partial sums meet in shared memory, always in the same order: results do not depend on who was faster. Each warp multiplies
// all rows: what it has read of a unit serves all of them. All products are one loop: instructions are read once a layer, and
// what does not fit into the instruction cache comes at the pace of L2.
//
// Norms. Whoever writes a residual writes it times the next norm's gains, and its sum of squares per 8 columns; the product
// after it scales its sums by 1 / rms of the row.
//
// Hand-over. A word of activations that is not there yet is EMPTY, two bfloat16 NaN (as a float, one) that no operation
// yields: nothing but the data travels. A counter would be slower, as a fence waits for the copies of weights under way too.
// Every place is written once in a launch, and emptied again as soon as what has arrived proves that every reader is done
// with it. A block that has nothing to write in a phase must not read in it either: nobody would know when it is done.
// Activations travel through L2, past L1, which is not coherent.
//
// Shapes: R rows, D width, F inner width, H query heads, KH key-value heads, E head width, V codes, L layers.
#include "../device.cuh"

#define DEV __device__ __forceinline__

typedef unsigned short bf16;

constexpr int WARPS = 8;                      // that multiply
constexpr int THREADS = 32 * WARPS;
constexpr int D = HIDDEN, F = INNER, H = NUM_HEADS, KH = NUM_KV_HEADS, E = HEAD_DIM, V = VOCABULARY;
constexpr int GROUP = H / KH, QKV = (H + 2 * KH) * E;
constexpr int HALVES = ROW_HALVES;            // stretches of eight rows: 1 or 2, which a tensor core takes at once
constexpr int ROWS = 8 * HALVES;              // at most
constexpr int UNIT = UNIT_TERMS;              // a unit of weights: 8 columns by so many terms
constexpr int BLOCKS = UNIT / 32 / WARPS;     // of 32 terms, that a warp takes of a unit
constexpr int PITCH = UNIT * 2 + 64;          // bytes between columns: eight lanes then read from eight different banks
constexpr int UNIT_BYTES = 8 * PITCH;
constexpr int TILES_QKV = (QKV / 8 + GRID - 1) / GRID, TILES_D = (D / 8 + GRID - 1) / GRID;
constexpr int PAIRS = (F / 8 + GRID - 1) / GRID, TILES_V = (V / 8 + GRID - 1) / GRID;
constexpr int larger(int a, int b) { return a > b ? a : b; }
constexpr int MOST_TILES = larger(larger(TILES_QKV, 2 * PAIRS), larger(TILES_D, TILES_V));

static_assert(HALVES == 1 || HALVES == 2, "a tensor core takes sixteen rows");
static_assert(D % UNIT == 0 && H * E % UNIT == 0 && F % UNIT == 0, "products are cut into whole units");
static_assert(UNIT % (32 * WARPS) == 0 && PITCH / 16 % 8 == 4, "lanes");
static_assert(QKV / 8 >= GRID && F / 8 >= GRID && V / 8 >= GRID, "every block empties places, so every block must have read");
static_assert(E == 128 && GROUP == 2, "attention: a lane holds four dims of a head, pairs of lanes share a position");
static_assert(MOST_TILES * 512 >= GROUP * (E + 4) * 4, "attention meets where partial sums do");

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
    bf16* packed;              // [L, ROWS, QKV], EMPTY, as the next six
    bf16* attended;            // [L, ROWS, H * E]
    bf16* middle;              // [L, ROWS, D] times the gains of the norm after it, like `out`
    bf16* inner;               // [L, ROWS, F]
    bf16* out;                 // [L + 1, ROWS, D]: the last layer's lies in one of two places by turns
    float* middle_squares;     // [L, ROWS, D / 8]
    float* out_squares;        // [L + 1, ROWS, D / 8]
    unsigned* launches;        // so far
    long long cache_positions; // of one layer's keys
    int rows, table_stride, block_size;
    float eps;
};

DEV int tiles_of_block(int tiles) { return blockIdx.x < tiles ? (tiles - 1 - (int)blockIdx.x) / GRID + 1 : 0; }

DEV void sync_multipliers() { bar_sync(1, THREADS); }

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

// One warp: 8 columns of `weight` [N, K] by one unit of terms.
DEV void send_unit(Ring& ring, const bf16* weight, int K, unsigned long long policy) {
    const int lane = threadIdx.x % 32;
    mbarrier_wait(&ring.empty[ring.slot], ring.parity ^ 1);
    if (lane == 0) mbarrier_expect(&ring.full[ring.slot], 8 * UNIT * 2);
    __syncwarp();
    if (lane < 8) {
        unsigned char* const column = ring.units + ring.slot * UNIT_BYTES + lane * PITCH;
        copy_bulk(column, weight + (size_t)lane * K, UNIT * 2, &ring.full[ring.slot], policy);
    }
    ring.advance();
}

DEV void send_tiles(Ring& ring, const bf16* weight, int K, int tiles, unsigned long long policy) {
#pragma unroll 1
    for (int term = 0; term < K; term += UNIT)
#pragma unroll 1
        for (int tile = blockIdx.x; tile < tiles; tile += GRID) send_unit(ring, weight + (size_t)tile * 8 * K + term, K, policy);
}

// Gate and up of the same columns, side by side.
DEV void send_pairs(Ring& ring, const bf16* weight, unsigned long long policy) {
#pragma unroll 1
    for (int term = 0; term < D; term += UNIT)
#pragma unroll 1
        for (int i = 0; i < 2 * tiles_of_block(F / 8); ++i)
            send_unit(ring, weight + ((size_t)(i % 2 * F) + (blockIdx.x + i / 2 * GRID) * 8) * D + term, D, policy);
}

DEV void send_all(const Pass& pass, Ring& ring) {
    const unsigned long long policy = l2_evict_first();   // read once: they are not to drive out what stays in L2
#pragma unroll 1
    for (int number = 0; number < NUM_LAYERS; ++number) {
        const Layer& layer = pass.layers[number];
        send_tiles(ring, layer.qkv, D, QKV / 8, policy);
        send_tiles(ring, layer.output, H * E, D / 8, policy);
        send_pairs(ring, layer.gate_up, policy);
        send_tiles(ring, layer.down, F, D / 8, policy);
    }
    send_tiles(ring, pass.head, D, V / 8, policy);
}

// A lane's share of the unit in turn: column lane / 4, eight terms of lane % 4 in each block of 32.
DEV void take_unit(uint4 (&w)[BLOCKS], Ring& ring) {
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    mbarrier_wait(&ring.full[ring.slot], ring.parity);
    const unsigned char* at = ring.units + ring.slot * UNIT_BYTES + lane / 4 * PITCH + (warp * BLOCKS * 32 + lane % 4 * 8) * 2;
#pragma unroll
    for (int i = 0; i < BLOCKS; ++i) w[i] = *(const uint4*)(at + i * 64);
    __syncwarp();
    if (lane == 0) mbarrier_arrive(&ring.empty[ring.slot]);
    ring.advance();
}

// ---- hand-over -----------------------------------------------------------------------------------------------------

constexpr unsigned EMPTY = 0xffffffffu;

DEV bool is_empty(uint4 v) { return v.x == EMPTY || v.y == EMPTY || v.z == EMPTY || v.w == EMPTY; }

// By all multiplying threads of all blocks.
DEV void clear(void* at, int bytes) {
#pragma unroll 1
    for (int i = blockIdx.x * THREADS + threadIdx.x; i < bytes / 16; i += GRID * THREADS)
        st_cg_v4((unsigned char*)at + (size_t)i * 16, make_uint4(EMPTY, EMPTY, EMPTY, EMPTY));
}

// ---- products ------------------------------------------------------------------------------------------------------

DEV int first_row() { return threadIdx.x % 32 / 4; }

DEV int first_term() { return threadIdx.x / 32 * BLOCKS * 32 + threadIdx.x % 4 * 8; }

// The lane's terms of one unit of its rows of x [R, K].
DEV void load_rows(uint4 (&a)[HALVES][BLOCKS], const bf16* x, int K, int unit, int rows) {
#pragma unroll
    for (int h = 0; h < HALVES; ++h) {
        const int row = first_row() + 8 * h;
        const bf16* at = x + (size_t)row * K + unit * UNIT + first_term();
#pragma unroll
        for (int i = 0; i < BLOCKS; ++i) a[h][i] = row < rows ? ld_relaxed_v4(at + i * 32) : make_uint4(0, 0, 0, 0);
    }
}

// Ask again for what was not there.
DEV void await_rows(uint4 (&a)[HALVES][BLOCKS], const bf16* x, int K, int unit) {
    bool missing = true;
    while (missing) {
        missing = false;
#pragma unroll
        for (int h = 0; h < HALVES; ++h)
#pragma unroll
            for (int i = 0; i < BLOCKS; ++i)
                if (is_empty(a[h][i])) {
                    a[h][i] = ld_relaxed_v4(x + (size_t)(first_row() + 8 * h) * K + unit * UNIT + first_term() + i * 32);
                    missing = true;
                }
    }
    __syncwarp();
}

DEV unsigned times(unsigned v, unsigned gain) { return pack_bf16(bf16_lo(v) * bf16_lo(gain), bf16_hi(v) * bf16_hi(gain)); }

DEV void apply_gains(uint4 (&a)[HALVES][BLOCKS], const bf16* gains, int unit) {
#pragma unroll
    for (int i = 0; i < BLOCKS; ++i) {
        const uint4 gain = ld_cg_v4(gains + unit * UNIT + first_term() + i * 32);
#pragma unroll
        for (int h = 0; h < HALVES; ++h)
            a[h][i] = make_uint4(
                times(a[h][i].x, gain.x), times(a[h][i].y, gain.y), times(a[h][i].z, gain.z), times(a[h][i].w, gain.w));
    }
}

// Of two halves. Several chains of dependent products instead of one: a tensor core takes some 33 cycles for each link.
DEV float4 multiply(const uint4 (&a)[HALVES][BLOCKS], const uint4 (&w)[BLOCKS]) {
    constexpr int CHAINS = BLOCKS < 4 ? BLOCKS : 4;
    float sums[CHAINS][4] = {};
#pragma unroll
    for (int i = 0; i < BLOCKS; ++i) {
        const uint4 above = a[0][i], below = HALVES > 1 ? a[HALVES - 1][i] : make_uint4(0, 0, 0, 0);
        mma_bf16(sums[i % CHAINS], above.x, below.x, above.y, below.y, w[i].x, w[i].y);
        mma_bf16(sums[i % CHAINS], above.z, below.z, above.w, below.w, w[i].z, w[i].w);
    }
#pragma unroll
    for (int i = 1; i < CHAINS; ++i)
#pragma unroll
        for (int j = 0; j < 4; ++j) sums[0][j] += sums[i][j];
    return make_float4(sums[0][0], sums[0][1], sums[0][2], sums[0][3]);
}

struct Work {
    Ring ring;
    float4* parts;       // [WARPS, MOST_TILES, 32] partial sums
    float* scales;       // [ROWS] 1 / rms
    unsigned* kept;      // the residual stream of this block's columns
    float* queries;      // [WARPS, GROUP, E]
};

// x [R, K] times the units in turn, `tiles` for each unit of terms: this warp's partial sums. `gains`: of the norm, if x does
// not have them yet.
DEV void multiply_tiles(Work& work, const bf16* x, int K, int rows, int tiles, const bf16* gains) {
    uint4 a[HALVES][BLOCKS], next[HALVES][BLOCKS], w[BLOCKS];
    float4* const parts = work.parts + threadIdx.x / 32 * MOST_TILES * 32 + threadIdx.x % 32;
    load_rows(next, x, K, 0, rows);
#pragma unroll 1
    for (int unit = 0; unit < K / UNIT; ++unit) {
#pragma unroll
        for (int h = 0; h < HALVES; ++h)
#pragma unroll
            for (int i = 0; i < BLOCKS; ++i) a[h][i] = next[h][i];
        if ((unit + 1) * UNIT < K) load_rows(next, x, K, unit + 1, rows);
        if (gains != nullptr) apply_gains(a, gains, unit);   // then x was there before the launch
        else await_rows(a, x, K, unit);
#pragma unroll 1
        for (int tile = 0; tile < tiles; ++tile) {
            take_unit(w, work.ring);
            float4& part = parts[tile * 32];
            float4 sum = multiply(a, w);
            if (unit > 0) sum = make_float4(sum.x + part.x, sum.y + part.y, sum.z + part.z, sum.w + part.w);
            part = sum;
        }
    }
}

// 1 / rms of the rows, from the sums of squares of their columns, eight at a time, or from the rows themselves.
DEV void find_scales(const Pass& pass, Work& work, const float* squares, const bf16* x) {
    const int lane = threadIdx.x % 32;
#pragma unroll 1
    for (int row = threadIdx.x / 32; row < pass.rows; row += WARPS) {
        float sum = 0.f;
        if (x == nullptr) {
            for (int i = lane * 4; i < D / 8; i += 128) {
                uint4 v;
                do v = ld_relaxed_v4(squares + row * (D / 8) + i);
                while (is_empty(v));
                sum += __uint_as_float(v.x) + __uint_as_float(v.y) + __uint_as_float(v.z) + __uint_as_float(v.w);
            }
        } else
            for (int i = lane * 2; i < D; i += 64) {
                const unsigned v = ld_cg_u32(x + (size_t)row * D + i);
                sum += bf16_lo(v) * bf16_lo(v) + bf16_hi(v) * bf16_hi(v);
            }
        __syncwarp();
        sum = warp_sum(sum);
        if (lane == 0) work.scales[row] = rsqrtf(sum / D + pass.eps);
    }
}

// Two neighbouring columns of one row, which this thread writes.
struct Place {
    int tile, row, column, half, lane;

    DEV float2 total(const Work& work, int tile) const {
        float2 sum = make_float2(0.f, 0.f);
#pragma unroll
        for (int w = 0; w < WARPS; ++w) {
            const float4* of_lane = work.parts + (w * MOST_TILES + tile) * 32 + lane;
            const float2 part = ((const float2*)of_lane)[half];
            sum.x += part.x;
            sum.y += part.y;
        }
        return sum;
    }
};

// Calls write(place) for all places of `tiles` tiles, by whole warps; the rows need not exist.
template <class Write>
DEV void each_place(int tiles, Write write) {
#pragma unroll 1
    for (int i = threadIdx.x; i < tiles * ROWS * 4; i += THREADS) {
        const int lane = i % 32, half = i / 32 % HALVES;
        write(Place{i / (ROWS * 4), half * 8 + lane / 4, lane % 4 * 2, half, lane});
    }
}

// out [R, N]: the sums, scaled.
DEV void write_scaled(const Pass& pass, const Work& work, int tiles, bf16* out, int N) {
    each_place(tiles, [&](const Place& place) {
        if (place.row >= pass.rows) return;
        const float2 sum = place.total(work, place.tile);
        const float scale = work.scales[place.row];
        st_cg_u32(out + (size_t)place.row * N + (blockIdx.x + place.tile * GRID) * 8 + place.column,
                  pack_bf16(sum.x * scale, sum.y * scale));
    });
}

DEV float silu(float x) { return x / (1.f + expf(-x)); }

// inner [R, F] from gate and up tiles side by side.
DEV void write_gated(const Pass& pass, const Work& work, int pairs, bf16* inner) {
    each_place(pairs, [&](const Place& place) {
        if (place.row >= pass.rows) return;
        const float scale = work.scales[place.row];
        const float2 gate = place.total(work, 2 * place.tile), up = place.total(work, 2 * place.tile + 1);
        st_cg_u32(inner + (size_t)place.row * F + (blockIdx.x + place.tile * GRID) * 8 + place.column,
                  pack_bf16(silu(round_bf16(gate.x * scale)) * round_bf16(up.x * scale),
                            silu(round_bf16(gate.y * scale)) * round_bf16(up.y * scale)));
    });
}

// The sums are added to the residual; out [R, D] is that times `gains`, `squares` its sums of squares.
DEV void write_residual(const Pass& pass, const Work& work, int tiles, const bf16* gains, bf16* out, float* squares) {
    each_place(tiles, [&](const Place& place) {
        const int column = (blockIdx.x + place.tile * GRID) * 8 + place.column;
        const unsigned gain = ld_cg_u32(gains + column);
        const float2 sum = place.total(work, place.tile);
        unsigned& kept = work.kept[(place.half * TILES_D + place.tile) * 32 + place.lane];
        const unsigned now = pack_bf16(round_bf16(sum.x) + bf16_lo(kept), round_bf16(sum.y) + bf16_hi(kept));
        kept = now;
        float square = bf16_lo(now) * bf16_lo(now) + bf16_hi(now) * bf16_hi(now);
        square += __shfl_xor_sync(0xffffffffu, square, 1);
        square += __shfl_xor_sync(0xffffffffu, square, 2);
        if (place.row >= pass.rows) return;
        st_cg_u32(out + (size_t)place.row * D + column, times(now, gain));
        if (place.lane % 4 == 0) st_cg_u32(squares + place.row * (D / 8) + column / 8, __float_as_uint(square));
    });
}

// ---- attention -----------------------------------------------------------------------------------------------------

struct Head {
    float low[2], high[2];   // dims 2 l, 2 l + 1 of lane l, and E / 2 + the same
};

DEV Head unpacked(unsigned low, unsigned high) { return {{bf16_lo(low), bf16_hi(low)}, {bf16_lo(high), bf16_hi(high)}}; }

DEV float dot(const Head& a, const Head& b) {
    return a.low[0] * b.low[0] + a.low[1] * b.low[1] + a.high[0] * b.high[0] + a.high[1] * b.high[1];
}

DEV Head turned(const Head& x, unsigned gain_low, unsigned gain_high, unsigned cos, unsigned sin, float eps) {
    const float scale = rsqrtf(warp_sum(dot(x, x)) / E + eps);
    const float c[2] = {bf16_lo(cos), bf16_hi(cos)}, s[2] = {bf16_lo(sin), bf16_hi(sin)};
    const float wl[2] = {bf16_lo(gain_low), bf16_hi(gain_low)}, wh[2] = {bf16_lo(gain_high), bf16_hi(gain_high)};
    Head out;
#pragma unroll
    for (int j = 0; j < 2; ++j) {
        const float a = round_bf16(round_bf16(x.low[j] * scale) * wl[j]), b = round_bf16(round_bf16(x.high[j] * scale) * wh[j]);
        out.low[j] = round_bf16(a * c[j] - b * s[j]);
        out.high[j] = round_bf16(b * c[j] + a * s[j]);
    }
    return out;
}

// Where a row stands, and a lane's part of its rotation: the same in all layers, so it is fetched once.
struct Stand {
    int row, head, now;
    unsigned cos, sin;
    long long mine, first;   // places in the cache: of the row's own position, of the warp's first chunk
    const int* table;

    DEV static Stand of(const Pass& pass, int item) {
        const int lane = threadIdx.x % 32;
        Stand at;
        at.row = item / KH, at.head = item % KH;
        at.now = (int)pass.positions[at.row];
        at.mine = pass.kv_slots[at.row];
        at.table = pass.tables + pass.slots[at.row] * pass.table_stride;
        at.cos = *(const unsigned*)(pass.cos + (size_t)at.now * (E / 2) + 2 * lane);
        at.sin = *(const unsigned*)(pass.sin + (size_t)at.now * (E / 2) + 2 * lane);
        at.first = at.place(pass, WARP_ATTENDS ? 0 : threadIdx.x / 32 * 16);
        return at;
    }

    DEV long long place(const Pass& pass, int position) const {
        return position < now ? (long long)table[position / pass.block_size] * pass.block_size + position % pass.block_size : 0;
    }
};

// Norm weights of the queries and the key of a head group.
struct HeadGains {
    unsigned low[3], high[3];

    DEV static HeadGains of(const Layer& layer, int head) {
        const int lane = threadIdx.x % 32;
        HeadGains gains;
#pragma unroll
        for (int i = 0; i < 3; ++i) {
            const bf16* norm = layer.head_norm + (i < GROUP ? head * GROUP + i : H + head) * E + 2 * lane;
            gains.low[i] = *(const unsigned*)norm;
            gains.high[i] = *(const unsigned*)(norm + E / 2);
        }
        return gains;
    }
};

// Queries, key and value of one key-value head of a row.
struct Own {
    Head q[2], k;
    uint2 v;

    DEV static Own await(const bf16* packed, int head) {
        const int lane = threadIdx.x % 32;
        const bf16 *q = packed + head * GROUP * E + 2 * lane, *k = packed + (H + head) * E + 2 * lane;
        unsigned w[6];
        uint2 v;
        bool missing;
        do {
            w[0] = ld_relaxed_u32(q), w[1] = ld_relaxed_u32(q + E / 2);
            w[2] = ld_relaxed_u32(q + E), w[3] = ld_relaxed_u32(q + E + E / 2);
            w[4] = ld_relaxed_u32(k), w[5] = ld_relaxed_u32(k + E / 2);
            v = ld_relaxed_v2(packed + (H + KH + head) * E + 4 * lane);
            missing = v.x == EMPTY || v.y == EMPTY;
#pragma unroll
            for (int i = 0; i < 6; ++i) missing = missing || w[i] == EMPTY;
        } while (missing);
        __syncwarp();
        return {{unpacked(w[0], w[1]), unpacked(w[2], w[3])}, unpacked(w[4], w[5]), v};
    }

    DEV void turn(const HeadGains& by, const Stand& at, float eps) {
        q[0] = turned(q[0], by.low[0], by.high[0], at.cos, at.sin, eps);
        q[1] = turned(q[1], by.low[1], by.high[1], at.cos, at.sin, eps);
        k = turned(k, by.low[2], by.high[2], at.cos, at.sin, eps);
    }

    DEV void store(bf16* key, bf16* value) const {
        const int lane = threadIdx.x % 32;
        st_cg_u32(key + 2 * lane, pack_bf16(k.low[0], k.low[1]));
        st_cg_u32(key + E / 2 + 2 * lane, pack_bf16(k.high[0], k.high[1]));
        st_cg_v2(value + 4 * lane, v);
    }
};

// Sixteen positions: two lanes score one of them, and every lane holds four dims of all values. They are of one page.
struct Chunk {
    uint4 key[8];
    uint2 value[16];
    bool seen;

    // The first `count` positions from `keys` and `values` on.
    DEV void load(const bf16* keys, const bf16* values, int count) {
        const int lane = threadIdx.x % 32;
        seen = lane / 2 < count;
        const bf16* at = keys + lane / 2 * (KH * E) + lane % 2 * (E / 2);
#pragma unroll
        for (int i = 0; i < 8; ++i) key[i] = seen ? ld_cg_v4(at + i * 8) : make_uint4(0, 0, 0, 0);
#pragma unroll
        for (int p = 0; p < 16; ++p) value[p] = p < count ? ld_cg_v2(values + p * (KH * E) + 4 * lane) : make_uint2(0, 0);
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
            out[g][0] = bf16_lo(own.v.x), out[g][1] = bf16_hi(own.v.x);
            out[g][2] = bf16_lo(own.v.y), out[g][3] = bf16_hi(own.v.y);
        }
    }

    // `queries` [2, E] in shared memory.
    DEV void add(const Chunk& chunk, const float* queries) {
        const int lane = threadIdx.x % 32;
        float score[2] = {0.f, 0.f}, share[2];
        const float* q = queries + lane % 2 * (E / 2);
#pragma unroll
        for (int i = 0; i < 8; ++i) {
            const uint4 k = chunk.key[i];
            const float v[8] = {bf16_lo(k.x), bf16_hi(k.x), bf16_lo(k.y), bf16_hi(k.y),
                                bf16_lo(k.z), bf16_hi(k.z), bf16_lo(k.w), bf16_hi(k.w)};
#pragma unroll
            for (int g = 0; g < 2; ++g) {
                const float4 a = *(const float4*)(q + g * E + i * 8), b = *(const float4*)(q + g * E + i * 8 + 4);
                score[g] += v[0] * a.x + v[1] * a.y + v[2] * a.z + v[3] * a.w
                    + v[4] * b.x + v[5] * b.y + v[6] * b.z + v[7] * b.w;
            }
        }
#pragma unroll
        for (int g = 0; g < 2; ++g) {
            score[g] += __shfl_xor_sync(0xffffffffu, score[g], 1);
            score[g] = chunk.seen ? score[g] * rsqrtf((float)E) : -1e30f;
            float peak = fmaxf(score[g], largest[g]);
#pragma unroll
            for (int m = 2; m < 32; m *= 2) peak = fmaxf(peak, __shfl_xor_sync(0xffffffffu, peak, m));
            share[g] = chunk.seen ? expf(score[g] - peak) : 0.f;
            const float shrink = expf(largest[g] - peak);
            float sum = share[g];
#pragma unroll
            for (int m = 2; m < 32; m *= 2) sum += __shfl_xor_sync(0xffffffffu, sum, m);
            total[g] = total[g] * shrink + sum;
            largest[g] = peak;
#pragma unroll
            for (int j = 0; j < 4; ++j) out[g][j] *= shrink;
        }
#pragma unroll
        for (int p = 0; p < 16; ++p) {
            const uint2 packed = chunk.value[p];
            const float v[4] = {bf16_lo(packed.x), bf16_hi(packed.x), bf16_lo(packed.y), bf16_hi(packed.y)};
#pragma unroll
            for (int g = 0; g < 2; ++g) {
                const float weight = __shfl_sync(0xffffffffu, share[g], 2 * p);
#pragma unroll
                for (int j = 0; j < 4; ++j) out[g][j] += weight * v[j];
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

// The warps' softmaxes of one item become its output [GROUP, E].
DEV void meet(Work& work, const Softmax& softmax, bf16* out) {
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
#if WARP_ATTENDS
    __syncwarp();
#pragma unroll
    for (int g = 0; g < 2; ++g) {
        const float scale = 1.f / softmax.total[g];
        st_cg_v2(out + g * E + 4 * lane, make_uint2(pack_bf16(softmax.out[g][0] * scale, softmax.out[g][1] * scale),
                                                    pack_bf16(softmax.out[g][2] * scale, softmax.out[g][3] * scale)));
    }
#else
    float* outs = (float*)work.parts;   // [WARPS, GROUP, E + 4]
#pragma unroll
    for (int g = 0; g < 2; ++g) {
        float* to = outs + (warp * GROUP + g) * (E + 4);
        *(float4*)(to + 4 * lane) = make_float4(softmax.out[g][0], softmax.out[g][1], softmax.out[g][2], softmax.out[g][3]);
        if (lane == 0) to[E] = softmax.largest[g], to[E + 1] = softmax.total[g];
    }
    sync_multipliers();
    if (threadIdx.x < GROUP * E / 2) {
        const int g = threadIdx.x / (E / 2), dim = threadIdx.x % (E / 2) * 2;
        float peak = -1e30f, total = 0.f, sum[2] = {0.f, 0.f};
#pragma unroll
        for (int w = 0; w < WARPS; ++w) peak = fmaxf(peak, outs[(w * GROUP + g) * (E + 4) + E]);
#pragma unroll 1
        for (int w = 0; w < WARPS; ++w) {
            const float* from = outs + (w * GROUP + g) * (E + 4);
            const float weight = expf(from[E] - peak);
            total += weight * from[E + 1];
            sum[0] += weight * from[dim];
            sum[1] += weight * from[dim + 1];
        }
        st_cg_u32(out + g * E + dim, pack_bf16(sum[0] / total, sum[1] / total));
    }
    sync_multipliers();   // before anything else is written where `outs` lies
#endif
}

// One warp, or all of a block's, for the queries of a row and key-value head. A warp takes sixteen positions in turn.
DEV void attend(
    const Pass& pass, Work& work, const Layer& layer, int number, const Stand& stand, const bf16* packed, bf16* attended) {
    const int warp = threadIdx.x / 32, turn = WARP_ATTENDS ? 0 : warp, step = WARP_ATTENDS ? 16 : 16 * WARPS;
    const int first_item = WARP_ATTENDS ? blockIdx.x + GRID * warp : blockIdx.x, items = pass.rows * KH;
    const size_t stride = KH * E;
    bf16* keys = pass.kv + (size_t)number * 2 * pass.cache_positions * stride + stand.head * E;
    bf16* values = keys + pass.cache_positions * stride;
    Stand at = stand;
    Chunk chunk;
    HeadGains gains{};
    if (first_item < items) {   // what earlier launches left is there already
        gains = HeadGains::of(layer, at.head);
        chunk.load(keys + at.first * stride, values + at.first * stride, at.now - turn * 16);
    }
#pragma unroll 1
    for (int item = first_item; item < items;) {
        Own own = Own::await(packed + (size_t)at.row * QKV, at.head);
        own.turn(gains, at, pass.eps);
        float* queries = work.queries + warp * GROUP * E;
        write_queries(queries, own);
        Softmax softmax;
        if (turn == 0) {
            own.store(keys + at.mine * stride, values + at.mine * stride);
            softmax.start_from(own);
        } else
            softmax.start();
#pragma unroll 1
        for (int first = turn * 16; first < at.now; first += step) {
            softmax.add(chunk, queries);
            if (first + step >= at.now) break;
            const long long place = at.place(pass, first + step);
            chunk.load(keys + place * stride, values + place * stride, at.now - first - step);
        }
        meet(work, softmax, attended + (size_t)at.row * H * E + at.head * GROUP * E);
        item += WARP_ATTENDS ? GRID * WARPS : GRID;
        if (item >= items) break;
        keys -= at.head * E, values -= at.head * E;
        at = Stand::of(pass, item);
        keys += at.head * E, values += at.head * E;
        gains = HeadGains::of(layer, at.head);
        chunk.load(keys + at.first * stride, values + at.first * stride, at.now - turn * 16);
    }
}

// ---- the pass ------------------------------------------------------------------------------------------------------

DEV void keep_residual(const Pass& pass, Work& work) {
    each_place(tiles_of_block(D / 8), [&](const Place& place) {
        if (place.row < pass.rows)
            work.kept[(place.half * TILES_D + place.tile) * 32 + place.lane] =
                ld_cg_u32(pass.x + (size_t)place.row * D + (blockIdx.x + place.tile * GRID) * 8 + place.column);
    });
}

DEV void write_hidden(const Pass& pass, Work& work) {
    each_place(tiles_of_block(D / 8), [&](const Place& place) {
        if (place.row >= pass.rows) return;
        const int column = (blockIdx.x + place.tile * GRID) * 8 + place.column;
        const unsigned v = work.kept[(place.half * TILES_D + place.tile) * 32 + place.lane];
        const float scale = work.scales[place.row];
        const unsigned normed = pack_bf16(bf16_lo(v) * scale, bf16_hi(v) * scale);
        st_cg_u32(pass.hidden + (size_t)place.row * D + column, times(normed, ld_cg_u32(pass.final_norm + column)));
    });
}

// The four products of a layer, and what stands in for them after the last: the head.
enum Step { PACKED, OUTPUT, GATED, DOWN };

// The norm after a residual is written.
DEV const bf16* next_norm(const Pass& pass, int number, int step) {
    if (step == OUTPUT) return pass.layers[number].post_norm;
    return number + 1 < NUM_LAYERS ? pass.layers[number + 1].input_norm : pass.final_norm;
}

DEV void run_layers(const Pass& pass, Work& work) {
    gdc_wait();
    const unsigned launch = ld_cg_u32(pass.launches);
    const int rows = pass.rows, item = WARP_ATTENDS ? blockIdx.x + GRID * (threadIdx.x / 32) : blockIdx.x;
    Stand stand{};
    if (item < rows * KH) stand = Stand::of(pass, item);
    keep_residual(pass, work);
#pragma unroll 1
    for (int turn = 0; turn <= 4 * NUM_LAYERS; ++turn) {
        const int number = turn / 4, step = turn % 4;
        const bool head = number == NUM_LAYERS, writes_residual = step % 2;
        bf16* const packed = pass.packed + (size_t)number * ROWS * QKV;
        bf16* const attended = pass.attended + (size_t)number * ROWS * H * E;
        if (step == OUTPUT) attend(pass, work, pass.layers[number], number, stand, packed, attended);
        if (writes_residual && blockIdx.x >= D / 8) continue;
        if (head) gdc_launch_dependents();
        // Where this layer's output lies, and the layer's before it.
        const int last = NUM_LAYERS - 1 + launch % 2, place = number == NUM_LAYERS - 1 ? last : number;
        const int before = head ? last : number - 1;
        bf16* const middle = pass.middle + (size_t)number * ROWS * D;
        bf16* const inner = pass.inner + (size_t)number * ROWS * F;
        bf16* const out = pass.out + (size_t)place * ROWS * D;
        bf16* const last_out = pass.out + (size_t)before * ROWS * D;
        float* const middle_squares = pass.middle_squares + (size_t)number * ROWS * (D / 8);
        float* const out_squares = pass.out_squares + (size_t)place * ROWS * (D / 8);
        float* const last_squares = pass.out_squares + (size_t)before * ROWS * (D / 8);

        const bf16* x = step == OUTPUT ? attended : step == GATED ? middle : step == DOWN ? inner : turn > 0 ? last_out : pass.x;
        const int K = step == OUTPUT ? H * E : step == DOWN ? F : D;
        const int tiles = tiles_of_block((head ? V : step == PACKED ? QKV : step == GATED ? F : D) / 8);
        if (!writes_residual) find_scales(pass, work, step == GATED ? middle_squares : last_squares, turn > 0 ? nullptr : x);
        multiply_tiles(work, x, K, rows, step == GATED ? 2 * tiles : tiles, turn > 0 ? nullptr : pass.layers[0].input_norm);
        sync_multipliers();   // the partial sums are there
        if (step == PACKED) {
            write_scaled(pass, work, tiles, head ? pass.logits : packed, head ? V : QKV);
            if (number > 0) {   // all of the last layer's output has arrived, so everybody has read what it was made from
                clear(middle - (size_t)ROWS * D, rows * D * 2);
                clear(middle_squares - (size_t)ROWS * (D / 8), rows * (D / 8) * 4);
                clear(inner - (size_t)ROWS * F, rows * F * 2);
            } else {            // of the launch before
                clear(pass.out + (size_t)(NUM_LAYERS - launch % 2) * ROWS * D, ROWS * D * 2);
                clear(pass.out_squares + (size_t)(NUM_LAYERS - launch % 2) * ROWS * (D / 8), ROWS * (D / 8) * 4);
            }
        } else if (step == GATED) {
            write_gated(pass, work, tiles, inner);
            // All of `middle` has arrived, so everybody is past attention and output.
            clear(packed, rows * QKV * 2);
            clear(attended, rows * H * E * 2);
            if (number > 0) {
                clear(last_out, rows * D * 2);
                clear(last_squares, rows * (D / 8) * 4);
            }
        } else
            write_residual(pass, work, tiles, next_norm(pass, number, step), step == OUTPUT ? middle : out,
                           step == OUTPUT ? middle_squares : out_squares);
        sync_multipliers();   // the partial sums have been read
    }
    if (pass.hidden != nullptr) write_hidden(pass, work);
    if (blockIdx.x == 0 && threadIdx.x == 0) st_cg_u32(pass.launches, launch + 1);   // every block has read it long ago
}

extern "C" __global__ void __launch_bounds__(THREADS + 128, 1) decoder_pass(const __grid_constant__ Pass pass) {
    extern __shared__ __align__(16) unsigned char dynamic[];   // units, parts
    __shared__ __align__(16) float queries[WARPS * GROUP * E];
    __shared__ float scales[ROWS];
    __shared__ unsigned kept[HALVES * TILES_D * 32];
    __shared__ mbarrier full[SLOTS], empty[SLOTS];
    if (threadIdx.x == 0) {
        for (int i = 0; i < SLOTS; ++i) {
            mbarrier_init(&full[i], 1);
            mbarrier_init(&empty[i], WARPS);
        }
        mbarrier_init_fence();
    }
    __syncthreads();
    Work work{Ring{dynamic, full, empty, 0, 0}, (float4*)(dynamic + SLOTS * UNIT_BYTES), scales, kept, queries};
    // Registers go from the warps that copy, of which one has work, to those that multiply; four warps change together.
    if (threadIdx.x >= THREADS) {
        give_registers<40>();
        if (threadIdx.x < THREADS + 32) send_all(pass, work.ring);
        gdc_launch_dependents();
    } else {
        take_registers<232>();
        run_layers(pass, work);
    }
}
