/* What the parts of `load` share: options, the amount of work, the line at the end, files.
 *
 * Each kind of load is one file with one function `int run_KIND(int argc, char **argv)`. It reads its options, makes
 * ready what it needs (counted apart, as setup), calls work_begin() and works until work_take() gives no more. Time
 * limits and signals are not its business: a thread of report.c ends the program at once, whatever the load waits for.
 */
#ifndef LOAD_H
#define LOAD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define EXIT_BAD_ARGUMENT 2
#define PAGE_BYTES 4096

/* options.c ------------------------------------------------------------------------------------------------------ */

enum option_kind { OPTION_BYTES, OPTION_COUNT, OPTION_SECONDS, OPTION_TEXT, OPTION_FLAG };

/* One option, with its default until it is given. */
struct option {
    const char *name;
    enum option_kind kind;
    uint64_t least, most; /* of a size or a count; most 0: no limit */
    bool required;
    bool given;
    uint64_t number; /* a size in bytes or a count */
    double seconds;
    const char *text;
};

/* Read `--name value` pairs and flags into `options`, which ends with NULL; ends the program on a bad one. */
void read_options(const char *load, struct option *const *options, int argc, char **argv);

/* End the program unless exactly one of the two options is given. */
void need_one_of(const struct option *first, const struct option *second);

/* The given options as the inside of a JSON object. */
void write_options_json(char *text, size_t room);

/* End the program with one line on stderr: a bad argument (exit 2), or what the system refused (exit 1, with errno). */
_Noreturn void bad_argument(const char *format, ...) __attribute__((format(printf, 1, 2)));
_Noreturn void refused(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* work.c --------------------------------------------------------------------------------------------------------- */

/* Work has begun: `total` of `unit` are to be done (UINT64_MAX: no end), until the time of the option, if given, is up. */
void work_begin(const char *unit, uint64_t total, const struct option *seconds);

/* The next piece to do, at most `piece`; 0 when all is given out. Pieces given to all threads sum up to the total. */
uint64_t work_take(uint64_t piece);

/* Count what was done. */
void work_done(uint64_t amount);

/* Run `body(index)` in `count` threads and wait for all of them. */
void run_threads(uint64_t count, void (*body)(uint64_t index));

/* `bytes` of new memory, none of it resident yet. */
void *new_memory(uint64_t bytes);

/* Write to every page from `from` to `to`, which makes them resident. */
void touch_pages(unsigned char *memory, uint64_t from, uint64_t to);

/* report.c ------------------------------------------------------------------------------------------------------- */

/* Start the thread that ends the program on SIGTERM, SIGINT and when the time is up. Call before any other thread. */
void report_start(const char *load);

/* A fact that only this load knows, as JSON (`"key":value`). */
void report_fact(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Print the line and end the program. Only the first call does so; any later one waits for the end. */
_Noreturn void report_end(const char *ended_by, int exit_code);

/* For report.c: what work.c knows. */
struct work_state {
    bool begun;
    const char *unit;
    uint64_t amount;
};
struct work_state work_now(void);
/* For work.c: setup ends and work begins now. */
void report_work_begins(void);
/* For work.c: end when `seconds` are over. */
void report_end_after(double seconds);

/* file.c --------------------------------------------------------------------------------------------------------- */

/* A buffer aligned for O_DIRECT, filled with bytes that no file system stores as a hole. */
unsigned char *new_block(uint64_t bytes);

/* Make sure that `path` has at least `bytes` bytes, on storage and not only in memory. */
void prepare_file(const char *path, uint64_t bytes);

/* Drop the clean pages of the file from the page cache. */
void evict_file(int file, const char *path);

/* Read `bytes`, and up to `room` where the file goes on, or write `bytes`; end the program when refused. */
void read_block(int file, const char *path, unsigned char *block, uint64_t bytes, uint64_t room, uint64_t offset);
void write_block(int file, const char *path, const unsigned char *block, uint64_t bytes, uint64_t offset);

/* The loads ------------------------------------------------------------------------------------------------------ */

int run_cpu(int argc, char **argv);
int run_bandwidth(int argc, char **argv);
int run_page_cache(int argc, char **argv);
int run_disk(int argc, char **argv);
int run_network(int argc, char **argv);
int run_oom(int argc, char **argv);
int run_hold(int argc, char **argv);
int run_exit(int argc, char **argv);

#endif
