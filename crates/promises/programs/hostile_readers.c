/* Story: children that live for a moment and read what is away waited two milliseconds for each page, until their
 * memory was less than the budget, which nobody makes less in a child so young: a fork took a quarter of a second.
 * Then each page cost a switch to the handler and one back, since near the budget no neighbours came with it.
 * Arguments: seed, MiB, children one after the other, MiB that each reads. Says how many switches one costs. */
#include "common.h"
#include <sys/resource.h>

/* How often this process and its children have given up a processor of their own accord. */
static long switches(void) {
    struct rusage own, children;
    if (getrusage(RUSAGE_SELF, &own) || getrusage(RUSAGE_CHILDREN, &children)) die_errno("getrusage");
    return own.ru_nvcsw + children.ru_nvcsw;
}

int main(int argc, char **argv) {
    seed = argument(argc, argv, 1, 1);
    size_t bytes = argument(argc, argv, 2, 24) * MIB;
    long count = argument(argc, argv, 3, 10);
    size_t read = argument(argc, argv, 4, 2) * MIB;
    char *region = map_region(bytes);
    fill_region(region, bytes, 0, 1);
    settle(region, bytes);
    long before = switches();
    for (long n = 0; n < count; n++) {
        pid_t child = fork();
        if (child < 0) die_errno("fork");
        if (child == 0) {
            verify_region(region, read, 0, 1, "in the child");
            _exit(0);
        }
        if (wait_exit(child, "child")) die("child %ld found something wrong", n);
    }
    long each = (switches() - before) / count;
    verify_region(region, bytes, 0, 1, "in the parent");
    printf("OK %ld switches for each of %ld children\n", each, count);
}
