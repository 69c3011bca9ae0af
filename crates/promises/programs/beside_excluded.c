/* Hazard: memory that must stay lies between pages that may go, in one run of the reclaimer's. That it stays must not
 * keep its neighbours in place. Robust mutexes are made on every eighth page of a region that was away before.
 * Arguments: seed. */
#include "common.h"

enum { PAGES = 128, EACH = 8 };
static const size_t BYTES = PAGES * PAGE;

int main(int argc, char **argv) {
    seed = argument(argc, argv, 1, 1);
    char *region = map_apart(BYTES);
    fill_region(region, BYTES, 1, 0);
    settle(region, BYTES);
    pthread_mutexattr_t attributes;
    pthread_mutexattr_init(&attributes);
    pthread_mutexattr_setrobust(&attributes, PTHREAD_MUTEX_ROBUST);
    for (unsigned i = 0; i < PAGES; i += EACH) pthread_mutex_init((void *)(region + i * PAGE), &attributes);
    for (unsigned i = 0; i < PAGES; i++)
        if (i % EACH) fill_page(region + i * PAGE, 1 + i, 1);
    /* All but those pages: half of them at least at the same time, since chaos also brings pages back. */
    size_t away = press_out(region, BYTES, PAGES / 2, managed() ? 15000 : 0, 16);
    if (managed() && away < PAGES / 2) die("%zu of %d pages went: those beside excluded ones stay", away, PAGES);
    for (unsigned i = 0; i < PAGES; i++)
        if (i % EACH) verify_page(region + i * PAGE, 1 + i, 1, "beside an excluded page");
    printf("OK %zu of %d pages were away\n", away, PAGES);
}
