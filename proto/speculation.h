/*
 * Which tokens are drafted: the option --speculation.
 */
#ifndef SHOAL_PROTO_SPECULATION_H
#define SHOAL_PROTO_SPECULATION_H

enum speculation {
    SPECULATION_OFF = 0,
    SPECULATION_AUTO, /* as TEXT, and what the checkpoint's own layer for it predicts, if it can be used */
    SPECULATION_TEXT, /* text that was there before, and what a grammar forces */
    SPECULATION_MTP   /* as AUTO; a checkpoint whose layer cannot be used is refused */
};

/* Parses "off|auto|text|mtp"; returns 0, or -1 and leaves *speculation. */
int speculation_parse(const char *text, enum speculation *speculation);

#endif
