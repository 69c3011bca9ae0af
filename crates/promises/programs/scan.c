/* Going through memory larger than the budget in even steps, over and over: in order, backwards, every
 * third page. Every page is compared; some are written on the way.
 * Arguments: seed, MiB, rounds. */
#include "common.h"

static char *region;
static uint64_t *versions;

static void visit(size_t page, size_t number) {
    char *at = region + page * PAGE;
    verify_page(at, page, versions[page], "scan");
    if (number % 16 == 0) fill_page(at, page, ++versions[page]);
}

int main(int argc, char **argv) {
    seed = argument(argc, argv, 1, 1);
    size_t bytes = argument(argc, argv, 2, 64) * MIB, pages = bytes / PAGE, visits = 0;
    long rounds = argument(argc, argv, 3, 2);
    region = map_region(bytes);
    versions = map_region(pages * sizeof *versions);
    fill_region(region, bytes, 0, 0);
    for (long round = 0; round < rounds; round++) {
        for (size_t page = 0; page < pages; page++) visit(page, visits++);
        for (size_t page = pages; page-- > 0;) visit(page, visits++);
        for (size_t first = 0; first < 3; first++)
            for (size_t page = first; page < pages; page += 3) visit(page, visits++);
    }
    printf("OK %zu visits of %zu pages\n", visits, pages);
}
