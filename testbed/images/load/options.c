/* Options: `--name value` and `--flag`. Whatever is wrong ends the program with exit code 2 and one line. */
#define _GNU_SOURCE
#include "load.h"

#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *load_name = NULL;
static struct option *const *all_options = NULL;

static void complain(const char *format, va_list arguments, const char *reason)
{
    fprintf(stderr, "load%s%s: ", load_name ? " " : "", load_name ? load_name : "");
    vfprintf(stderr, format, arguments);
    fprintf(stderr, "%s%s\n", reason ? ": " : "", reason ? reason : "");
}

void bad_argument(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    complain(format, arguments, NULL);
    va_end(arguments);
    exit(EXIT_BAD_ARGUMENT);
}

void refused(const char *format, ...)
{
    const char *reason = strerror(errno);
    va_list arguments;
    va_start(arguments, format);
    complain(format, arguments, reason);
    va_end(arguments);
    exit(EXIT_FAILURE);
}

static const char *example_of(enum option_kind kind)
{
    switch (kind) {
    case OPTION_BYTES: return "a number of bytes, plain or with Ki, Mi or Gi (64Mi)";
    case OPTION_COUNT: return "a whole number, plain or with Ki, Mi or Gi (4)";
    case OPTION_SECONDS: return "a number of seconds, not negative (2.5)";
    case OPTION_TEXT: return "a value";
    case OPTION_FLAG: break;
    }
    return "nothing";
}

/* False where `text` is not a whole number with a known suffix, or does not fit. */
static bool read_number(const char *text, uint64_t *number)
{
    if (text[0] < '0' || text[0] > '9')
        return false; /* strtoull takes blanks and signs, even a minus, which wraps around */
    char *end = NULL;
    errno = 0;
    unsigned long long value = strtoull(text, &end, 10);
    unsigned shift = 0;
    if (strcmp(end, "Ki") == 0)
        shift = 10;
    else if (strcmp(end, "Mi") == 0)
        shift = 20;
    else if (strcmp(end, "Gi") == 0)
        shift = 30;
    else if (*end != '\0')
        return false;
    if (errno != 0 || value > (UINT64_MAX >> shift))
        return false;
    *number = (uint64_t)value << shift;
    return true;
}

static bool read_seconds(const char *text, double *seconds)
{
    char *end = NULL;
    if ((text[0] < '0' || text[0] > '9') && text[0] != '.')
        return false;
    *seconds = strtod(text, &end);
    return *end == '\0' && end != text && isfinite(*seconds) && *seconds <= 1e9;
}

static void read_value(struct option *option, const char *text)
{
    bool understood = true;
    switch (option->kind) {
    case OPTION_BYTES:
    case OPTION_COUNT: understood = read_number(text, &option->number); break;
    case OPTION_SECONDS: understood = read_seconds(text, &option->seconds); break;
    case OPTION_TEXT: option->text = text; break;
    case OPTION_FLAG: break;
    }
    if (!understood)
        bad_argument("--%s %s: must be %s", option->name, text, example_of(option->kind));
    if (option->kind == OPTION_TEXT && text[0] == '\0')
        bad_argument("--%s: is empty", option->name);
    if (option->kind != OPTION_BYTES && option->kind != OPTION_COUNT)
        return;
    if (option->number < option->least)
        bad_argument("--%s %s: must be at least %llu", option->name, text, (unsigned long long)option->least);
    if (option->most != 0 && option->number > option->most)
        bad_argument("--%s %s: must be at most %llu", option->name, text, (unsigned long long)option->most);
}

static struct option *find_option(const char *argument)
{
    if (strncmp(argument, "--", 2) != 0)
        bad_argument("%s: not an option; each is --name value", argument);
    for (struct option *const *option = all_options; *option != NULL; option++)
        if (strcmp((*option)->name, argument + 2) == 0)
            return *option;
    char known[512] = "";
    for (struct option *const *option = all_options; *option != NULL; option++) {
        size_t length = strlen(known);
        snprintf(known + length, sizeof known - length, " --%s", (*option)->name);
    }
    bad_argument("%s: no such option; there are%s", argument, known);
}

void read_options(const char *load, struct option *const *options, int argc, char **argv)
{
    load_name = load;
    all_options = options;
    for (int index = 0; index < argc; index++) {
        struct option *option = find_option(argv[index]);
        if (option->given)
            bad_argument("--%s: given twice", option->name);
        option->given = true;
        if (option->kind == OPTION_FLAG)
            continue;
        if (index + 1 == argc)
            bad_argument("--%s: needs %s", option->name, example_of(option->kind));
        read_value(option, argv[++index]);
    }
    for (struct option *const *option = options; *option != NULL; option++)
        if ((*option)->required && !(*option)->given)
            bad_argument("--%s is missing: %s", (*option)->name, example_of((*option)->kind));
}

void need_one_of(const struct option *first, const struct option *second)
{
    if (first->given == second->given)
        bad_argument("give %s --%s or --%s", first->given ? "only one of" : "one of", first->name, second->name);
}

/* Append `text` as a JSON string; what does not fit is left out, but the string is always closed. */
static size_t append_quoted(char *place, size_t room, const char *text)
{
    size_t length = 0;
    place[length++] = '"';
    for (; *text != '\0' && length + 8 < room; text++) {
        unsigned char character = (unsigned char)*text;
        if (character == '"' || character == '\\')
            length += (size_t)snprintf(place + length, room - length, "\\%c", character);
        else if (character < 0x20)
            length += (size_t)snprintf(place + length, room - length, "\\u%04x", character);
        else
            place[length++] = (char)character;
    }
    place[length++] = '"';
    place[length] = '\0';
    return length;
}

void write_options_json(char *text, size_t room)
{
    size_t length = 0;
    text[0] = '\0';
    for (struct option *const *entry = all_options; entry != NULL && *entry != NULL; entry++) {
        const struct option *option = *entry;
        if (!option->given || room - length < 128)
            continue;
        length += (size_t)snprintf(text + length, room - length, "%s\"%s\":", length ? "," : "", option->name);
        switch (option->kind) {
        case OPTION_BYTES:
        case OPTION_COUNT:
            length += (size_t)snprintf(text + length, room - length, "%llu", (unsigned long long)option->number);
            break;
        case OPTION_SECONDS: length += (size_t)snprintf(text + length, room - length, "%.9g", option->seconds); break;
        case OPTION_TEXT: length += append_quoted(text + length, room - length, option->text); break;
        case OPTION_FLAG: length += (size_t)snprintf(text + length, room - length, "true"); break;
        }
    }
}
