/* Hazard: the kernel writes a signal frame to a stack that might be cold, and a handler runs in
 * the middle of a fault. Timer signals at 1 kHz are handled on an alternate stack (itself heap
 * memory) while the main program and a second thread fault; the handler reads and writes cold
 * memory of its own. Arguments: seed, milliseconds. */
#include "common.h"
#include <sys/time.h>

enum { BYTES = 16 << 20, OWN_PAGES = 512, AROUND = 64 * PAGE };
static const size_t ALTERNATE = 64 * 1024;
static char *region, *handlers;
static uint64_t handler_state;
static volatile uint64_t handled, off_stack, own_away;
static char *alternate;
static uint64_t deadline;

static void on_timer(int number, siginfo_t *info, void *context) {
    (void)number, (void)info, (void)context;
    int before = errno;
    char here;
    if (&here < alternate || &here >= alternate + ALTERNATE) off_stack++;
    size_t i = rng(&handler_state) % OWN_PAGES;
    own_away += absent_pages(handlers + i * PAGE, PAGE);
    uint64_t *version = (uint64_t *)(handlers + OWN_PAGES * PAGE) + i;
    verify_page(handlers + i * PAGE, i, *version, "handler's page");
    fill_page(handlers + i * PAGE, i, ++*version);
    verify_page(region + i * 8 * PAGE, i * 8, 1, "handler in the region");
    handled++;
    errno = before;
}

static void *second(void *unused) {
    while (now_ms() < deadline) verify_region(region + BYTES / 2, BYTES / 2, BYTES / 2 / PAGE, 1, "second thread");
    return unused;
}

int main(int argc, char **argv) {
    seed = argument(argc, argv, 1, 1);
    deadline = now_ms() + argument(argc, argv, 2, 3000);
    region = map_region(BYTES);
    handlers = map_region((OWN_PAGES + 1) * PAGE);
    fill_region(region, BYTES, 0, 1);
    fill_region(handlers, OWN_PAGES * PAGE, 0, 0);
    /* In the middle of memory like any other, which is taken. */
    char *around = map_apart(2 * AROUND + ALTERNATE);
    fill_region(around, 2 * AROUND + ALTERNATE, 0, 0);
    alternate = around + AROUND;
    size_t around_away = 0;
    stack_t stack = {.ss_sp = alternate, .ss_size = ALTERNATE};
    struct sigaction action = {.sa_sigaction = on_timer, .sa_flags = SA_SIGINFO | SA_ONSTACK | SA_RESTART};
    if (sigaltstack(&stack, NULL) || sigaction(SIGALRM, &action, NULL)) die_errno("sigaltstack");
    settle(region, BYTES);
    /* The second thread has no alternate stack. It inherits the mask: blocking it itself would be too
     * late where the timer is faster than it. */
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, &before);
    pthread_t thread = start_thread(second, NULL);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    struct itimerval timer = {{0, 1000}, {0, 1000}};
    setitimer(ITIMER_REAL, &timer, NULL);
    uint64_t rounds = 0;
    for (; now_ms() < deadline; rounds++) {
        verify_region(region, BYTES, 0, 1, "main program");
        if (absent_pages(alternate, ALTERNATE)) die("pages of the alternate stack at %p were away", (void *)alternate);
        around_away += absent_pages(around, AROUND) + absent_pages(alternate + ALTERNATE, AROUND);
        if (rounds % 4 == 0) sleep_ms(50); /* signals find the program idle, too */
    }
    timer = (struct itimerval){{0, 0}, {0, 0}};
    setitimer(ITIMER_REAL, &timer, NULL);
    join_thread(thread);
    if (off_stack) die("%llu signals ran off the alternate stack", (unsigned long long)off_stack);
    if (!handled) die("no signal came");
    insist_away(around_away, "memory beside the alternate stack");
    insist_away(own_away, "the handler's memory");
    printf("OK %llu signals, %llu rounds\n", (unsigned long long)handled, (unsigned long long)rounds);
}
