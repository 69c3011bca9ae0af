/* Says which signal has come, how often, and with which value. Arguments: the signal. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static volatile sig_atomic_t times, value;

static void handle(int signal, siginfo_t *info, void *context) {
    (void)signal, (void)context;
    times++;
    value = info->si_value.sival_int;
}

int main(int argc, char **argv) {
    struct sigaction action = {.sa_sigaction = handle, .sa_flags = SA_SIGINFO};
    if (argc < 2 || sigaction(atoi(argv[1]), &action, 0)) return 2;
    puts("ready");
    fflush(stdout);
    for (int i = 0; !times && i < 1000; i++) nanosleep(&(struct timespec){0, 10000000}, 0);
    /* Should it come twice. */
    nanosleep(&(struct timespec){0, 200000000}, 0);
    printf("%d times, value %d\n", times, value);
    return 0;
}
