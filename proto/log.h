/*
 * One line per event on standard error: UTC time, level, process name, what happened. No buffering
 * between lines, so a crash loses nothing. Level, format and the stop flag are the only globals.
 *
 * As text:  2026-11-21T10:00:00.000Z info frontend: request request_id=req-1 status=200
 * As JSON:  {"ts":"2026-11-21T10:00:00.000Z","level":"info","process":"frontend",
 *            "event":"request","request_id":"req-1","status":200}
 * A line of log_write() has the event "message" and its text as "message".
 */
#ifndef SHOAL_PROTO_LOG_H
#define SHOAL_PROTO_LOG_H

#include <stddef.h>
#include <stdint.h>

enum log_level { LOG_ERROR = 0, LOG_WARN, LOG_INFO, LOG_DEBUG };
enum log_format { LOG_FORMAT_TEXT = 0, LOG_FORMAT_JSON };

/* `process` ("frontend", "worker 0") must outlive the process's logging. */
void log_init(const char *process, enum log_level level);
/* Text until this is called. Before the first thread starts. */
void log_set_format(enum log_format format);

/* Parses "error|warn|info|debug"; returns 0, or -1 and leaves *level. */
int log_level_parse(const char *text, enum log_level *level);
/* Parses "text|json"; returns 0, or -1 and leaves *format. */
int log_format_parse(const char *text, enum log_format *format);

void log_write(enum log_level level, const char *format, ...) __attribute__((format(printf, 2, 3)));

#define log_error(...) log_write(LOG_ERROR, __VA_ARGS__)
#define log_warn(...)  log_write(LOG_WARN, __VA_ARGS__)
#define log_info(...)  log_write(LOG_INFO, __VA_ARGS__)
#define log_debug(...) log_write(LOG_DEBUG, __VA_ARGS__)

enum log_field_kind { LOG_FIELD_TEXT, LOG_FIELD_WHOLE, LOG_FIELD_REAL };

/* One named value of an event. */
struct log_field {
    const char *name; /* lower case and '_' only */
    enum log_field_kind kind;
    const char *text; /* any bytes; NULL leaves the field out */
    int64_t whole;
    double real; /* written with three decimals */
};

#define LOG_TEXT(field_name, value)                                                                \
    ((struct log_field){.name = (field_name), .kind = LOG_FIELD_TEXT, .text = (value)})
#define LOG_WHOLE(field_name, value)                                                               \
    ((struct log_field){.name = (field_name), .kind = LOG_FIELD_WHOLE, .whole = (int64_t)(value)})
#define LOG_REAL(field_name, value)                                                                \
    ((struct log_field){.name = (field_name), .kind = LOG_FIELD_REAL, .real = (value)})

/* An event that programs read too. Text values are cut at LIMIT_LOG_VALUE_BYTES and escaped;
 * fields beyond what a line holds are left out. */
void log_event(enum log_level level, const char *event, const struct log_field fields[],
               size_t field_count);

#endif
