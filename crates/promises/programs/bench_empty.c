/*
 * bench_empty: memory that is dropped and touched again, over and over, in the shapes in which programs do that.
 *
 *   purge   blocks of a heap are filled and dropped by MADV_DONTNEED (jemalloc)
 *   map     a block is mapped, filled, and unmapped (malloc's large blocks)
 *   brk     the heap grows, is filled, and shrinks
 *   vm      a quarter of a mapping is filled and compared, then all of it is dropped (stress-ng --vm)
 *
 * Before, a heap of HEAP MiB is filled and rests for REST milliseconds, so that a pager has something to take. With
 * `purge` and `vm` it is the memory that is used; with the others it lies beside it. WORK is how many MiB are filled in all.
 *
 * The last line is how long the filling took, by the wall and of a processor, how many pages were touched, and how many held something wrong.
 *
 * usage: bench_empty SHAPE HEAP REST WORK
 */
#include "bench.h"

static uint64_t wrong, touched;

/* Of the calling thread: a busy machine changes it less than the time on the wall. */
static uint64_t cpu_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return t.tv_sec * 1000000000ull + t.tv_nsec;
}

static void fill(char *at, size_t bytes, uint64_t number)
{
    for (size_t n = 0; n < bytes / PAGE; n++) {
        uint64_t *words = (uint64_t *)(at + n * PAGE);
        wrong += words[0] != 0 || words[WORDS - 1] != 0;
        words[0] = words[WORDS - 1] = number + n;
        touched++;
    }
}

static void compare(const char *at, size_t bytes, uint64_t number)
{
    for (size_t n = 0; n < bytes / PAGE; n++) {
        const uint64_t *words = (const uint64_t *)(at + n * PAGE);
        wrong += words[0] != number + n || words[WORDS - 1] != number + n;
    }
}

static void drop(char *at, size_t bytes)
{
    if (madvise(at, bytes, MADV_DONTNEED)) fail("madvise");
}

static void purge(char *heap, size_t heap_bytes, size_t work)
{
    for (uint64_t n = 1; work > 0; n++) {
        size_t bytes = (mix(n) % 16 + 1) * MIB / 4;
        char *at = heap + mix(n * 31) % (heap_bytes / MIB - 4) * MIB;
        drop(at, bytes);
        fill(at, bytes, n << 32);
        compare(at, bytes, n << 32);
        drop(at, bytes);
        work -= bytes < work ? bytes : work;
    }
}

static void map(size_t work)
{
    for (uint64_t n = 1; work > 0; n++) {
        size_t bytes = (mix(n) % 4 + 1) * MIB;
        char *at = map_bytes(bytes);
        fill(at, bytes, n << 32);
        compare(at, bytes, n << 32);
        munmap(at, bytes);
        work -= bytes < work ? bytes : work;
    }
}

static void grow(size_t work)
{
    for (uint64_t n = 1; work > 0; n++) {
        size_t bytes = (mix(n) % 4 + 1) * MIB;
        char *at = sbrk(bytes);
        if (at == (void *)-1) fail("sbrk");
        fill(at, bytes, n << 32);
        compare(at, bytes, n << 32);
        if (sbrk(-(intptr_t)bytes) == (void *)-1) fail("sbrk");
        work -= bytes < work ? bytes : work;
    }
}

static void vm(char *heap, size_t heap_bytes, size_t work)
{
    for (uint64_t n = 1; work > 0; n++) {
        size_t bytes = heap_bytes / 4;
        char *at = heap + n % 4 * bytes;
        drop(heap, heap_bytes);
        fill(at, bytes, n << 32);
        compare(at, bytes, n << 32);
        work -= bytes < work ? bytes : work;
    }
}

int main(int argc, char **argv)
{
    if (argc != 5) {
        fprintf(stderr, "usage: bench_empty SHAPE HEAP REST WORK\n");
        return 2;
    }
    const char *shape = argv[1];
    size_t heap_bytes = strtoull(argv[2], NULL, 0) * MIB, work = strtoull(argv[4], NULL, 0) * MIB;
    uint64_t rest_ns = strtoull(argv[3], NULL, 0) * 1000000;
    make_patterns();
    char *heap = !strcmp(shape, "brk") ? sbrk(heap_bytes + PAGE) : map_bytes(heap_bytes);
    if (heap == (void *)-1) fail("sbrk");
    heap = (char *)(((uintptr_t)heap + PAGE - 1) & ~(uintptr_t)(PAGE - 1));
    for (size_t n = 0; n < heap_bytes / PAGE; n++) fill_page(heap + n * PAGE, TEXT, n);
    struct timespec rest = {rest_ns / 1000000000, rest_ns % 1000000000};
    nanosleep(&rest, NULL);

    uint64_t begin = now_ns(), cpu = cpu_ns();
    if (!strcmp(shape, "purge")) purge(heap, heap_bytes, work);
    else if (!strcmp(shape, "map")) map(work);
    else if (!strcmp(shape, "brk")) grow(work);
    else if (!strcmp(shape, "vm")) vm(heap, heap_bytes, work);
    else return fprintf(stderr, "no such shape: %s\n", shape), 2;
    uint64_t took = now_ns() - begin;
    cpu = cpu_ns() - cpu;

    if (!strcmp(shape, "map") || !strcmp(shape, "brk"))
        for (size_t n = 0; n < heap_bytes / PAGE; n++) wrong += page_is_wrong(heap + n * PAGE, TEXT, n);
    printf("{\"took_ns\":%" PRIu64 ",\"cpu_ns\":%" PRIu64 ",\"touched\":%" PRIu64 ",\"wrong\":%" PRIu64 "}\n", took,
           cpu, touched, wrong);
    return wrong != 0;
}
