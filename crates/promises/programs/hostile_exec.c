/* Story: what the process executed after it had dropped its rights (the entry points of container images do so by
 * `setpriv`, `gosu`, `su-exec`) could have no pager, and ended with status 125. It must run. Arguments: seed, MiB, how;
 * `run` is what the other ways end in. */
#include "common.h"
#include <grp.h>

static void become_nobody(void) {
    if (setgroups(0, NULL) || setgid(65534) || setuid(65534)) die_errno("setuid");
}

int main(int argc, char **argv) {
    seed = argument(argc, argv, 1, 1);
    size_t bytes = argument(argc, argv, 2, 24) * MIB;
    const char *how = argc > 3 ? argv[3] : "run";
    if (strcmp(how, "run") == 0) {
        char *region = map_region(bytes);
        fill_region(region, bytes, 0, 1);
        size_t away = press_out(region, bytes, 1, 1000, 0);
        verify_region(region, bytes, 0, 1, "after the exec");
        printf("OK user %d, pages %s\n", (int)geteuid(), away ? "away" : "all in place");
        return 0;
    }
    char *next[] = {argv[0], argv[1], argv[2], "run", NULL};
    if (strcmp(how, "setuid") == 0) {
        become_nobody();
    } else if (strcmp(how, "wrapped") == 0) { /* and once more */
        become_nobody();
        execlp("sh", "sh", "-c", "exec \"$0\" \"$@\"", next[0], next[1], next[2], next[3], NULL);
    } else if (strcmp(how, "seteuid") == 0) {
        if (setresuid(65534, 65534, 0)) die_errno("setresuid");
    }
    execv(argv[0], next);
    die_errno("exec");
}
