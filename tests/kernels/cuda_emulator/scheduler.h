// Threads of a block as fibers: each runs until it waits for others, so a run depends on nothing but its seed.
//
// A block is a thread of the system, which gives it its own `thread_local` shared memory, and its CUDA threads are fibers on
// it. Blocks know nothing of each other, so one runs after the other. A fiber gives up its turn at barriers and at what a warp
// does together. Seed 0 goes through threads and blocks in order; every other seed draws who is next, which finds what only
// seems to work because thread 0 is always first.
#pragma once

#include <algorithm>
#include <array>
#include <csetjmp>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <numeric>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <sys/mman.h>
#include <ucontext.h>

struct uint3 {
    unsigned x, y, z;
};

struct dim3 {
    unsigned x = 1, y = 1, z = 1;
    dim3(unsigned x = 1, unsigned y = 1, unsigned z = 1) : x(x), y(y), z(z) {}
};

namespace emulator {

using Words = std::array<unsigned, 6>;  // what one lane brings to an operation of its warp

template <class To, class From>
To bits(From from) {
    static_assert(sizeof(To) == sizeof(From));
    To to;
    std::memcpy(&to, &from, sizeof to);
    return to;
}

struct Block;

struct Fiber {
    uint3 index{};
    unsigned number = 0;  // within the block
    Block* block = nullptr;
    const char* waits_in = nullptr;
    bool started = false, done = false;
    bool waited = false;  // for the launches in front
    ucontext_t entry{};
    jmp_buf context;
};

struct Lanes {  // of one warp and one mask
    const char* operation = nullptr;
    unsigned arrived = 0, round = 0;
    // Two, used in turn: who is quick may write the next round while others still read this one.
    std::array<std::array<Words, 32>, 2> words{};
};

struct Range {
    const char* begin;
    const char* end;
};

struct Launch {
    dim3 grid, block;
    unsigned seed;
    bool programmatic;          // may begin before the launch in front has ended
    std::vector<Range> memory;  // what loads and stores may touch; empty: not checked
    std::function<void()> body;

    std::mt19937 random{seed};
    std::string failure;

    unsigned threads() const { return block.x * block.y * block.z; }
    void run();
};

struct Block {
    Launch& launch;
    uint3 index;
    unsigned alive;
    std::vector<Fiber> fibers;
    std::deque<Fiber*> ready;
    std::vector<Fiber*> waiting;  // in a barrier
    std::map<std::pair<unsigned, unsigned>, Lanes> lanes;
    jmp_buf scheduler;

