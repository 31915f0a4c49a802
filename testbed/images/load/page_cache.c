/* page-cache: reads a file again and again. While memory lasts, its pages are read from memory; with a limit smaller
 * than the file, or a neighbour that fills the memory, they come from storage, which the line at the end tells apart
 * (storage_read_bytes). With --evict the pages are dropped before each pass.
 */
#define _GNU_SOURCE
#include "load.h"

#include <fcntl.h>
#include <stdlib.h>

int run_page_cache(int argc, char **argv)
{
    struct option path = {.name = "file", .kind = OPTION_TEXT, .required = true};
    struct option bytes = {.name = "bytes", .kind = OPTION_BYTES, .required = true, .least = 1};
    struct option block_bytes = {.name = "block-bytes", .kind = OPTION_BYTES, .least = 1, .number = 1 << 20};
    struct option evict = {.name = "evict", .kind = OPTION_FLAG};
    struct option work_bytes = {.name = "work-bytes", .kind = OPTION_BYTES, .least = 1};
    struct option seconds = {.name = "seconds", .kind = OPTION_SECONDS};
    read_options("page-cache",
                 (struct option *const[]){&path, &bytes, &block_bytes, &evict, &work_bytes, &seconds, NULL}, argc,
                 argv);
    need_one_of(&work_bytes, &seconds);
    prepare_file(path.text, bytes.number);
    int file = open(path.text, O_RDONLY | O_CLOEXEC);
    if (file < 0)
        refused("cannot open %s", path.text);
    unsigned char *block = new_block(block_bytes.number);
    work_begin("bytes", work_bytes.given ? work_bytes.number : UINT64_MAX, &seconds);
    uint64_t at = 0, piece;
    while ((piece = work_take(block_bytes.number < bytes.number - at ? block_bytes.number : bytes.number - at)) != 0) {
        if (at == 0 && evict.given)
            evict_file(file, path.text);
        read_block(file, path.text, block, piece, piece, at);
        work_done(piece);
        at = at + piece == bytes.number ? 0 : at + piece;
    }
    report_end("work", EXIT_SUCCESS);
}
