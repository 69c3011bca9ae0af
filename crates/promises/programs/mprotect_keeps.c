/* Hazard: PROT_NONE memory keeps its content (collectors and guard schemes close and open it),
 * compressed or not, and an access while it is closed is SIGSEGV, as natively: the pager must
 * not quietly answer it. Arguments: seed, MiB, milliseconds. */
#include "common.h"
#include <setjmp.h>

enum { SLOT_PAGES = 64 };
static const size_t SLOT = SLOT_PAGES * 4096;

static sigjmp_buf back;
static volatile sig_atomic_t caught;

static void on_segv(int number) {
    caught = number;
    siglongjmp(back, 1);
}

static void expect_refusal(volatile char *at) {
    caught = 0;
    if (sigsetjmp(back, 1) == 0) (void)*at;
    if (!caught) die("a read of closed memory at %p was answered", (void *)at);
}

int main(int argc, char **argv) {
    seed = argument(argc, argv, 1, 1);
    size_t bytes = argument(argc, argv, 2, 24) * MIB, slots = bytes / SLOT;
    uint64_t deadline = now_ms() + argument(argc, argv, 3, 2500), state = seed, rounds = 0, refused = 0;
    size_t closed_away = 0, readable_away = 0;
    struct sigaction action = {.sa_handler = on_segv};
    sigaction(SIGSEGV, &action, NULL);
    char *region = map_region(bytes);
    fill_region(region, bytes, 0, 1);
    for (; now_ms() < deadline; rounds++) {
        settle(region, bytes);
        for (size_t s = 0; s < slots; s++)
            if (mprotect(region + s * SLOT, SLOT, s % 3 == 0 ? PROT_NONE : s % 3 == 1 ? PROT_READ : PROT_READ | PROT_WRITE))
                die_errno("mprotect");
        sleep_ms(20); /* the pager finds them closed, too */
        for (size_t s = 0; s < slots; s++) {
            if (s % 3 == 0) closed_away += absent_pages(region + s * SLOT, SLOT);
            if (s % 3 == 1) readable_away += absent_pages(region + s * SLOT, SLOT);
        }
        for (unsigned k = 0; k < 20; k++, refused++)
            expect_refusal(region + rng(&state) % (slots / 3) * 3 * SLOT + rng(&state) % SLOT_PAGES * PAGE);
        if (mprotect(region, bytes, PROT_READ | PROT_WRITE)) die_errno("mprotect");
        verify_region(region, bytes, 0, 1, "opened again");
        fill_region(region, bytes / 4, 0, 1);
    }
    insist_away(closed_away, "closed memory");
    insist_away(readable_away, "readable memory");
    printf("OK %llu rounds, %llu accesses refused, %zu closed pages away\n", (unsigned long long)rounds,
           (unsigned long long)refused, closed_away);
}
