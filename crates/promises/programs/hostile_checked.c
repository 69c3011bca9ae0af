/* Heap memory that goes cold, and is verified; at the end a heap checker looks into it. With an argument some of it is
 * known to nobody then. */
#include "common.h"

#define BYTES (8 * MIB)

char *cold;
static void *volatile lost;

static __attribute__((noinline)) void leave_memory(void) {
    for (int i = 0; i < 100; i++) lost = malloc(1000);
    lost = NULL;
}

int main(int argc, char **argv) {
    (void)argv;
    cold = aligned_alloc(PAGE, BYTES);
    fill_region(cold, BYTES, 0, 1);
    if (argc > 1) leave_memory();
    settle(cold, BYTES);
    verify_region(cold, BYTES, 0, 1, "cold");
    settle(cold, BYTES);
    dprintf(1, "OK\n");
    return 0;
}
