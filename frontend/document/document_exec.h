/*
 * In the child process: confines itself, then becomes the program that reads a PDF file.
 */
#ifndef SHOAL_FRONTEND_DOCUMENT_DOCUMENT_EXEC_H
#define SHOAL_FRONTEND_DOCUMENT_DOCUMENT_EXEC_H

/* Exit statuses besides the program's own. */
#define DOCUMENT_EXIT_OPEN    241 /* this system cannot confine it (Landlock, seccomp) */
#define DOCUMENT_EXIT_MISSING 242 /* the program cannot be started */

/* The file is standard input, the result goes to standard output. `cpu_seconds` bounds its CPU
 * time; `arguments`, NULL-terminated, begin with the path of the program. Returns an exit status:
 * it failed. */
int document_exec(unsigned cpu_seconds, char *arguments[]);

#endif
