/* Hazard: stacks hold the TCB, the rseq area and the robust list, and thread-local storage lies
 * beside them: the kernel touches them at any moment. Threads recurse deeply, then lie idle for
 * seconds, half of them on stacks of the program's own and all with an alternate signal stack.
 * All the while every page of the stacks in use must be resident; then the data must be right.
 * Arguments: seed, threads, milliseconds. */
#include "common.h"

enum { DEPTH = 48, MOST = 16 };
static const size_t STACK = 1 << 20, ALTERNATE = 32 * 1024;

struct sleeper {
    unsigned index;
    char *low, *high; /* pages of the stack in use: thread-local storage is at its high end */
    char *alternate;
    _Atomic int deep;
};

static struct sleeper sleepers[MOST];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t wake = PTHREAD_COND_INITIALIZER;
static int woken;
static __thread uint64_t local[1024];

static void recurse(struct sleeper *me, unsigned depth) {
    volatile uint64_t frame[400];
    for (unsigned i = 0; i < 400; i++) frame[i] = word_of(me->index, depth, i);
    if (depth == DEPTH) {
        me->low = (char *)((uintptr_t)frame & -PAGE);
        me->deep = 1;
        pthread_mutex_lock(&lock);
        while (!woken) pthread_cond_wait(&wake, &lock);
        pthread_mutex_unlock(&lock);
    } else {
        recurse(me, depth + 1);
    }
    for (unsigned i = 0; i < 400; i++)
        if (frame[i] != word_of(me->index, depth, i))
            die("thread %u depth %u word %u at %p: expected %#llx, found %#llx", me->index, depth, i, (void *)&frame[i],
                (unsigned long long)word_of(me->index, depth, i), (unsigned long long)frame[i]);
}

static void *lie_idle(void *context) {
    struct sleeper *me = context;
    me->alternate = malloc(ALTERNATE + PAGE);
    memset(me->alternate, me->index + 1, ALTERNATE);
    stack_t stack = {.ss_sp = me->alternate, .ss_size = ALTERNATE};
    if (sigaltstack(&stack, NULL)) die_errno("sigaltstack");
    for (unsigned i = 0; i < 1024; i++) local[i] = me->index * 5000 + i;
    me->high = (char *)(((uintptr_t)pthread_self() & -PAGE) + PAGE); /* the TCB's page */
    recurse(me, 0);
    for (unsigned i = 0; i < 1024; i++)
        if (local[i] != me->index * 5000 + i) die("thread %u: thread-local word %u changed", me->index, i);
    for (size_t i = 0; i < ALTERNATE; i++)
        if (me->alternate[i] != (char)(me->index + 1)) die("thread %u: its alternate stack changed", me->index);
    return NULL;
}

static void check_resident(const char *what, unsigned index, char *low, char *high) {
    size_t absent = absent_pages(low, high - low);
    if (absent) die("thread %u: %zu of %zu pages of its %s (%p to %p) were evicted", index, absent,
                    (size_t)(high - low) / PAGE, what, (void *)low, (void *)high);
}

int main(int argc, char **argv) {
    seed = argument(argc, argv, 1, 1);
    unsigned threads = argument(argc, argv, 2, 8);
    uint64_t deadline = now_ms() + argument(argc, argv, 3, 4000), looks = 0;
    size_t bytes = 24 * MIB;
    char *region = map_region(bytes), *control = map_apart(STACK); /* a stack that nobody runs on */
    size_t control_away = 0;
    fill_region(region, bytes, 0, 1);
    fill_region(control, STACK, 0, 1);
    pthread_t handles[MOST];
    for (unsigned i = 0; i < threads; i++) {
        pthread_attr_t attributes;
        pthread_attr_init(&attributes);
        if (i % 2) {
            pthread_attr_setstack(&attributes, map_region(STACK), STACK);
        } else {
            pthread_attr_setstacksize(&attributes, STACK);
        }
        sleepers[i].index = i;
        int e = pthread_create(&handles[i], &attributes, lie_idle, &sleepers[i]);
        if (e) die("pthread_create: %s", strerror(e));
    }
    for (unsigned i = 0; i < threads; i++)
        while (!sleepers[i].deep) sleep_ms(1);
    for (; now_ms() < deadline; looks++) {
        settle(region, bytes);
        control_away += absent_pages(control, STACK);
        for (unsigned i = 0; i < threads; i++) {
            struct sleeper *s = &sleepers[i];
            check_resident("stack", i, s->low, s->high);
            char *inner = (char *)(((uintptr_t)s->alternate + PAGE - 1) & -PAGE);
            check_resident("alternate stack", i, inner, inner + ALTERNATE - PAGE);
        }
        verify_region(region, bytes, 0, 1, "cold region");
        sleep_ms(20);
    }
    pthread_mutex_lock(&lock);
    woken = 1;
    pthread_cond_broadcast(&wake);
    pthread_mutex_unlock(&lock);
    for (unsigned i = 0; i < threads; i++) join_thread(handles[i]);
    insist_away(control_away, "memory like a stack");
    printf("OK %u threads idle, %llu looks\n", threads, (unsigned long long)looks);
}
