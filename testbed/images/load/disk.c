/* disk: writes or reads a file of a given size, block after block, from the start again when it is through.
 *
 * Reads are made to reach the storage: the file's pages are dropped before each pass, or O_DIRECT goes around them.
 * Buffered writes may only reach memory until --fsync, which ends each pass, waits for them.
 */
#define _GNU_SOURCE
#include "load.h"

#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

struct plan {
    const char *path;
    uint64_t file_bytes, block_bytes;
    bool writes, direct, sync;
};

static uint64_t rounded_up(uint64_t bytes) { return (bytes + PAGE_BYTES - 1) / PAGE_BYTES * PAGE_BYTES; }

static void move_block(const struct plan *plan, int file, unsigned char *block, uint64_t bytes, uint64_t offset)
{
    /* O_DIRECT moves whole aligned blocks: the last one goes beyond the end, and a written file is cut to its size. */
    uint64_t moved = plan->direct ? rounded_up(bytes) : bytes;
    if (plan->writes)
        write_block(file, plan->path, block, moved, offset);
    else
        read_block(file, plan->path, block, bytes, moved, offset);
}

static void end_pass(const struct plan *plan, int file, uint64_t written_bytes)
{
    if (plan->direct && ftruncate(file, (off_t)written_bytes) != 0)
        refused("cannot set the size of %s", plan->path);
    if (plan->sync && fsync(file) != 0)
        refused("cannot fsync %s", plan->path);
}

static void work(const struct plan *plan, int file)
{
    unsigned char *block = new_block(rounded_up(plan->block_bytes));
    bool first_pass = true;
    uint64_t at = 0, piece;
    while ((piece = work_take(plan->block_bytes < plan->file_bytes - at ? plan->block_bytes
                                                                       : plan->file_bytes - at)) != 0) {
        if (at == 0 && !plan->writes)
            evict_file(file, plan->path);
        move_block(plan, file, block, piece, at);
        at += piece;
        bool whole = at == plan->file_bytes;
        if (whole && plan->writes)
            end_pass(plan, file, plan->file_bytes);
        work_done(piece);
        first_pass = first_pass && !whole;
        at = whole ? 0 : at;
    }
    if (at != 0 && plan->writes)
        end_pass(plan, file, first_pass ? at : plan->file_bytes);
}

static void check_direct(const struct plan *plan)
{
    if (plan->direct && plan->block_bytes % PAGE_BYTES != 0)
        bad_argument("--block-bytes %llu: must be a multiple of %d with --direct",
                     (unsigned long long)plan->block_bytes, PAGE_BYTES);
}

int run_disk(int argc, char **argv)
{
    struct option path = {.name = "file", .kind = OPTION_TEXT, .required = true};
    struct option writes = {.name = "write", .kind = OPTION_FLAG};
    struct option reads = {.name = "read", .kind = OPTION_FLAG};
    struct option bytes = {.name = "bytes", .kind = OPTION_BYTES, .required = true, .least = 1};
    struct option block_bytes = {.name = "block-bytes", .kind = OPTION_BYTES, .least = 1, .number = 1 << 20};
    struct option direct = {.name = "direct", .kind = OPTION_FLAG};
    struct option sync = {.name = "fsync", .kind = OPTION_FLAG};
    struct option work_bytes = {.name = "work-bytes", .kind = OPTION_BYTES, .least = 1};
    struct option seconds = {.name = "seconds", .kind = OPTION_SECONDS};
    read_options("disk",
                 (struct option *const[]){&path, &writes, &reads, &bytes, &block_bytes, &direct, &sync, &work_bytes,
                                          &seconds, NULL},
                 argc, argv);
    need_one_of(&writes, &reads);
    if (work_bytes.given && seconds.given)
        need_one_of(&work_bytes, &seconds);
    if (sync.given && reads.given)
        bad_argument("--fsync: is for --write only");
    struct plan plan = {path.text, bytes.number, block_bytes.number, writes.given, direct.given, sync.given};
    check_direct(&plan);
    if (reads.given)
        prepare_file(plan.path, plan.file_bytes);
    int flags = (plan.writes ? O_WRONLY | O_CREAT | O_TRUNC : O_RDONLY) | (plan.direct ? O_DIRECT : 0) | O_CLOEXEC;
    int file = open(plan.path, flags, 0644);
    if (file < 0)
        refused("cannot open %s%s", plan.path, plan.direct ? " with O_DIRECT" : "");
    uint64_t once = work_bytes.given ? work_bytes.number : plan.file_bytes; /* one pass, where nothing else is asked */
    work_begin("bytes", seconds.given ? UINT64_MAX : once, &seconds);
    work(&plan, file);
    report_end("work", EXIT_SUCCESS);
}
