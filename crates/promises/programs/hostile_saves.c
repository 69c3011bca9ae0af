/* Story: a server that saves itself by a child, or a shell that makes a subshell, held what it had then for good, whatever
 * its budget: a fork leaves pages shared until they are written to, also when the child has ended, and the kernel moves
 * no such page. Fills memory, and forks a child that ends for each MiB; then waits until its budget is kept.
 * Arguments: seed, MiB, MiB that it may hold. */
#include "common.h"

/* Memory of its own, in bytes. */
static size_t held(void) {
    unsigned long size, resident, shared;
    FILE *statm = fopen("/proc/self/statm", "r");
    if (!statm || fscanf(statm, "%lu %lu %lu", &size, &resident, &shared) != 3) die_errno("statm");
    fclose(statm);
    return (resident - shared) * PAGE;
}

int main(int argc, char **argv) {
    seed = argument(argc, argv, 1, 1);
    size_t bytes = argument(argc, argv, 2, 64) * MIB, most = argument(argc, argv, 3, 24) * MIB;
    char *region = map_region(bytes);
    for (size_t at = 0; at < bytes; at += MIB) {
        for (size_t page = at; page < at + MIB; page += PAGE) fill_page(region + page, page / PAGE, 1);
        pid_t child = fork();
        if (child < 0) die_errno("fork");
        if (child == 0) {
            verify_page(region + at, at / PAGE, 1, "in the child");
            _exit(0);
        }
        if (wait_exit(child, "child")) die("the child at %zu MiB found something wrong", at / MIB);
    }
    uint64_t end = now_ms() + 30000;
    while (managed() && held() > most)
        if (now_ms() > end) die("%zu MiB are held, and no child has them any more", held() / MIB);
        else sleep_ms(50);
    verify_region(region, bytes, 0, 1, "in the parent");
    printf("OK %zu MiB\n", bytes / MIB);
}
