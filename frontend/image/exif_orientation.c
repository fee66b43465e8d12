/*
 * Reads the orientation from EXIF data.
 *
 * EXIF is a TIFF file inside an image: a byte order, the offset of a directory, and there entries
 * of 12 bytes (tag, type, count, value). The orientation is one entry of the first directory. XMP's
 * copy of it and makers' notes are ignored.
 */
#include "frontend/image/exif_orientation.h"

#include <stdbool.h>
#include <string.h>

#include "proto/limits.h"

#define TAG_ORIENTATION 274u
#define TYPE_BYTE       1u
#define TYPE_SHORT      3u
#define TYPE_LONG       4u
#define ENTRY_BYTES     12u

struct tiff {
    const uint8_t *bytes;
    size_t byte_count;
    bool big_endian;
};

/* An unsigned number of `size` bytes; 0 outside the data. */
static uint32_t number_at(const struct tiff *tiff, size_t offset, size_t size)
{
    if (offset > tiff->byte_count || size > tiff->byte_count - offset)
        return 0;
    uint32_t value = 0;
    for (size_t i = 0; i < size; i++) {
        size_t shift = 8 * (tiff->big_endian ? size - 1 - i : i);
        value |= (uint32_t)tiff->bytes[offset + i] << shift;
    }
    return value;
}

static uint32_t entry_value(const struct tiff *tiff, size_t entry)
{
    switch (number_at(tiff, entry + 2, 2)) {
    case TYPE_BYTE: return number_at(tiff, entry + 8, 1);
    case TYPE_SHORT: return number_at(tiff, entry + 8, 2);
    case TYPE_LONG: return number_at(tiff, entry + 8, 4);
    default: return 0;
    }
}

uint8_t exif_orientation_read(const uint8_t *bytes, size_t byte_count)
{
    static const char prefix[6] = "Exif\0";
    if (byte_count >= sizeof prefix && memcmp(bytes, prefix, sizeof prefix) == 0) {
        bytes += sizeof prefix;
        byte_count -= sizeof prefix;
    }
    if (byte_count < 8 || (memcmp(bytes, "II*\0", 4) != 0 && memcmp(bytes, "MM\0*", 4) != 0))
        return 1;
    struct tiff tiff = {bytes, byte_count, bytes[0] == 'M'};
    size_t directory = number_at(&tiff, 4, 4);
    uint32_t entries = number_at(&tiff, directory, 2);
    if (entries > LIMIT_EXIF_ENTRIES)
        return 1;
    for (uint32_t i = 0; i < entries; i++) {
        size_t entry = directory + 2 + (size_t)i * ENTRY_BYTES;
        if (number_at(&tiff, entry, 2) == TAG_ORIENTATION) {
            uint32_t value = entry_value(&tiff, entry);
            return value >= 1 && value <= 8 ? (uint8_t)value : 1;
        }
    }
    return 1;
}
