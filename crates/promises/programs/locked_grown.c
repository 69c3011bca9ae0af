/* Memory of which much is away is locked, moved and made longer. The kernel populates what it has grown by before it tells
 * the pager of the move, and lets nobody put a page in place until then. By mremap, over a fixed place as well, and by
 * realloc, which calls it within libc. Arguments: seed, MiB, MiB that it grows by: more than the pager looks at in one. */
#include "common.h"

static size_t bytes, longer;

static void lock(void *at, size_t length) {
    if (mlock(at, length) == 0) return;
    if (errno == ENOMEM || errno == EPERM) skip("mlock");
    die_errno("mlock");
}

static void check(char *at, uint64_t round) {
    verify_region(at, bytes, 0, round, "what has moved");
    verify_zero_region(at + bytes, longer - bytes, "what it grew by");
    unsigned char resident = 0;
    if (mincore(at + longer - PAGE, PAGE, &resident) || !(resident & 1)) die("what it grew by is not there, and locked");
}

static void by_mremap(uint64_t round, char *place) {
    char *region = map_region(bytes);
    fill_region(region, bytes, 0, round);
    settle(region, bytes);
    lock(region, bytes);
    int flags = place ? MREMAP_MAYMOVE | MREMAP_FIXED : MREMAP_MAYMOVE;
    char *at = mremap(region, bytes, longer, flags, place);
    if (at == MAP_FAILED) die_errno("mremap");
    check(at, round);
    if (munmap(at, longer)) die_errno("munmap");
}

static void onto_evicted(uint64_t round) {
    char *place = map_region(longer);
    fill_region(place, longer, 1 << 20, round);
    settle(place, longer);
    by_mremap(round, place);
}

static void by_realloc(uint64_t round) {
    const size_t head = PAGE - 2 * sizeof(size_t);
    char *block = malloc(bytes + head);
    if (!block) die_errno("malloc");
    char *region = block + head;
    if ((uintptr_t)region % PAGE) die("a block of its own begins behind two words");
    fill_region(region, bytes, 0, round);
    settle(region, bytes);
    lock(region - PAGE, bytes + PAGE);
    block = realloc(block, longer + head);
    if (!block) die_errno("realloc");
    verify_region(block + head, bytes, 0, round, "what has moved");
    memset(block + head + bytes, 7, longer - bytes);
    free(block);
}

int main(int argc, char **argv) {
    seed = argument(argc, argv, 1, 1);
    bytes = argument(argc, argv, 2, 16) * MIB;
    longer = bytes + argument(argc, argv, 3, 80) * MIB;
    for (uint64_t round = 1; round <= 2; round++) by_mremap(round, NULL);
    onto_evicted(3);
    by_realloc(4);
    puts("OK");
}
