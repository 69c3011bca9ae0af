/* Hazard: while a REMOVE, UNMAP or REMAP event is unread, UFFDIO_COPY and MOVE answer EAGAIN; a
 * handler that retries without reading the event never ends. One thread removes, unmaps and
 * moves the odd stripes of a region; others fault on the even stripes between them.
 * Arguments: seed, milliseconds. */
#include "common.h"

enum { STRIPES = 128, STRIPE_PAGES = 32 };
static const size_t STRIPE = STRIPE_PAGES * 4096;

static char *region;
static uint64_t deadline;
static _Atomic uint64_t verified;

static void *fault_on_neighbours(void *context) {
    uint64_t state = seed + (uintptr_t)context, count = 0;
    while (now_ms() < deadline) {
        size_t stripe = rng(&state) % STRIPES & ~1ul, first = rng(&state) % STRIPE_PAGES;
        for (size_t k = first; k < STRIPE_PAGES; k++, count++)
            verify_page(region + stripe * STRIPE + k * PAGE, stripe * STRIPE_PAGES + k, 1, "neighbour");
    }
    verified += count;
    return NULL;
}

int main(int argc, char **argv) {
    seed = argument(argc, argv, 1, 1);
    deadline = now_ms() + argument(argc, argv, 2, 3000);
    region = map_region(STRIPES * STRIPE);
    char *elsewhere = map_region(STRIPE);
    fill_region(region, STRIPES * STRIPE, 0, 1);
    pthread_t readers[2];
    for (uintptr_t i = 0; i < 2; i++) readers[i] = start_thread(fault_on_neighbours, (void *)i);
    uint64_t state = seed, operations = 0;
    while (now_ms() < deadline) {
        size_t stripe = rng(&state) % STRIPES | 1;
        char *at = region + stripe * STRIPE;
        uint64_t id = stripe * STRIPE_PAGES;
        verify_region(at, STRIPE, id, 1, "stripe before its removal");
        switch (rng(&state) % 3) {
        case 0:
            if (madvise(at, STRIPE, MADV_DONTNEED)) die_errno("madvise");
            verify_zero_region(at, STRIPE, "after DONTNEED");
            break;
        case 1:
            if (munmap(at, STRIPE)) die_errno("munmap");
            if (mmap(at, STRIPE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) != at)
                die_errno("mmap");
            verify_zero_region(at, STRIPE, "after munmap and mmap");
            break;
        default:
            if (mremap(at, STRIPE, STRIPE, MREMAP_MAYMOVE | MREMAP_FIXED, elsewhere) != elsewhere) die_errno("mremap");
            verify_region(elsewhere, STRIPE, id, 1, "moved away");
            if (mremap(elsewhere, STRIPE, STRIPE, MREMAP_MAYMOVE | MREMAP_FIXED, at) != at) die_errno("mremap back");
            verify_region(at, STRIPE, id, 1, "moved back");
            elsewhere = map_region(STRIPE);
        }
        fill_region(at, STRIPE, id, 1);
        operations++;
    }
    for (unsigned i = 0; i < 2; i++) join_thread(readers[i]);
    verify_region(region, STRIPES * STRIPE, 0, 1, "at the end");
    printf("OK %llu removals, %llu neighbours read\n", (unsigned long long)operations, (unsigned long long)verified);
}
