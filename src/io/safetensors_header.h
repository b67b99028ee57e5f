/* Headers of safetensors files, and the collection that their entries are added to. */
#ifndef EITP_SAFETENSORS_HEADER_H
#define EITP_SAFETENSORS_HEADER_H

#include "base/json.h"
#include "base/worker.h"
#include "io/safetensors.h"

/* One file of a collection. */
typedef struct eitp__safetensors_part {
    eitp__file file;
    char *header; /* once parsed, begins with the names of its entries */
    size_t header_size;
    uint64_t data_start;
    uint64_t data_size;
    uint32_t crc; /* of the header and of the tensors added so far, as if all others were zero: see safetensors.c */
    eitp__json_document *metadata; /* {"__metadata__": {...}}, or NULL */
} eitp__safetensors_part;

struct eitp__safetensors {
    eitp_host host;
    eitp__safetensors_part **parts;
    size_t part_count;
    size_t part_capacity;
    eitp__worker *worker; /* reads half of large tensors; NULL: none */
    eitp__safetensors_entry *entries;
    size_t entry_count;
    size_t entry_capacity;
};

/* Reads the header of a part's file into memory. */
EITP__PRIVATE eitp_status eitp__safetensors_load_header(const eitp_host *host, eitp__safetensors_part *part,
                                                        eitp_error *error);

/* Parses and checks the header of the last part, and adds its entries, sorted by name. */
EITP__PRIVATE eitp_status eitp__safetensors_parse_header(eitp__safetensors *collection, eitp__safetensors_part *part,
                                                         eitp_error *error);

/* Sorts the entries from `first` on by name, and checks that names are unique. */
EITP__PRIVATE eitp_status eitp__safetensors_sort(eitp__safetensors *collection, size_t first, eitp_error *error);

#endif
