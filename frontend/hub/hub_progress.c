/*
 * A bar is drawn at most ten times a second. Without a terminal there is a line at the start of a
 * file, one at each tenth but not more than one in five seconds, and one at its end, so that a log
 * stays short.
 */
#include "frontend/hub/hub_progress.h"

#include <stdarg.h>
#include <string.h>
#include <unistd.h>

#include "frontend/base/api_error.h"
#include "frontend/base/monotonic_clock.h"
#include "frontend/base/text_buffer.h"

#define BAR_COLUMNS   24u
#define NAME_COLUMNS  40
#define REDRAW_MS     100
#define PLAIN_LINE_MS 5000
#define CLEAR_LINE    "\r\x1b[K"

#define HUB_SHA256_DIGITS 64u

void hub_size_write(uint64_t bytes, char text[16])
{
    static const char *const units[] = {"B", "kB", "MB", "GB", "TB", "PB"};
    double value = (double)bytes;
    size_t unit = 0;
    while (value >= 999.95 && unit + 1 < sizeof units / sizeof units[0]) {
        value /= 1000;
        unit++;
    }
    snprintf(text, 16, unit == 0 ? "%.0f %s" : "%.1f %s", value, units[unit]);
}

void hub_progress_init(struct hub_progress *progress, FILE *out, bool json)
{
    *progress = (struct hub_progress){
        .out = out, .json = json, .terminal = out && !json && isatty(fileno(out))};
}

static void json_write(struct hub_progress *progress, const char *status, bool of_file)
{
    struct text_buffer line = {0};
    text_buffer_append_text(&line, "{\"status\":");
    api_error_append_words(status, &line);
    if (of_file)
        text_buffer_append_format(&line, ",\"digest\":\"%s:%s\",\"total\":%llu,\"completed\":%llu",
                                  strlen(progress->hash) == HUB_SHA256_DIGITS ? "sha256" : "sha1",
                                  progress->hash, (unsigned long long)progress->size,
                                  (unsigned long long)progress->done);
    text_buffer_append_text(&line, "}\n");
    if (!line.failed)
        fwrite(line.bytes, 1, line.length, progress->out);
    fflush(progress->out);
    text_buffer_fini(&line);
}

/* Ollama names a file by the first digits of its hash. */
static void json_show(struct hub_progress *progress)
{
    char status[32];
    snprintf(status, sizeof status, "pulling %.12s", progress->hash);
    json_write(progress, status, true);
}

void hub_progress_status(struct hub_progress *progress, const char *status)
{
    if (progress->out && progress->json)
        json_write(progress, status, false);
}

/* The last characters of a long name, which tell files apart. */
static const char *name_end(const char *name)
{
    size_t length = strlen(name);
    return length > NAME_COLUMNS ? name + length - NAME_COLUMNS : name;
}

static void speed_write(const struct hub_progress *progress, int64_t now_ms, char text[24])
{
    char size[16];
    int64_t ms = now_ms - progress->begun_ms;
    hub_size_write(ms > 0 ? (progress->done - progress->from) * 1000 / (uint64_t)ms : 0, size);
    snprintf(text, 24, "%s/s", size);
}

static void draw(struct hub_progress *progress, int64_t now_ms)
{
    char bar[BAR_COLUMNS + 1], done[16], size[16], speed[24];
    uint64_t percent = progress->size > 0 ? progress->done * 100 / progress->size : 100;
    size_t filled = (size_t)(percent * BAR_COLUMNS / 100);
    for (size_t i = 0; i < BAR_COLUMNS; i++)
        bar[i] = i < filled ? '#' : '.';
    bar[BAR_COLUMNS] = '\0';
    hub_size_write(progress->done, done);
    hub_size_write(progress->size, size);
    speed_write(progress, now_ms, speed);
    fprintf(progress->out, CLEAR_LINE "%s [%s] %3u%% %s of %s, %s", name_end(progress->file), bar,
            (unsigned)percent, done, size, speed);
    fflush(progress->out);
}

void hub_progress_begin(struct hub_progress *progress, const struct hub_file *file, uint64_t from)
{
    char text[16], rest[16];
    uint64_t size = file->size;
    progress->file = file->name;
    progress->hash = file->hash;
    progress->size = size;
    progress->from = progress->done = from;
    progress->begun_ms = progress->shown_ms = monotonic_clock_ms();
    progress->shown_tenth = size > 0 ? (unsigned)(from * 10 / size) : 0;
    if (!progress->out || progress->terminal)
        return;
    if (progress->json) {
        json_show(progress);
        return;
    }
    hub_size_write(size, text);
    hub_size_write(from, rest);
    if (from > 0)
        fprintf(progress->out, "%s: %s, %s of it are there\n", file->name, text, rest);
    else
        fprintf(progress->out, "%s: %s\n", file->name, text);
}

void hub_progress_show(struct hub_progress *progress, uint64_t done)
{
    progress->done = done;
    if (!progress->out)
        return;
    int64_t now_ms = monotonic_clock_ms();
    unsigned tenth = progress->size > 0 ? (unsigned)(done * 10 / progress->size) : 10;
    int64_t waited_ms = now_ms - progress->shown_ms;
    if (progress->terminal || progress->json
            ? waited_ms < REDRAW_MS
            : waited_ms < PLAIN_LINE_MS || tenth <= progress->shown_tenth)
        return;
    progress->shown_ms = now_ms;
    progress->shown_tenth = tenth;
    if (progress->json)
        json_show(progress);
    else if (progress->terminal)
        draw(progress, now_ms);
    else
        fprintf(progress->out, "%s: %u%%\n", progress->file, tenth * 10);
}

void hub_progress_end(struct hub_progress *progress, const char *note)
{
    char size[16], speed[24];
    if (!progress->out)
        return;
    if (progress->json) {
        json_show(progress);
        return;
    }
    hub_size_write(progress->done, size);
    speed_write(progress, monotonic_clock_ms(), speed);
    fprintf(progress->out, "%s%s: %s (%s, %s)\n", progress->terminal ? CLEAR_LINE : "",
            progress->file, note, size, speed);
    fflush(progress->out);
}

void hub_progress_note(struct hub_progress *progress, const char *format, ...)
{
    va_list arguments;
    if (!progress->out)
        return;
    va_start(arguments, format);
    if (progress->json) {
        char text[512];
        vsnprintf(text, sizeof text, format, arguments);
        va_end(arguments);
        json_write(progress, text, false);
        return;
    }
    fputs(progress->terminal ? CLEAR_LINE : "", progress->out);
    vfprintf(progress->out, format, arguments);
    fputc('\n', progress->out);
    va_end(arguments);
    fflush(progress->out);
}
