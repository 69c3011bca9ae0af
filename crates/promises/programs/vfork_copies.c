/* A child with CLONE_VFORK and a copy of the memory: its parent waits until it executes something or ends, and the
 * parent's other threads go on meanwhile. They fork, and change as much memory as they like.
 * Arguments: seed. */
#include "common.h"
#include <sched.h>

static const size_t BYTES = 16 << 20;
static int ready[2];

static void *go_on(void *unused) {
    sleep_ms(300);
    pid_t child = fork();
    if (child < 0) die_errno("fork");
    if (!child) _exit(0);
    if (wait_exit(child, "a child of fork")) die("a child of fork has failed");
    char *memory = map_region(64 * PAGE);
    for (int n = 0; n < 30000; n++) {
        memory[n % 64 * PAGE] = 1;
        if (madvise(memory + n % 64 * PAGE, PAGE, MADV_DONTNEED)) die_errno("madvise");
    }
    if (write(ready[1], "x", 1) != 1) die_errno("write");
    return unused;
}

int main(int argc, char **argv) {
    seed = argument(argc, argv, 1, 1);
    char *region = map_region(BYTES), byte;
    fill_region(region, BYTES, 0, 1);
    settle(region, BYTES);
    if (pipe(ready)) die_errno("pipe");
    for (int way = 0; way < 2; way++) {
        pthread_t thread = start_thread(go_on, NULL);
        uint64_t begun = now_ms();
        struct { uint64_t flags, pidfd, child_tid, parent_tid, signal, stack, size, tls; } how = {.flags = CLONE_VFORK};
        how.signal = SIGCHLD;
        long child = way ? syscall(435 /* clone3 */, &how, sizeof how)
                         : syscall(SYS_clone, CLONE_VFORK | SIGCHLD, 0, 0, 0, 0);
        if (child < 0) die_errno("clone");
        if (!child) {
            /* What another thread of its parent writes while the parent waits. */
            if (read(ready[0], &byte, 1) != 1) _exit(2);
            verify_region(region, BYTES, 0, 1, "in the child");
            if (way) execl("/bin/true", "true", NULL);
            _exit(0);
        }
        if (now_ms() - begun < 200) die("the parent has not waited");
        if (wait_exit(child, "the child")) die("the child has failed");
        pthread_join(thread, NULL);
        verify_region(region, BYTES, 0, 1, "in the parent");
    }
    printf("OK vfork copies\n");
}
