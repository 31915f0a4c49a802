/* Files that the page-cache and disk loads read and write. They stay: a container's own file system goes with it. */
#define _GNU_SOURCE
#include "load.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#define PREPARE_BLOCK_BYTES (1 << 20)

unsigned char *new_block(uint64_t bytes)
{
    void *block = NULL;
    errno = posix_memalign(&block, PAGE_BYTES, bytes);
    if (errno != 0)
        refused("cannot allocate a block of %llu bytes", (unsigned long long)bytes);
    uint64_t random = 1;
    unsigned char *place = block;
    for (uint64_t index = 0; index < bytes; index++) {
        random = random * 6364136223846793005U + 1442695040888963407U;
        place[index] = (unsigned char)(random >> 56);
    }
    return place;
}

void prepare_file(const char *path, uint64_t bytes)
{
    int file = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0644);
    struct stat status;
    if (file < 0 || fstat(file, &status) != 0)
        refused("cannot open %s", path);
    if (!S_ISREG(status.st_mode))
        bad_argument("--file %s: is not a regular file", path);
    if ((uint64_t)status.st_size < bytes) {
        unsigned char *block = new_block(PREPARE_BLOCK_BYTES);
        for (uint64_t offset = 0; offset < bytes; offset += PREPARE_BLOCK_BYTES) {
            uint64_t left = bytes - offset;
            write_block(file, path, block, left < PREPARE_BLOCK_BYTES ? left : PREPARE_BLOCK_BYTES, offset);
        }
        free(block);
    }
    if (fsync(file) != 0) /* what is not on storage yet cannot be evicted */
        refused("cannot fsync %s", path);
    close(file);
}

void evict_file(int file, const char *path)
{
    errno = posix_fadvise(file, 0, 0, POSIX_FADV_DONTNEED);
    if (errno != 0)
        refused("cannot evict %s from the page cache", path);
}

void read_block(int file, const char *path, unsigned char *block, uint64_t bytes, uint64_t room, uint64_t offset)
{
    uint64_t at = 0;
    while (at < bytes) {
        ssize_t got = pread(file, block + at, room - at, (off_t)(offset + at));
        if (got < 0 && errno == EINTR)
            continue;
        if (got == 0)
            errno = ENODATA; /* somebody cut the file */
        if (got <= 0)
            refused("cannot read %llu bytes at %llu of %s", (unsigned long long)(bytes - at),
                    (unsigned long long)(offset + at), path);
        at += (uint64_t)got;
    }
}

void write_block(int file, const char *path, const unsigned char *block, uint64_t bytes, uint64_t offset)
{
    uint64_t at = 0;
    while (at < bytes) {
        ssize_t put = pwrite(file, block + at, bytes - at, (off_t)(offset + at));
        if (put < 0 && errno == EINTR)
            continue;
        if (put < 0)
            refused("cannot write %llu bytes at %llu of %s", (unsigned long long)(bytes - at),
                    (unsigned long long)(offset + at), path);
        at += (uint64_t)put;
    }
}
