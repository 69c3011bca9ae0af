/* Story: children that live for a moment and read what is away waited two milliseconds for each page, until their
 * memory was less than the budget, which nobody makes less in a child so young: a fork took a quarter of a second.
 * Arguments: seed, MiB, children one after the other, MiB that each reads. */
#include "common.h"

int main(int argc, char **argv) {
    seed = argument(argc, argv, 1, 1);
    size_t bytes = argument(argc, argv, 2, 24) * MIB;
    long count = argument(argc, argv, 3, 10);
    size_t read = argument(argc, argv, 4, 2) * MIB;
    char *region = map_region(bytes);
    fill_region(region, bytes, 0, 1);
    settle(region, bytes);
    for (long n = 0; n < count; n++) {
        pid_t child = fork();
        if (child < 0) die_errno("fork");
        if (child == 0) {
            verify_region(region, read, 0, 1, "in the child");
            _exit(0);
        }
        if (wait_exit(child, "child")) die("child %ld found something wrong", n);
    }
    verify_region(region, bytes, 0, 1, "in the parent");
    printf("OK %ld children\n", count);
}
