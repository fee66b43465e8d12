/*
 * MTP, multi-token prediction, is the name of these layers in checkpoints.
 */
#include "proto/speculation.h"

#include <stddef.h>
#include <string.h>

int speculation_parse(const char *text, enum speculation *speculation)
{
    static const char *const names[] = {[SPECULATION_OFF] = "off",
                                        [SPECULATION_AUTO] = "auto",
                                        [SPECULATION_TEXT] = "text",
                                        [SPECULATION_MTP] = "mtp"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        if (strcmp(text, names[i]) == 0) {
            *speculation = (enum speculation)i;
            return 0;
        }
    }
    return -1;
}
