/* Heap memory of a sanitized program, cold, and then read, copied and compared by calls that sanitizers intercept: its
 * shadow memory is cold too. Then what the first argument says: `clean` ends; `leak` leaves memory that nobody knows;
 * `check` asks for leaks in the middle and goes on; `overflow` reads behind a block; `race` lets two threads write
 * the same word; `unset` decides by memory that nobody wrote; `shift` shifts too far. */
#include "common.h"

#define BYTES (12 * MIB)

__attribute__((weak)) int __lsan_do_recoverable_leak_check(void);

#ifdef ANSWERS
/* LeakSanitizer's question, whether it shall stay away; a function of this visibility. */
#define STRING(name) #name
#define VISIBLE(how) __attribute__((visibility(STRING(how))))
VISIBLE(ANSWERS) int __lsan_is_turned_off(void) { return 0; }
#endif

static char *cold, *copy;
static void *volatile lost;
static volatile int word;

static void *verify_cold(void *what) {
    verify_region(cold, BYTES, 0, 1, what);
    return NULL;
}

static void *write_word(void *unused) {
    for (int i = 0; i < 1000; i++) word += i;
    return unused;
}

static void leave_memory(void) {
    for (int i = 0; i < 10; i++) lost = malloc(1000);
    lost = NULL;
}

int main(int argc, char **argv) {
    const char *what = argc > 1 ? argv[1] : "clean";
    cold = aligned_alloc(PAGE, BYTES);
    copy = aligned_alloc(PAGE, BYTES);
    fill_region(cold, BYTES, 0, 1);
    settle(cold, BYTES);
    pthread_t thread = start_thread(verify_cold, "beside");
    memcpy(copy, cold, BYTES);
    join_thread(thread);
    settle(cold, BYTES);
    if (memcmp(copy, cold, BYTES)) die("the copy differs");
    settle(copy, BYTES);
    verify_region(copy, BYTES, 0, 1, "the copy");
    pid_t child = fork();
    if (child == 0) {
        verify_region(cold, BYTES, 0, 1, "in a child");
        _exit(0);
    }
    if (wait_exit(child, "fork")) die("a child found something wrong");
    settle(cold, BYTES);

    if (!strcmp(what, "leak")) leave_memory();
    if (!strcmp(what, "check")) {
        leave_memory();
        dprintf(1, "leaks: %d\n", __lsan_do_recoverable_leak_check());
        verify_region(cold, BYTES, 0, 1, "after a check");
    }
    if (!strcmp(what, "overflow")) word = cold[BYTES + argc];
    if (!strcmp(what, "race")) {
        thread = start_thread(write_word, NULL);
        write_word(NULL);
        join_thread(thread);
    }
    if (!strcmp(what, "unset")) {
        int *unset = malloc(sizeof *unset);
        if (*(volatile int *)unset) dprintf(2, "set\n");
    }
    if (!strcmp(what, "shift")) word = 1 << (31 + argc);
    dprintf(1, "OK %s\n", what);
    return 0;
}
