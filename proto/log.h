/*
 * One line per event on standard error: UTC time, level, process name, message. No buffering
 * between lines, so a crash loses nothing. The level is one of the two globals that the project
 * allows itself.
 */
#ifndef SHOAL_PROTO_LOG_H
#define SHOAL_PROTO_LOG_H

enum log_level { LOG_ERROR = 0, LOG_WARN, LOG_INFO, LOG_DEBUG };

/* `process` ("frontend", "worker 0") must outlive the process's logging. */
void log_init(const char *process, enum log_level level);

/* Parses "error|warn|info|debug"; returns 0, or -1 and leaves *level. */
int log_level_parse(const char *text, enum log_level *level);

void log_write(enum log_level level, const char *format, ...) __attribute__((format(printf, 2, 3)));

#define log_error(...) log_write(LOG_ERROR, __VA_ARGS__)
#define log_warn(...)  log_write(LOG_WARN, __VA_ARGS__)
#define log_info(...)  log_write(LOG_INFO, __VA_ARGS__)
#define log_debug(...) log_write(LOG_DEBUG, __VA_ARGS__)

#endif
