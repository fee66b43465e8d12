/*
 * Log lines are formatted into one bounded buffer and written with one write(2), so that lines of
 * several threads and of the worker, which inherits standard error, never interleave. Control bytes
 * are replaced: a log line cannot be forged.
 */
#include "proto/log.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static const char *log_process = "shoal";
static enum log_level log_threshold = LOG_INFO;
static const char *const level_names[] = {"error", "warn", "info", "debug"};

void log_init(const char *process, enum log_level level)
{
    log_process = process;
    log_threshold = level;
}

int log_level_parse(const char *text, enum log_level *level)
{
    for (unsigned i = 0; i < sizeof level_names / sizeof level_names[0]; i++) {
        if (strcmp(text, level_names[i]) == 0) {
            *level = (enum log_level)i;
            return 0;
        }
    }
    return -1;
}

void log_write(enum log_level level, const char *format, ...)
{
    if (level > log_threshold)
        return;
    char line[2048];
    struct timespec now;
    struct tm utc;
    clock_gettime(CLOCK_REALTIME, &now);
    gmtime_r(&now.tv_sec, &utc);
    size_t used = strftime(line, sizeof line, "%Y-%m-%dT%H:%M:%S", &utc);
    int head = snprintf(line + used, sizeof line - used, ".%03ldZ %s %s: ", now.tv_nsec / 1000000,
                        level_names[level], log_process);
    used += head > 0 ? (size_t)head : 0;
    va_list args;
    va_start(args, format);
    int body = vsnprintf(line + used, sizeof line - used - 1, format, args);
    va_end(args);
    size_t room = sizeof line - used - 2;
    size_t length = used + (body < 0 ? 0 : (size_t)body > room ? room : (size_t)body);
    for (size_t i = used; i < length; i++) {
        if ((unsigned char)line[i] < 0x20)
            line[i] = ' ';
    }
    line[length++] = '\n';
    ssize_t ignored = write(STDERR_FILENO, line, length);
    (void)ignored;
}
