/* Memory that comes after a while, in mappings of its own, is found and held within the budget, whatever else
 * the pager looks for. Arguments: seed, MiB before, MiB later, MiB of the budget. */
#include "common.h"

static size_t resident_mib(void) {
    size_t size = 0, resident = 0, shared = 0;
    FILE *statm = fopen("/proc/self/statm", "r");
    if (!statm || fscanf(statm, "%zu %zu %zu", &size, &resident, &shared) != 3) die("statm");
    fclose(statm);
    return (resident - shared) * PAGE / MIB;
}

static void write_a_little(char *region, size_t bytes) {
    for (size_t i = 0; i < bytes / PAGE; i++) *(uint64_t *)(region + i * PAGE) = i * 2654435761u + seed;
}

int main(int argc, char **argv) {
    seed = argument(argc, argv, 1, 1);
    size_t before = argument(argc, argv, 2, 512), later = argument(argc, argv, 3, 256);
    size_t budget = argument(argc, argv, 4, 600);
    write_a_little(map_region(before * MIB), before * MIB);
    sleep_ms(2000); /* the pager has looked at it */
    for (size_t n = 0; n < later; n += 8) write_a_little(map_region(8 * MIB), 8 * MIB);
    sleep_ms(2000);
    size_t held = resident_mib();
    if (managed() && held > budget + budget / 20) die("%zu MiB are held, the budget is %zu", held, budget);
    printf("OK %zu MiB of %zu\n", managed() ? held : 0, before + later);
}
