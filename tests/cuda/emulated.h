/*
 * The device of kernels/cuda/device.h in plain C++. Each thread is a fiber. Blocks run one after the other, in a
 * shuffled order, and so do the warps of a block. A broken rule ends the launch with one line: an access outside an
 * allocation or a read of unwritten bytes, two threads accessing one element (one of them writing) without a barrier
 * between them, a barrier or shuffle that not all threads reach, or a misaligned address.
 *
 * A module runs one launch at a time: the emulated driver holds a lock.
 */
#ifndef EMULATED_H
#define EMULATED_H

#include "emulated_launch.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include <type_traits>

#define DEVICE_ATTRIBUTE __attribute__((unused))
#define DEVICE static inline __attribute__((unused))

struct bf16 {
    uint16_t bits;
};
struct f16 {
    uint16_t bits;
};

namespace emulated {

enum { MOST_THREADS = 1024, STACK = 64 << 10, MOST_SHARED = 256 << 10, MOST_ARRAYS = 64, MOST_COPIES = 64 };

/* Places of exchanges in the source that are not distinguished. */
enum { PLACE_OF_MMA = 1000000, PLACE_OF_LOAD_MATRIX, PLACE_OF_LOAD_MATRIX_TRANSPOSED };

/* The reason why a thread does not run. */
enum wait_kind { RUNS, AT_BARRIER, AT_WARP_BARRIER, AT_EXCHANGE, ENDED };

/* A copy that a thread started and that may not be read yet. */
struct pending_copy {
    unsigned char *to;
    unsigned char bytes[16];
    int group;
};

struct thread {
    void *stack_pointer;
    char *stack;
    wait_kind waits;
    int place;             /* source location of the barrier or exchange it waits at */
    uint64_t word, answer; /* of an exchange: the word sent and the word received */
    uint32_t words[32];    /* of an exchange of fragments */
    int argument, number;
    pending_copy copies[MOST_COPIES];
    int copy_count, copy_group;
};

/* An array in block memory. */
struct array {
    int place;
    size_t offset;
};

struct machine {
    thread threads[MOST_THREADS];
    thread *current;
    void *stack_pointer; /* of the scheduler */
    emulated_launch *launch;
    void (*body)(const void *arguments);
    int count; /* number of threads */
    uint32_t block;
    uint16_t barriers, warp_barriers[MOST_THREADS / 32];
    alignas(256) unsigned char memory[MOST_SHARED]; /* of the block: dynamic, then static arrays */
    emulated_access writes[MOST_SHARED], reads[MOST_SHARED];
    uint8_t copied[MOST_SHARED / 16]; /* pending copies for each 16 bytes of memory */
    array arrays[MOST_ARRAYS];
    int array_count;
    size_t used, clean; /* bytes of memory; bytes whose accesses belong to this block or to none */
    uint64_t random;
    int failed;
};

inline machine &the_machine() {
    static machine *m;
    if (!m) {
        m = (machine *)mmap(NULL, sizeof *m, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1,
                            0);
        if (m == MAP_FAILED)
            abort();
    }
    return *m;
}

/* ---- Fibers ---- */

#if defined(__x86_64__)
extern "C" void emulated_switch(void **from, void *to);
__asm__(".text\n.p2align 4\n.local emulated_switch\n.type emulated_switch,@function\nemulated_switch:\n"
        "push %rbp\npush %rbx\npush %r12\npush %r13\npush %r14\npush %r15\n"
        "mov %rsp,(%rdi)\nmov %rsi,%rsp\n"
        "pop %r15\npop %r14\npop %r13\npop %r12\npop %rbx\npop %rbp\nret\n.size emulated_switch,.-emulated_switch\n");
inline void *fresh_stack(char *stack, void (*entry)()) {
    uint64_t *top = (uint64_t *)(void *)(stack + STACK) - 2; /* as after a call: 8 bytes below a multiple of 16 */
    top[0] = (uint64_t)entry;
    top[1] = 0;
    return top - 6;
}
#elif defined(__aarch64__)
extern "C" void emulated_switch(void **from, void *to);
__asm__(".text\n.p2align 4\n.type emulated_switch,%function\nemulated_switch:\n"
        "sub sp, sp, #160\nstp x19, x20, [sp]\nstp x21, x22, [sp, #16]\nstp x23, x24, [sp, #32]\n"
        "stp x25, x26, [sp, #48]\nstp x27, x28, [sp, #64]\nstp x29, x30, [sp, #80]\nstp d8, d9, [sp, #96]\n"
        "stp d10, d11, [sp, #112]\nstp d12, d13, [sp, #128]\nstp d14, d15, [sp, #144]\n"
        "mov x9, sp\nstr x9, [x0]\nmov sp, x1\n"
        "ldp x19, x20, [sp]\nldp x21, x22, [sp, #16]\nldp x23, x24, [sp, #32]\nldp x25, x26, [sp, #48]\n"
        "ldp x27, x28, [sp, #64]\nldp x29, x30, [sp, #80]\nldp d8, d9, [sp, #96]\nldp d10, d11, [sp, #112]\n"
        "ldp d12, d13, [sp, #128]\nldp d14, d15, [sp, #144]\nadd sp, sp, #160\nret\n"
        ".size emulated_switch,.-emulated_switch\n");
inline void *fresh_stack(char *stack, void (*entry)()) {
    uint64_t *top = (uint64_t *)(void *)(stack + STACK) - 22;
    memset(top, 0, 160);
    top[11] = (uint64_t)entry; /* x30 */
    return top;
}
#else
#error "the emulated device needs x86-64 or aarch64"
#endif

inline void yield() {
    machine &m = the_machine();
    emulated_switch(&m.current->stack_pointer, m.stack_pointer);
}

/* Records the error, once, and never returns to the thread. */
__attribute__((format(printf, 1, 2))) inline void fail(const char *format, ...) {
    machine &m = the_machine();
    if (!m.failed) {
        va_list arguments;
        int length = snprintf(m.launch->message, sizeof m.launch->message, "block %u, thread %d: ", m.block,
                              m.current ? m.current->number : -1);
        va_start(arguments, format);
        vsnprintf(m.launch->message + length, sizeof m.launch->message - (size_t)length, format, arguments);
        va_end(arguments);
        m.failed = 1;
    }
    if (m.current) {
        m.current->waits = ENDED;
        yield();
    }
}

inline void thread_entry() {
    machine &m = the_machine();
    m.body(m.launch->arguments);
    m.current->waits = ENDED;
    yield();
}

inline uint64_t draw() {
    machine &m = the_machine();
    m.random ^= m.random << 13;
    m.random ^= m.random >> 7;
    m.random ^= m.random << 17;
    return m.random;
}

/* ---- Accesses ---- */

inline emulated_access access_now() {
    machine &m = the_machine();
    emulated_access a;
    a.launch = m.launch->number;
    a.block = m.block;
    a.thread = (uint16_t)m.current->number;
    a.barriers = m.barriers;
    a.warp_barriers = m.warp_barriers[m.current->number / 32];
    a.is_shared = 0;
    return a;
}

/* True if nothing orders an earlier access before one by another thread now. */
inline int is_unordered(const emulated_access &before, const emulated_access &now) {
    if (before.launch != now.launch || (before.block == now.block && before.thread == now.thread))
        return 0;
    if (before.block != now.block)
        return 1;
    return before.barriers == now.barriers &&
           (before.thread / 32 != now.thread / 32 || before.warp_barriers == now.warp_barriers);
}

/* Scope of the threads that read an element: one thread, one warp, one block, or several blocks. */
enum { OF_THREAD, OF_WARP, OF_BLOCK, OF_LAUNCH };

/* True if the readers of an element, the last of which is stored, are not all ordered before a write now. */
inline int is_read_unordered(const emulated_access &before, const emulated_access &now) {
    if (before.launch != now.launch || before.is_shared == OF_THREAD)
        return is_unordered(before, now);
    if (before.is_shared == OF_LAUNCH)
        return 1;
    if (before.block != now.block)
        return 1;
    if (before.barriers != now.barriers)
        return 0;
    return before.is_shared == OF_BLOCK || before.thread / 32 != now.thread / 32 ||
           before.warp_barriers == now.warp_barriers;
}

inline void note_read(emulated_access &write, emulated_access &read, const char *what) {
    emulated_access now = access_now();
    if (is_unordered(write, now))
        fail("%s is read, and thread %u of block %u wrote it without a barrier between", what, (unsigned)write.thread,
             (unsigned)write.block);
    if (read.launch == now.launch) {
        if (read.block != now.block)
            now.is_shared = OF_LAUNCH;
        else if (read.is_shared == OF_LAUNCH)
            now.is_shared = OF_LAUNCH;
        else if (read.barriers == now.barriers) {
            const int is_one_warp = read.thread / 32 == now.thread / 32;
            if (!is_one_warp || read.is_shared == OF_BLOCK)
                now.is_shared = OF_BLOCK;
            else if (read.thread != now.thread || read.is_shared == OF_WARP)
                now.is_shared = OF_WARP;
        }
    }
    read = now;
}

inline void note_write(emulated_access &write, emulated_access &read, const char *what) {
    const emulated_access now = access_now();
    if (is_unordered(write, now))
        fail("%s is written, and thread %u of block %u wrote it without a barrier between", what,
             (unsigned)write.thread, (unsigned)write.block);
    if (is_read_unordered(read, now))
        fail("%s is written, and thread %u of block %u read it without a barrier between", what, (unsigned)read.thread,
             (unsigned)read.block);
    write = now;
}

/* ---- Global memory ---- */

inline emulated_range *range_of(uint64_t address, size_t size) {
    static emulated_range *last;
    emulated_launch *launch = the_machine().launch;
    size_t low = 0, high = launch->range_count;
    if (last >= launch->ranges && last < launch->ranges + launch->range_count && address >= last->begin &&
        address + size <= last->begin + last->size)
        return last;
    while (low < high) {
        const size_t middle = (low + high) / 2;
        if (launch->ranges[middle].begin <= address)
            low = middle + 1;
        else
            high = middle;
    }
    if (!low)
        return NULL;
    last = &launch->ranges[low - 1];
    return address + size <= last->begin + last->size ? last : NULL;
}

template <size_t size> constexpr int shadow_index() {
    return size == 1 ? 0 : size == 2 ? 1 : size == 4 ? 2 : 3;
}

/* Returns the memory of one element at a device address, after all checks. */
template <class T, int is_write> inline T *element_at(uint64_t address) {
    constexpr size_t size = sizeof(T);
    static_assert(size == 1 || size == 2 || size == 4 || size == 8, "an element has 1, 2, 4 or 8 bytes");
    emulated_range *range = range_of(address, size);
    size_t offset;
    if (address % size)
        fail("an element of %zu bytes at the address %llx, which is not aligned", size, (unsigned long long)address);
    if (!range)
        fail("%s of %zu bytes at %llx, outside every allocation", is_write ? "a write" : "a read", size,
             (unsigned long long)address);
    offset = (size_t)(address - range->begin);
    emulated_shadow &shadow = range->shadows[shadow_index<size>()];
    if (is_write) {
        note_write(shadow.writes[offset / size], shadow.reads[offset / size], "an element of global memory");
        memset(range->written + offset, 1, size);
    } else {
        if (!range->written[offset])
            fail("a read at byte %zu of an allocation of %zu, which nobody wrote", offset, range->size);
        note_read(shadow.writes[offset / size], shadow.reads[offset / size], "an element of global memory");
    }
    return (T *)(uintptr_t)(address - EMULATED_TAG);
}

/* Returns a struct at a device address, which was written by the host. */
template <class T> inline const T *struct_at(uint64_t address) {
    emulated_range *range = range_of(address, sizeof(T));
    if (address % alignof(T) || !range || !range->written[address - range->begin] ||
        !range->written[address - range->begin + sizeof(T) - 1])
        fail("a read of a struct of %zu bytes at %llx, which is not there", sizeof(T), (unsigned long long)address);
    return (const T *)(uintptr_t)(address - EMULATED_TAG);
}

template <class T> struct global_element {
    uint64_t address;
    explicit global_element(uint64_t a) : address(a) {
    }
    global_element(const global_element &) = default;
    typedef typename std::remove_const<T>::type value;
    operator value() const {
        return *element_at<value, 0>(address);
    }
    void operator=(value v) const {
        *element_at<T, 1>(address) = v;
    }
    void operator=(const global_element &other) const {
        *this = (value)other;
    }
    void operator+=(value v) const {
        *this = (value)(*this + v);
    }
};

template <class T> struct global_pointer {
    uint64_t address;
    global_pointer() : address(0) {
    }
    explicit global_pointer(uint64_t a) : address(a) {
    }
    template <class U> global_pointer(const global_pointer<U> &other) : address(other.address) {
        static_assert(std::is_same<T, const U>::value || std::is_same<T, U>::value, "another type of element");
    }
    global_element<T> operator[](int64_t i) const {
        return global_element<T>(address + (uint64_t)i * sizeof(T));
    }
    global_element<T> operator*() const {
        return (*this)[0];
    }
    global_pointer operator+(int64_t i) const {
        return global_pointer(address + (uint64_t)i * sizeof(T));
    }
    void operator+=(int64_t i) {
        *this = *this + i;
    }
    explicit operator bool() const {
        return address != 0;
    }
};

/* ---- Memory of the block ---- */

inline size_t shared_limit() {
    return 227 << 10;
}

/* Returns the offset of an array that starts where the earlier ones end, or that another thread has already created. */
inline size_t array_offset(int place, size_t size) {
    machine &m = the_machine();
    for (int i = 0; i < m.array_count; i++)
        if (m.arrays[i].place == place)
            return m.arrays[i].offset;
    m.used = (m.used + 15) / 16 * 16;
    if (m.array_count == MOST_ARRAYS || m.used + size > m.launch->dynamic_shared + 48 * 1024 ||
        m.used + size > shared_limit())
        fail("arrays of more than 48 KiB in the memory of a block: use DYNAMIC_SHARED");
    m.arrays[m.array_count].place = place;
    m.arrays[m.array_count++].offset = m.used;
    m.used += size;
    return m.used - size;
}

template <class T> struct shared_element {
    unsigned char *at;
    explicit shared_element(unsigned char *a) : at(a) {
    }
    shared_element(const shared_element &) = default;
    typedef typename std::remove_const<T>::type value;
    operator value() const {
        machine &m = the_machine();
        const size_t offset = (size_t)(at - m.memory);
        if (m.writes[offset].launch != m.launch->number || m.writes[offset].block != m.block)
            fail("a read at byte %zu of the memory of a block, which nobody wrote", offset);
        note_read(m.writes[offset], m.reads[offset], "an element of the block's memory");
        return *(const value *)(const void *)at;
    }
    void operator=(value v) const {
        machine &m = the_machine();
        const size_t offset = (size_t)(at - m.memory);
        note_write(m.writes[offset], m.reads[offset], "an element of the block's memory");
        if (m.copied[offset / 16])
            fail("a write at byte %zu of the memory of a block, where a copy that nobody waited for may come later",
                 offset);
        memcpy(at, &v, sizeof v);
    }
    void operator=(const shared_element &other) const {
        *this = (value)other;
    }
    void operator+=(value v) const {
        *this = (value)(*this + v);
    }
};

/* Carries the bounds of its array. */
template <class T> struct shared_pointer {
    int64_t offset, begin, end; /* bytes in block memory */
    shared_pointer(int64_t o, int64_t b, int64_t e) : offset(o), begin(b), end(e) {
    }
    template <class U>
    shared_pointer(const shared_pointer<U> &other) : offset(other.offset), begin(other.begin), end(other.end) {
        static_assert(std::is_same<T, const U>::value || std::is_same<T, U>::value, "another type of element");
    }
    shared_element<T> operator[](int64_t i) const {
        const int64_t at = offset + i * (int64_t)sizeof(T);
        if (at < begin || at + (int64_t)sizeof(T) > end)
            fail("element %lld of an array of %lld in the memory of a block",
                 (long long)((at - begin) / (int64_t)sizeof(T)), (long long)((end - begin) / (int64_t)sizeof(T)));
        return shared_element<T>(the_machine().memory + at);
    }
    shared_element<T> operator*() const {
        return (*this)[0];
    }
    shared_pointer operator+(int64_t i) const {
        return shared_pointer(offset + i * (int64_t)sizeof(T), begin, end);
    }
    void operator+=(int64_t i) {
        *this = *this + i;
    }
};

template <class T> inline shared_pointer<T> static_array(int place, int64_t count) {
    const int64_t size = count * (int64_t)sizeof(T), offset = (int64_t)array_offset(place, (size_t)size);
    return shared_pointer<T>(offset, offset, offset + size);
}

template <class T> inline shared_pointer<T> dynamic_array(int64_t offset, int64_t count) {
    const int64_t size = count * (int64_t)sizeof(T);
    if (offset % 16 || offset + size > (int64_t)the_machine().launch->dynamic_shared)
        fail("an array of bytes %lld to %lld, and the launch asked for %zu", (long long)offset,
             (long long)(offset + size), the_machine().launch->dynamic_shared);
    return shared_pointer<T>(offset, offset, offset + size);
}

/* ---- Waiting for others ---- */

inline void wait_at(wait_kind kind, int place) {
    machine &m = the_machine();
    m.current->waits = kind;
    m.current->place = place;
    yield();
}

/* Every lane provides a word. When all 32 wait at one place, each receives the word of lane `from`. */
inline uint64_t exchange(uint64_t word, int from, int place) {
    thread *t = the_machine().current;
    t->word = word;
    t->argument = from;
    wait_at(AT_EXCHANGE, place);
    return t->answer;
}

inline thread *thread_of_warp(int lane) {
    machine &m = the_machine();
    return &m.threads[m.current->number / 32 * 32 + lane];
}

/* True if all threads [first, end) wait for `kind` at one place. Fails if they wait at different places. */
inline int all_wait(int first, int end, wait_kind kind, const char *what) {
    machine &m = the_machine();
    int waiting = 0;
    for (int i = first; i < end; i++)
        waiting += m.threads[i].waits == kind;
    if (waiting != end - first)
        return 0;
    for (int i = first + 1; i < end; i++) {
        if (m.threads[i].place != m.threads[first].place) {
            m.current = &m.threads[i];
            m.current->waits = ENDED;
            m.failed = 1;
            snprintf(m.launch->message, sizeof m.launch->message, "block %u: threads %d and %d wait at different %s",
                     m.block, first, i, what);
            return 0;
        }
    }
    return 1;
}

inline void answer_exchange(int first) {
    machine &m = the_machine();
    for (int i = 0; i < 32; i++)
        m.threads[first + i].answer = m.threads[first + (m.threads[first + i].argument & 31)].word;
}

/* Releases threads whose partners all wait. Returns 0 if there are none. */
inline int release_waiting() {
    machine &m = the_machine();
    int released = 0;
    if (all_wait(0, m.count, AT_BARRIER, "barriers")) {
        m.barriers++;
        for (int i = 0; i < m.count; i++)
            m.threads[i].waits = RUNS;
        return 1;
    }
    for (int first = 0; first + 32 <= m.count && !m.failed; first += 32) {
        const int is_barrier = all_wait(first, first + 32, AT_WARP_BARRIER, "barriers of a warp");
        const int is_exchange = !is_barrier && all_wait(first, first + 32, AT_EXCHANGE, "exchanges of a warp");
        if (!is_barrier && !is_exchange)
            continue;
        if (is_barrier)
            m.warp_barriers[first / 32]++;
        else
            answer_exchange(first);
        for (int i = first; i < first + 32; i++)
            m.threads[i].waits = RUNS;
        released = 1;
    }
    return released;
}

/* ---- Launches ---- */

inline void run_thread(thread *t) {
    machine &m = the_machine();
    m.current = t;
    emulated_switch(&m.stack_pointer, t->stack_pointer);
    m.current = NULL;
}

inline void begin_block(uint32_t block) {
    machine &m = the_machine();
    m.block = block;
    m.barriers = 0;
    m.array_count = 0;
    /* A block does not inherit the memory of the previous one. */
    memset(m.writes, 0, m.used * sizeof *m.writes);
    memset(m.reads, 0, m.used * sizeof *m.reads);
    memset(m.copied, 0, sizeof m.copied);
    m.used = m.launch->dynamic_shared;
    memset(m.warp_barriers, 0, sizeof m.warp_barriers);
    memset(m.memory, 0xa5, m.used);
    for (int i = 0; i < m.count; i++) {
        thread *t = &m.threads[i];
        if (!t->stack) {
            t->stack =
                (char *)mmap(NULL, STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
            if (t->stack == MAP_FAILED)
                abort();
        }
        t->stack_pointer = fresh_stack(t->stack, thread_entry);
        t->waits = RUNS;
        t->number = i;
        t->copy_count = t->copy_group = 0;
    }
}

inline void run_block(uint32_t block) {
    machine &m = the_machine();
    const int warps = (m.count + 31) / 32;
    begin_block(block);
    while (!m.failed) {
        int first = (int)(draw() % (uint64_t)warps), ended = 0;
        for (int w = 0; w < warps; w++) {
            const int warp = (first + w) % warps;
            for (int i = warp * 32; i < m.count && i < warp * 32 + 32 && !m.failed; i++)
                if (m.threads[i].waits == RUNS)
                    run_thread(&m.threads[i]);
        }
        for (int i = 0; i < m.count; i++)
            ended += m.threads[i].waits == ENDED;
        if (m.failed || ended == m.count)
            return;
        if (!release_waiting() && !m.failed) {
            m.failed = 1;
            snprintf(
                m.launch->message, sizeof m.launch->message,
                "block %u: %d of %d threads have ended or wait elsewhere, while others wait for them at a barrier, "
                "shuffle or vote",
                block, ended, m.count);
        }
    }
}

/* Runs blocks in an order that differs between launches. */
inline int run(emulated_launch *launch, void (*body)(const void *arguments)) {
    machine &m = the_machine();
    const uint32_t blocks = launch->grid[0];
    uint32_t step, at;
    m.launch = launch;
    m.body = body;
    m.count = (int)launch->block[0];
    m.random = launch->seed * 2654435761u + 88172645463325252u;
    m.failed = 0;
    launch->message[0] = 0;
    if (launch->grid[1] != 1 || launch->grid[2] != 1 || launch->block[1] != 1 || launch->block[2] != 1 ||
        launch->dynamic_shared > shared_limit()) {
        snprintf(launch->message, sizeof launch->message, "a launch of more than one dimension, or too much memory");
        return 1;
    }
    /* A step coprime to the number of blocks reaches each block once. */
    step = blocks > 2 ? (uint32_t)(draw() % (blocks - 1)) + 1 : 1;
    for (uint32_t a = step, b = blocks; b;) {
        const uint32_t rest = a % b;
        a = b;
        b = rest;
        if (!b && a != 1)
            step = 1;
    }
    at = (uint32_t)(draw() % blocks);
    for (uint32_t i = 0; i < blocks && !m.failed; i++) {
        run_block(at);
        at = (uint32_t)(((uint64_t)at + step) % blocks);
    }
    return m.failed;
}

/* ---- Tiles of matrices ---- */

template <class T> inline float half_of(uint32_t word, int upper);

/* Makes the `count` words of every lane visible to all lanes. */
inline void share_words(const uint32_t *words, int count, int place) {
    thread *t = the_machine().current;
    memcpy(t->words, words, (size_t)count * sizeof *words);
    exchange(0, 0, place);
}

/* Waits until every lane has read the words of share_words. */
inline void end_sharing(int place) {
    exchange(0, 0, -place);
}

} /* namespace emulated */

/* ---- The language ---- */

#define KERNEL_OF(type, name, threads)                                                                                 \
    static void name##_body(const type &l);                                                                            \
    static void name##_call(const void *arguments) {                                                                   \
        name##_body(*(const type *)arguments);                                                                         \
    }                                                                                                                  \
    extern "C" {                                                                                                       \
    extern const size_t name##_arguments;                                                                              \
    const size_t name##_arguments = sizeof(type);                                                                      \
    int name(emulated_launch *e);                                                                                      \
    int name(emulated_launch *e) {                                                                                     \
        if (e->block[0] > (threads)) {                                                                                 \
            snprintf(e->message, sizeof e->message, "%u threads, at most %d", e->block[0], (int)(threads));            \
            return 1;                                                                                                  \
        }                                                                                                              \
        return emulated::run(e, name##_call);                                                                          \
    }                                                                                                                  \
    }                                                                                                                  \
    static void name##_body(const type &l)
#define RESIDENT_KERNEL_OF(type, name, threads, blocks) KERNEL_OF(type, name, threads)

template <class T> using global = emulated::global_pointer<T>;
template <class T> using shared = emulated::shared_pointer<T>;
#define SHARED(type, name, count) const shared<type> name = emulated::static_array<type>(__COUNTER__, count)
#define DYNAMIC_SHARED(type, name, offset, count)                                                                      \
    const shared<type> name = emulated::dynamic_array<type>((int64_t)(offset), count)

template <class T> DEVICE global<T> global_at(const void *memory) {
    return global<T>((uint64_t)(uintptr_t)memory);
}
template <class T> DEVICE const T &constant_at(const void *memory, int64_t i) {
    return *emulated::struct_at<T>((uint64_t)(uintptr_t)memory + (uint64_t)i * sizeof(T));
}

DEVICE int thread_index() {
    return emulated::the_machine().current->number;
}
DEVICE int thread_count() {
    return emulated::the_machine().count;
}
DEVICE int64_t launched_block() {
    return emulated::the_machine().block;
}
DEVICE int64_t block_count() {
    return emulated::the_machine().launch->grid[0];
}

/* Barriers are identified by their place in the source. */
#define barrier() emulated::wait_at(emulated::AT_BARRIER, __COUNTER__)
#define warp_barrier() emulated::wait_at(emulated::AT_WARP_BARRIER, __COUNTER__)
#define shuffle(value, from) emulated_shuffle(value, from, __COUNTER__ + 1)
#define shuffle_xor(value, mask) emulated_shuffle(value, (thread_index() & 31) ^ (mask), __COUNTER__ + 1)
#define warp_any(x) emulated_any(x, __COUNTER__ + 1)

template <class T> DEVICE T emulated_shuffle(T value, int from, int place) {
    uint64_t word = 0;
    memcpy(&word, &value, sizeof value);
    word = emulated::exchange(word, from, place);
    memcpy(&value, &word, sizeof value);
    return value;
}
DEVICE int emulated_any(int x, int place) {
    int any = 0;
    const uint32_t word = x != 0;
    emulated::share_words(&word, 1, place);
    for (int i = 0; i < 32; i++)
        any |= emulated::thread_of_warp(i)->words[0] != 0;
    emulated::end_sharing(place);
    return any;
}
DEVICE int warp_all(int x) {
    return !warp_any(!x);
}
DEVICE uint32_t atomic_add(global<uint32_t> p, uint32_t value) {
    emulated_range *range = emulated::range_of(p.address, 4);
    uint32_t *at = (uint32_t *)(uintptr_t)(p.address - EMULATED_TAG), before;
    if (!range || p.address % 4)
        emulated::fail("an atomic addition outside every allocation");
    before = *at;
    *at += value;
    return before;
}

template <class T, int N> struct alignas(sizeof(T) * N) vec {
    static_assert(sizeof(T) * N <= 16, "at most 16 bytes are moved at once");
    T v[N];
};
template <int N, class T> DEVICE vec<typename std::remove_const<T>::type, N> load(global<T> p, int64_t i) {
    vec<typename std::remove_const<T>::type, N> v;
    if ((p.address + (uint64_t)i * sizeof(T)) % (sizeof(T) * N))
        emulated::fail("a load of %zu bytes at an address that is not aligned to them", sizeof(T) * N);
    for (int k = 0; k < N; k++)
        v.v[k] = p[i + k];
    return v;
}
template <int N, class T> DEVICE void store(global<T> p, int64_t i, const vec<T, N> &v) {
    if ((p.address + (uint64_t)i * sizeof(T)) % (sizeof(T) * N))
        emulated::fail("a store of %zu bytes at an address that is not aligned to them", sizeof(T) * N);
    for (int k = 0; k < N; k++)
        p[i + k] = v.v[k];
}
template <int N, class T> DEVICE vec<typename std::remove_const<T>::type, N> load(shared<T> p, int64_t i) {
    vec<typename std::remove_const<T>::type, N> v;
    if ((uint64_t)(p.offset + i * (int64_t)sizeof(T)) % (sizeof(T) * N))
        emulated::fail("a load of %zu bytes at an address that is not aligned to them", sizeof(T) * N);
    for (int k = 0; k < N; k++)
        v.v[k] = p[i + k];
    return v;
}
template <int N, class T> DEVICE void store(shared<T> p, int64_t i, const vec<T, N> &v) {
    if ((uint64_t)(p.offset + i * (int64_t)sizeof(T)) % (sizeof(T) * N))
        emulated::fail("a store of %zu bytes at an address that is not aligned to them", sizeof(T) * N);
    for (int k = 0; k < N; k++)
        p[i + k] = v.v[k];
}

template <class P> DEVICE void load_words(uint32_t w[4], P p, int64_t i) {
    const auto v = load<8>(p, i);
    memcpy(w, &v, 16);
}
template <template <class> class P, class T> DEVICE void store_words(P<T> p, int64_t i, const uint32_t w[4]) {
    vec<T, 8> v;
    memcpy(&v, w, 16);
    store(p, i, v);
}

DEVICE float emulated_float_of_bits(uint32_t bits) {
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}
DEVICE uint32_t emulated_bits_of_float(float value) {
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

DEVICE float to_float(bf16 x) {
    return emulated_float_of_bits((uint32_t)x.bits << 16);
}
DEVICE float to_float(f16 x) {
    const int exponent = x.bits >> 10 & 31, fraction = x.bits & 0x3ff;
    float value = exponent == 31 ? (fraction ? NAN : INFINITY)
                  : exponent     ? ldexpf((float)(fraction | 0x400), exponent - 25)
                                 : ldexpf((float)fraction, -24);
    return x.bits & 0x8000 ? -value : value;
}
DEVICE void from_float(float value, bf16 &x) {
    const uint32_t bits = emulated_bits_of_float(value);
    x.bits = (uint16_t)((bits & 0x7fffffff) > 0x7f800000 ? 0x7fff : (bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}
DEVICE void from_float(float value, f16 &x) {
    const uint32_t sign = emulated_bits_of_float(value) >> 16 & 0x8000;
    const float magnitude = fabsf(value);
    uint32_t bits;
    if (magnitude != magnitude)
        bits = 0x7fff;
    else if (magnitude >= 65520.0f)
        bits = 0x7c00;
    else if (magnitude < 6.103515625e-5f)
        bits = (uint32_t)rintf(magnitude * 16777216.0f); /* a subnormal number, or the smallest normal one */
    else {
        const uint32_t of_float = emulated_bits_of_float(magnitude) - ((uint32_t)112 << 23);
        bits = (of_float + 0xfff + (of_float >> 13 & 1)) >> 13;
    }
    x.bits = (uint16_t)(sign | bits);
}

template <class T> DEVICE uint32_t pack(float low, float high) {
    T x, y;
    from_float(low, x);
    from_float(high, y);
    return (uint32_t)x.bits | (uint32_t)y.bits << 16;
}
DEVICE float exp2_near(float x) {
    return exp2f(x);
}

namespace emulated {
template <> inline float half_of<bf16>(uint32_t word, int upper) {
    bf16 x;
    x.bits = (uint16_t)(upper ? word >> 16 : word);
    return to_float(x);
}
template <> inline float half_of<f16>(uint32_t word, int upper) {
    f16 x;
    x.bits = (uint16_t)(upper ? word >> 16 : word);
    return to_float(x);
}
} /* namespace emulated */

/* Elements of lane i. a: rows i / 4 and i / 4 + 8, columns 2 (i % 4) and the next, then the same 8 columns to the
   right. b: rows 2 (i % 4) and the next, then the same 8 rows below, column i / 4. d: the rows of a, columns 2 (i % 4)
   and the next. */
template <class T> DEVICE void mma(float d[4], const uint32_t a[4], const uint32_t b[2]) {
    const int place = emulated::PLACE_OF_MMA;
    uint32_t words[6];
    const int of_lane = thread_index() & 31;
    float sums[4];
#if EMULATED_ARCH < 800
    if (std::is_same<T, bf16>::value)
        emulated::fail("products of bf16 tiles before sm_80");
#endif
    memcpy(words, a, 16);
    memcpy(words + 4, b, 8);
    emulated::share_words(words, 6, place);
    for (int r = 0; r < 4; r++) {
        const int row = of_lane / 4 + r / 2 * 8, column = of_lane % 4 * 2 + r % 2;
        sums[r] = 0;
        for (int k = 0; k < 16; k++) {
            const emulated::thread *from_a = emulated::thread_of_warp(row % 8 * 4 + k % 8 / 2);
            const emulated::thread *from_b = emulated::thread_of_warp(column * 4 + k % 8 / 2);
            sums[r] += emulated::half_of<T>(from_a->words[row / 8 + k / 8 * 2], k % 2) *
                       emulated::half_of<T>(from_b->words[4 + k / 8], k % 2);
        }
    }
    emulated::end_sharing(place);
    for (int r = 0; r < 4; r++)
        d[r] += sums[r];
}

/* Lane i gets columns 2 (i % 4) and the next of row i / 4 of each of four tiles. If transposed, rows and columns are
   swapped. */
template <class T> static inline void emulated_load_matrix(uint32_t r[4], shared<T> p, int is_transposed) {
    const int place = emulated::PLACE_OF_LOAD_MATRIX + is_transposed;
    const int of_lane = thread_index() & 31;
    uint32_t words[4];
    if (p.offset % 16)
        emulated::fail("a row of a tile at an address that is not a multiple of 16");
    for (int i = 0; i < 4; i++) {
        typename std::remove_const<T>::type low = p[2 * i], high = p[2 * i + 1];
        words[i] = (uint32_t)low.bits | (uint32_t)high.bits << 16;
    }
    emulated::share_words(words, 4, place);
    for (int tile = 0; tile < 4; tile++) {
        uint32_t halves[2];
        for (int half = 0; half < 2; half++) {
            const int row = is_transposed ? of_lane % 4 * 2 + half : of_lane / 4;
            const int column = is_transposed ? of_lane / 4 : of_lane % 4 * 2 + half;
            halves[half] = emulated::thread_of_warp(tile * 8 + row)->words[column / 2] >> column % 2 * 16 & 0xffff;
        }
        r[tile] = halves[0] | halves[1] << 16;
    }
    emulated::end_sharing(place);
}
template <class T> DEVICE void load_matrix(uint32_t r[4], shared<T> p) {
    emulated_load_matrix(r, p, 0);
}
template <class T> DEVICE void load_matrix_transposed(uint32_t r[4], shared<T> p) {
    emulated_load_matrix(r, p, 1);
}

/* The copied bytes are there after the wait. An earlier read finds other bytes. */
template <class T, class U> DEVICE void copy_async(shared<T> to, global<U> from, int is_there) {
    emulated::thread *t = emulated::the_machine().current;
    emulated::pending_copy *copy = &t->copies[t->copy_count];
    constexpr int count = 16 / (int)sizeof(T);
    if (to.offset % 16 || (is_there && from.address % 16))
        emulated::fail("a copy of 16 bytes from or to an address that is not a multiple of 16");
    if (t->copy_count == emulated::MOST_COPIES)
        emulated::fail("too many copies that nothing waits for");
    memset(copy->bytes, 0, sizeof copy->bytes);
    for (int i = 0; i < count; i++) {
        T value = T(), garbage;
        if (is_there)
            value = from[i];
        memcpy(copy->bytes + (size_t)i * sizeof(T), &value, sizeof value);
        memset(&garbage, 0xff, sizeof garbage);
        to[i] = garbage;
    }
    copy->to = emulated::the_machine().memory + to.offset;
    copy->group = t->copy_group;
    t->copy_count++;
    emulated::the_machine().copied[to.offset / 16]++;
}
DEVICE void copy_async_commit() {
    emulated::the_machine().current->copy_group++;
}
template <int n> DEVICE void copy_async_wait() {
    emulated::machine &m = emulated::the_machine();
    emulated::thread *t = m.current;
    int left = 0;
    for (int i = 0; i < t->copy_count; i++) {
        if (t->copies[i].group >= t->copy_group - n) {
            t->copies[left++] = t->copies[i];
            continue;
        }
        memcpy(t->copies[i].to, t->copies[i].bytes, 16);
        m.copied[(t->copies[i].to - m.memory) / 16]--;
    }
    t->copy_count = left;
}

#endif
