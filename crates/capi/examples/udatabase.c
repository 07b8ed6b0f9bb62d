/* uDatabase's small API on a table, and its performance test: udatabase [FILE [RECORDS]]. A signal ends it well.
 * Build: cc udatabase.c $(pkg-config --cflags --libs splitpoint) */
#define _POSIX_C_SOURCE 200809L
#include <signal.h>
#include <splitpoint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

struct uDB { spt_table *table; };
static volatile sig_atomic_t stopped;
static void on_signal(int number) { (void)number, stopped = 1; } /* a handler may do no more; main closes the table */

static int init(struct uDB *db, const char *path) { return spt_open(path, NULL, &db->table); }
static int close_(struct uDB *db) { return spt_close(db->table); }
static int create(const char *path) { struct uDB db; return init(&db, path) ? -1 : close_(&db); }
static int put(struct uDB *d, const char *k, const void *v, size_t n) { return spt_put(d->table, k, strlen(k), v, n); }
static int search(struct uDB *db, const char *k) { return spt_contains(db->table, k, strlen(k)); }
static int remove_(struct uDB *db, const char *k) { return spt_remove(db->table, k, strlen(k)); }
static int service(struct uDB *db) { return spt_compact(db->table, NULL, NULL); }
static void *get(struct uDB *db, const char *k, size_t *n) /* freed with spt_free */
{
    void *value;
    return spt_get_alloc(db->table, k, strlen(k), &value, n) == SPT_OK ? value : NULL;
}

static int one(struct uDB *db, int step, int number)
{
    char key[16], value[2500] = "value";
    size_t len = 0;
    snprintf(key, sizeof key, "key%d", number);
    if (step != 1) return step == 0 ? put(db, key, value, sizeof value) : remove_(db, key);
    spt_free(search(db, key) == SPT_OK ? get(db, key, &len) : NULL);
    return len == sizeof value ? SPT_OK : SPT_NOT_FOUND;
}

int main(int count, char **arguments)
{
    const char *path = count > 1 ? arguments[1] : "udatabase.spt", *names[] = {"put()", "get()", "remove()"};
    const int most = count > 2 ? atoi(arguments[2]) : 8192, signals[] = {SIGHUP, SIGINT, SIGQUIT, SIGTERM};
    struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_RESTART}; /* signal() may serve only once */
    struct timespec start, end;
    struct uDB db;
    int failed = 0;
    for (int i = 0; i < 4; i++) sigaction(signals[i], &action, NULL);
    if (create(path) || init(&db, path)) return fprintf(stderr, "%s\n", spt_error_message(NULL)), 1;
    printf("%-20s %8s %10s %11s %13s\n", "Function", "Records", "ms", "ms/record", "records/sec");
    for (int records = 4; records <= most && !stopped && !failed; records *= records == 4 ? 32 : 2)
        for (int step = 0; step < 3 && !stopped && !failed; step++) {
            clock_gettime(CLOCK_MONOTONIC, &start);
            for (int i = 0; i < records && !stopped && !failed; i++) failed = one(&db, step, i);
            clock_gettime(CLOCK_MONOTONIC, &end);
            double ms = (double)(end.tv_sec - start.tv_sec) * 1e3 + (double)(end.tv_nsec - start.tv_nsec) / 1e6;
            printf("udatabase_%-10s %8d %10.1f %11.6f %13.0f\n", names[step], records, ms, ms / records,
                   records / ms * 1e3);
        }
    if (stopped) puts("stopped by a signal: what was stored is kept");
    return failed | service(&db) | close_(&db) ? fprintf(stderr, "%s\n", spt_error_message(NULL)), 1 : 0;
}
