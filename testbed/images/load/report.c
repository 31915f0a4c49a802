/* The one line of JSON at the end, and the thread that brings the end.
 *
 * SIGTERM, SIGINT and the alarm of the time limit are blocked in all threads and taken by one that only waits for them,
 * so the line comes at once, even while the load itself waits for a throttled disk or a silent peer.
 */
#define _GNU_SOURCE
#include "load.h"

#include <errno.h>
#include <math.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

/* What the program has used up at one moment. */
struct usage {
    double wall_s, user_s, system_s;
    unsigned long long storage_read_bytes, storage_written_bytes;
    bool has_storage;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static const char *load_name = "";
static char facts[512] = "";
static sigset_t ending;
static struct usage at_start, at_work;

static double seconds_of(struct timeval time) { return (double)time.tv_sec + (double)time.tv_usec / 1e6; }

static struct usage usage_now(void)
{
    struct usage usage = {0};
    struct timespec wall;
    struct rusage used;
    clock_gettime(CLOCK_MONOTONIC, &wall);
    getrusage(RUSAGE_SELF, &used);
    usage.wall_s = (double)wall.tv_sec + (double)wall.tv_nsec / 1e9;
    usage.user_s = seconds_of(used.ru_utime);
    usage.system_s = seconds_of(used.ru_stime);
    FILE *io = fopen("/proc/self/io", "r"); /* not in a kernel without task accounting */
    if (io == NULL)
        return usage;
    char line[128];
    int found = 0;
    while (fgets(line, sizeof line, io) != NULL) {
        found += sscanf(line, "read_bytes: %llu", &usage.storage_read_bytes) == 1;
        found += sscanf(line, "write_bytes: %llu", &usage.storage_written_bytes) == 1;
    }
    fclose(io);
    usage.has_storage = found == 2;
    return usage;
}

/* The most memory that was resident; getrusage would also count what this process was before it became this program. */
static unsigned long long peak_resident_bytes(void)
{
    FILE *status = fopen("/proc/self/status", "r");
    char line[128];
    unsigned long long peak_kib = 0;
    while (status != NULL && fgets(line, sizeof line, status) != NULL)
        if (sscanf(line, "VmHWM: %llu", &peak_kib) == 1)
            break;
    if (status != NULL)
        fclose(status);
    return peak_kib * 1024;
}

static void *wait_for_the_end(void *unused)
{
    (void)unused;
    int got = 0;
    while (sigwait(&ending, &got) != 0)
        ;
    if (got == SIGALRM)
        report_end("time", EXIT_SUCCESS);
    report_end("signal", 128 + got); /* as a shell tells a death by signal */
}

void report_start(const char *load)
{
    load_name = load;
    at_start = at_work = usage_now();
    sigemptyset(&ending);
    sigaddset(&ending, SIGTERM);
    sigaddset(&ending, SIGINT);
    sigaddset(&ending, SIGALRM);
    pthread_sigmask(SIG_BLOCK, &ending, NULL);
    pthread_t waiter;
    errno = pthread_create(&waiter, NULL, wait_for_the_end, NULL);
    if (errno != 0)
        refused("cannot start the thread that waits for signals");
}

void report_work_begins(void)
{
    pthread_mutex_lock(&lock);
    at_work = usage_now();
    pthread_mutex_unlock(&lock);
}

void report_end_after(double seconds)
{
    double whole = floor(seconds);
    struct itimerval alarm = {.it_value = {(time_t)whole, (suseconds_t)((seconds - whole) * 1e6)}};
    if (alarm.it_value.tv_sec == 0 && alarm.it_value.tv_usec == 0)
        alarm.it_value.tv_usec = 1; /* zero would mean no alarm */
    if (setitimer(ITIMER_REAL, &alarm, NULL) != 0)
        refused("cannot set an alarm in %g seconds", seconds);
}

void report_fact(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    pthread_mutex_lock(&lock);
    size_t length = strlen(facts);
    facts[length++] = ',';
    vsnprintf(facts + length, sizeof facts - length, format, arguments);
    pthread_mutex_unlock(&lock);
    va_end(arguments);
}

void report_end(const char *ended_by, int exit_code)
{
    pthread_mutex_lock(&lock); /* never given back: there is one end */
    struct work_state work = work_now();
    struct usage now = usage_now();
    struct usage from = work.begun ? at_work : now;
    double wall_s = now.wall_s - from.wall_s;
    char asked[2048], storage[128] = "";
    write_options_json(asked, sizeof asked);
    if (now.has_storage)
        snprintf(storage, sizeof storage, ",\"storage_read_bytes\":%llu,\"storage_written_bytes\":%llu",
                 now.storage_read_bytes - from.storage_read_bytes,
                 now.storage_written_bytes - from.storage_written_bytes);
    char line[4096];
    int length = snprintf(line, sizeof line,
                          "{\"load\":\"%s\",\"asked\":{%s},\"ended_by\":\"%s\",\"unit\":\"%s\",\"amount\":%llu,"
                          "\"setup_s\":%.6f,\"wall_s\":%.6f,\"cpu_user_s\":%.6f,\"cpu_system_s\":%.6f,"
                          "\"amount_per_s\":%.6g%s,\"peak_resident_bytes\":%llu%s}\n",
                          load_name, asked, ended_by, work.unit, (unsigned long long)work.amount,
                          from.wall_s - at_start.wall_s, wall_s, now.user_s - from.user_s,
                          now.system_s - from.system_s, wall_s > 0 ? (double)work.amount / wall_s : 0.0, storage,
                          peak_resident_bytes(), facts);
    for (int written = 0; written < length;) {
        ssize_t wrote = write(STDOUT_FILENO, line + written, (size_t)(length - written));
        if (wrote <= 0)
            break; /* nobody reads any more */
        written += (int)wrote;
    }
    _exit(exit_code);
}
