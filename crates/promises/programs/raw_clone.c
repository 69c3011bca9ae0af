/* Hazard: a clone without CLONE_VM by an instruction of the program's own bypasses every hook (libc's `syscall` has
 * some: `hostile_fork.c`): the child has a copy of the
 * page table without the compressed pages, and reads zeros. The child may see the right bytes,
 * or be killed (SIGSEGV, SIGBUS: refused), but it must never see wrong ones, and never hang.
 * Arguments: seed, MiB, rounds. */
#include "common.h"

static char *region;
static size_t bytes;

static int child(uint64_t version) {
    for (size_t i = 0; i < bytes / PAGE; i++)
        if (first_wrong(region + i * PAGE, i, version) >= 0) return 3;
    return 0;
}

int main(int argc, char **argv) {
    seed = argument(argc, argv, 1, 1);
    bytes = argument(argc, argv, 2, 24) * MIB;
    long rounds = argument(argc, argv, 3, 4), right = 0, refused = 0;
    region = map_region(bytes);
    for (long round = 0; round < rounds; round++) {
        fill_region(region, bytes, 0, round);
        settle(region, bytes);
        long pid = raw_clone();
        if (pid < 0) die("clone: error %ld", -pid);
        if (pid == 0) syscall(SYS_exit_group, child(round));
        int status;
        uint64_t deadline = now_ms() + 10000;
        while (waitpid(pid, &status, WNOHANG) == 0) {
            if (now_ms() > deadline) {
                kill(pid, SIGKILL);
                die("the cloned child hangs");
            }
            sleep_ms(2);
        }
        if (WIFSIGNALED(status) && (WTERMSIG(status) == SIGSEGV || WTERMSIG(status) == SIGBUS)) refused++;
        else if (WIFEXITED(status) && WEXITSTATUS(status) == 0) right++;
        else die("round %ld: the cloned child saw wrong bytes (status %#x)", round, status);
        verify_region(region, bytes, 0, round, "parent after the raw clone");
    }
    printf("OK %ld right, %ld refused\n", right, refused);
}