    Block(Launch& launch, uint3 index);
    void run();
    void resume(Fiber* fiber);
    Fiber* next();
    std::string who_waits() const;
};

inline thread_local Fiber* current = nullptr;

inline void suspend(const char* waits_in) {
    Fiber* self = current;
    self->waits_in = waits_in;
    if (_setjmp(self->context) == 0) _longjmp(self->block->scheduler, 1);
    self->waits_in = nullptr;
}

inline std::string place(uint3 at) {
    return "(" + std::to_string(at.x) + ", " + std::to_string(at.y) + ", " + std::to_string(at.z) + ")";
}

// The launch ends here, whatever its other threads are at.
[[noreturn]] inline void fail(const std::string& what) {
    Block& block = *current->block;
    block.launch.failure = "block " + place(block.index) + ", thread " + place(current->index) + ": " + what;
    for (;;) suspend("a failed launch");
}

inline unsigned lane() { return current->number % 32; }

inline void check_address(const void* p, unsigned bytes) {
    const char* address = static_cast<const char*>(p);
    if (reinterpret_cast<unsigned long>(p) % bytes) fail(std::to_string(bytes) + " bytes at a misaligned address");
    const std::vector<Range>& memory = current->block->launch.memory;
    bool inside = memory.empty();
    for (const Range& range : memory) inside |= range.begin <= address && address + bytes <= range.end;
    if (!inside) fail(std::to_string(bytes) + " bytes outside the memory of this launch");
}

// Of a launch that may begin early: what it overwrites may still be read, and who follows it counts on its wait.
inline void check_waited(const char* fault) {
    if (current->block->launch.programmatic && !current->waited) fail(std::string("a thread ") + fault);
}

inline void wake(Block& block, std::vector<Fiber*>& fibers) {
    block.ready.insert(block.ready.end(), fibers.begin(), fibers.end());
    fibers.clear();
}

// Of all that have not ended.
inline void barrier() {
    Block& block = *current->block;
    block.waiting.push_back(current);
    if (block.waiting.size() == block.alive) wake(block, block.waiting);
    suspend("__syncthreads");
}

// What every lane of `mask` brings to `operation`, once all have come; to be read before the lane's next exchange.
inline const Words* exchange(const char* operation, unsigned mask, Words words) {
    Block& block = *current->block;
    unsigned warp = current->number / 32, in_warp = std::min(32u, block.launch.threads() - 32 * warp);
    if (in_warp < 32) mask &= (1u << in_warp) - 1;
    if (!(mask >> lane() & 1)) fail(std::string("a lane calls ") + operation + " with a mask that leaves it out");
    Lanes& lanes = block.lanes[{warp, mask}];
    if (lanes.arrived && lanes.operation != operation && std::strcmp(lanes.operation, operation))
        fail(std::string("a lane is in ") + operation + " while others of its warp are in " + lanes.operation);
    lanes.operation = operation;
    std::array<Words, 32>& round = lanes.words[lanes.round % 2];
    round[lane()] = words;
    lanes.arrived |= 1u << lane();
    if (lanes.arrived == mask) {
        lanes.arrived = 0;
        lanes.round++;
        std::vector<Fiber*> all;
        for (unsigned i = 0; i < in_warp; i++)
            if (mask >> i & 1) all.push_back(&block.fibers[32 * warp + i]);
        wake(block, all);
    }
    suspend(operation);
    return round.data();
}

template <class T>
T value_of(const char* operation, unsigned mask, T v, unsigned source) {
    static_assert(sizeof(T) == 4 || sizeof(T) == 8);
    Words words{};
    std::memcpy(words.data(), &v, sizeof v);
    const Words* all = exchange(operation, mask, words);
    if (!(mask >> source & 1)) fail(std::string(operation) + " reads a lane that is not in its mask");
    std::memcpy(&v, all[source].data(), sizeof v);
    return v;
}

// ---- Running ----

constexpr size_t STACK_BYTES = 256 * 1024, GUARD_BYTES = 64 * 1024;

inline void enter() {
    Block& block = *current->block;
    block.launch.body();
    check_waited("never waited");
    current->done = true;
    block.alive--;
    if (block.alive && block.waiting.size() == block.alive) wake(block, block.waiting);
    for (;;) suspend("its end");
}

inline Block::Block(Launch& launch, uint3 index)
    : launch(launch), index(index), alive(launch.threads()), fibers(launch.threads()) {
    for (unsigned i = 0; i < alive; i++) {
        dim3 size = launch.block;
        fibers[i].index = {i % size.x, i / size.x % size.y, i / size.x / size.y};
        fibers[i].number = i;
        fibers[i].block = this;
        ready.push_back(&fibers[i]);
    }
}

inline void Block::run() {
    size_t one = STACK_BYTES + GUARD_BYTES, bytes = one * fibers.size();
    void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    char* stacks = static_cast<char*>(memory);
    if (memory == MAP_FAILED) launch.failure = "no memory for the stacks of a block";
    for (size_t i = 0; i < fibers.size() && launch.failure.empty(); i++) {
        mprotect(stacks + i * one, GUARD_BYTES, PROT_NONE);
        getcontext(&fibers[i].entry);
        fibers[i].entry.uc_stack.ss_sp = stacks + i * one + GUARD_BYTES;
        // Stacks that begin at one distance would all share a few lines of the cache.
        fibers[i].entry.uc_stack.ss_size = STACK_BYTES - i % 64 * 576;
        makecontext(&fibers[i].entry, enter, 0);
    }
    while (alive && launch.failure.empty()) {
        if (ready.empty()) {
            launch.failure = "block " + place(index) + " cannot go on: " + who_waits();
            break;
        }
        resume(next());
    }
    if (memory != MAP_FAILED) munmap(memory, bytes);
}

inline Fiber* Block::next() {
    if (launch.seed) std::swap(ready.front(), ready[launch.random() % ready.size()]);
    Fiber* fiber = ready.front();
    ready.pop_front();
    return fiber;
}

inline void Block::resume(Fiber* fiber) {
    current = fiber;
    if (_setjmp(scheduler) == 0) {
        if (current->started) _longjmp(current->context, 1);
        current->started = true;
        setcontext(&current->entry);
    }
}

inline std::string Block::who_waits() const {
    std::map<std::string, unsigned> counts;
    for (const Fiber& fiber : fibers)
        if (!fiber.done) counts[fiber.waits_in]++;
    std::string text;
    for (auto& [where, count] : counts) text += std::to_string(count) + " of its threads wait in " + where + ", ";
    return text + std::to_string(fibers.size() - alive) + " have ended";
}

inline void Launch::run() {
    std::vector<unsigned> order(grid.x * grid.y * grid.z);
    std::iota(order.begin(), order.end(), 0u);
    if (seed) std::shuffle(order.begin(), order.end(), random);
    for (unsigned i : order) {
        Block one(*this, {i % grid.x, i / grid.x % grid.y, i / grid.x / grid.y});
        std::thread([&] { one.run(); }).join();
        if (!failure.empty()) return;
    }
}

// The arguments of a launch as CUDA takes them: the address of each.
template <class... P, size_t... I>
void call(void (*kernel)(P...), void** arguments, std::index_sequence<I...>) {
    kernel(*static_cast<std::remove_reference_t<P>*>(arguments[I])...);
}

template <class... P>
const char* launch(void (*kernel)(P...), const unsigned* sizes, unsigned seed, bool programmatic, unsigned ranges,
                   const Range* memory, void** arguments) {
    static std::string failure;  // until the next launch
    Launch launch{{sizes[0], sizes[1], sizes[2]}, {sizes[3], sizes[4], sizes[5]}, seed, programmatic,
                  {memory, memory + ranges}, {}};
    launch.body = [&] { call(kernel, arguments, std::index_sequence_for<P...>()); };
    launch.run();
    failure = launch.failure;
    return failure.empty() ? nullptr : failure.c_str();
}

}  // namespace emulator
