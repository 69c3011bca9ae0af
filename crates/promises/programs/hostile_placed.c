/* Story: the library held a forked child to the processor where it was forked, for a moment, and asked for all of them
 * afterwards: where its parent had put it meanwhile was lost, in one child of eight. The parent puts each child on one
 * processor at once; the child looks some milliseconds after that. Arguments: seed, MiB, children. */
#include "common.h"

int main(int argc, char **argv) {
    seed = argument(argc, argv, 1, 1);
    size_t bytes = argument(argc, argv, 2, 24) * MIB;
    long children = argument(argc, argv, 3, 200);
    cpu_set_t all;
    if (sched_getaffinity(0, sizeof all, &all)) die_errno("sched_getaffinity");
    if (CPU_COUNT(&all) < 2) skip("one processor");
    char *region = map_region(bytes);
    fill_region(region, bytes, 0, 1);
    // Of less nothing is away.
    if (bytes > 8 * MIB) settle(region, bytes);
    int told[2];
    if (pipe(told)) die_errno("pipe");
    for (long n = 0; n < children; n++) {
        int number = -1;
        for (long left = n % CPU_COUNT(&all); left >= 0; left--)
            while (!CPU_ISSET(++number, &all)) continue;
        cpu_set_t one, there;
        CPU_ZERO(&one);
        CPU_SET(number, &one);
        pid_t child = fork();
        if (child < 0) die_errno("fork");
        if (child == 0) {
            char put;
            if (read(told[0], &put, 1) != 1) die_errno("read");
            sleep_ms(3);
            if (sched_getaffinity(0, sizeof there, &there)) die_errno("sched_getaffinity");
            if (!CPU_EQUAL(&one, &there)) die("child %ld may run elsewhere than its parent has said", n);
            verify_page(region, 0, 1, "in the child");
            _exit(0);
        }
        if (sched_setaffinity(child, sizeof one, &one)) die_errno("sched_setaffinity");
        if (write(told[1], "p", 1) != 1) die_errno("write");
        if (wait_exit(child, "child")) die("child %ld", n);
    }
    verify_region(region, bytes, 0, 1, "in the parent");
    printf("OK %ld children\n", children);
}
