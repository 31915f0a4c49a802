/* oom and hold: memory that is really resident. oom grows step by step until the kernel kills it (then there is no line
 * at the end: nobody is left to write it) or its size is reached; hold takes its size at once and keeps it.
 */
#define _GNU_SOURCE
#include "load.h"

#include <stdlib.h>
#include <time.h>
#include <unistd.h>

static void sleep_for(double seconds)
{
    struct timespec left = {(time_t)seconds, (long)((seconds - (double)(time_t)seconds) * 1e9)};
    while (nanosleep(&left, &left) != 0)
        ;
}

int run_oom(int argc, char **argv)
{
    struct option bytes = {.name = "bytes", .kind = OPTION_BYTES, .required = true, .least = 1};
    struct option step = {.name = "step", .kind = OPTION_BYTES, .least = 1, .number = 1 << 20};
    struct option pause_s = {.name = "step-seconds", .kind = OPTION_SECONDS};
    read_options("oom", (struct option *const[]){&bytes, &step, &pause_s, NULL}, argc, argv);
    unsigned char *memory = new_memory(bytes.number);
    work_begin("bytes", bytes.number, NULL);
    uint64_t at = 0, piece;
    while ((piece = work_take(step.number)) != 0) {
        touch_pages(memory, at, at + piece);
        at += piece;
        work_done(piece);
        sleep_for(pause_s.seconds);
    }
    report_end("work", EXIT_SUCCESS);
}

int run_hold(int argc, char **argv)
{
    struct option bytes = {.name = "bytes", .kind = OPTION_BYTES, .required = true};
    struct option seconds = {.name = "seconds", .kind = OPTION_SECONDS};
    read_options("hold", (struct option *const[]){&bytes, &seconds, NULL}, argc, argv);
    touch_pages(new_memory(bytes.number), 0, bytes.number);
    work_done(bytes.number); /* first: the time may be up as soon as it begins */
    work_begin("bytes", bytes.number, &seconds);
    for (;;)
        pause(); /* until the time is up or a signal comes */
}

int run_exit(int argc, char **argv)
{
    struct option code = {.name = "code", .kind = OPTION_COUNT, .required = true, .most = 255};
    struct option seconds = {.name = "seconds", .kind = OPTION_SECONDS};
    read_options("exit", (struct option *const[]){&code, &seconds, NULL}, argc, argv);
    work_begin("exits", 1, NULL);
    sleep_for(seconds.seconds);
    work_done(1);
    report_end("work", (int)code.number);
}
