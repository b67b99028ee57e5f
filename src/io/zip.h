/* The central directory of a zip archive (PKWARE, APPNOTE.TXT 6.3.10), with zip64. Entries are read in place. */
#ifndef EITP_ZIP_H
#define EITP_ZIP_H

#include "base/files.h"

typedef struct eitp__zip_entry {
    const char *name;
    uint64_t header; /* offset of its local header in the file */
    uint64_t offset; /* of its bytes */
    uint64_t size;   /* bytes in the file */
    int is_stored;   /* neither compressed nor encrypted */
} eitp__zip_entry;

typedef struct eitp__zip {
    const eitp_host *host;
    char *directory; /* holds the names */
    size_t directory_size;
    eitp__zip_entry *entries; /* sorted by the bytes of their names */
    size_t count;
} eitp__zip;

/*
 * Reads the central directory of an archive that ends with it, without a comment, and the local header of each entry.
 * The entries must precede the directory, not overlap, and have different names; anything else is EITP_ERROR_FORMAT,
 * without the file's name. Checksums are not compared: that would read the whole file. Needs about as much memory as
 * the directory's size, at most 16 MB. Close `zip` even after a failure.
 */
EITP__PRIVATE eitp_status eitp__zip_open(eitp__file *file, eitp__zip *zip, eitp_error *error);

/* Releases the entries. Harmless if zeroed or closed. */
EITP__PRIVATE void eitp__zip_close(eitp__zip *zip);

/* Returns the entry with this name, or NULL. */
EITP__PRIVATE const eitp__zip_entry *eitp__zip_find(const eitp__zip *zip, const char *name);

#endif
