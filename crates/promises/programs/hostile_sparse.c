/* Hostile: a heap that is used here and there. Half a megabyte lies between any two of its pages, so that each piece that is
 * treated by itself is a mapping of its own, and the kernel allows 65,530. Memory and threads must be had as
 * before, and the pages hold what they held. Arguments: seed, pages. */
#include "common.h"

enum { STEP = 512 << 10 };

static size_t mappings(void) {
    FILE *maps = fopen("/proc/self/maps", "r");
    size_t lines = 0;
    for (int c; maps && (c = getc(maps)) != EOF;) lines += c == '\n';
    if (maps) fclose(maps);
    return lines;
}

static void *return_it(void *it) { return it; }

int main(int argc, char **argv) {
    seed = argument(argc, argv, 1, 1);
    size_t pages = argument(argc, argv, 2, 45000), away = 0, most = 0;
    int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
    char *heap = mmap(NULL, pages * STEP, PROT_READ | PROT_WRITE, flags, -1, 0);
    if (heap == MAP_FAILED) die_errno("mmap");
    madvise(heap, pages * STEP, MADV_NOHUGEPAGE);
    for (size_t i = 0; i < pages; i++) fill_page(heap + i * STEP, i, 1);
    for (int round = 0; round < (managed() ? 200 : 1) && away < pages / 2; round++) {
        sleep_ms(100);
        size_t now = mappings();
        if (now > most) most = now;
        /* Now and then one is used, as the program pleases. */
        for (size_t i = round; i < pages; i += 997) verify_page(heap + i * STEP, i, 1, "meanwhile");
        away = 0;
        for (size_t i = 0; i < pages; i++) away += absent_pages(heap + i * STEP, PAGE);
    }
    if (managed() && away < pages / 4) die("only %zu of %zu pages are away", away, pages);
    for (int n = 0; n < 200; n++) {
        /* Each is a mapping of its own. */
        char *other = mmap(NULL, 64 * PAGE, n % 2 ? PROT_READ : PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (other == MAP_FAILED) die("mmap, with %zu mappings: %s", mappings(), strerror(errno));
    }
    join_thread(start_thread(return_it, NULL));
    for (size_t i = 0; i < pages; i++) verify_page(heap + i * STEP, i, 1, "sparse");
    printf("OK mappings %zu away %zu\n", most, away);
}
