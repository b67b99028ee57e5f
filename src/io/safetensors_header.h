/* Headers of safetensors files, and the collection that their entries are added to. */
#ifndef EITP_SAFETENSORS_HEADER_H
#define EITP_SAFETENSORS_HEADER_H

#include "base/json.h"
#include "base/worker.h"
#include "io/safetensors.h"

/* One file of a collection. */
struct eitp__safetensors_part {
    eitp__file file;
    char *header; /* once parsed, starts with the names of its entries; in a PyTorch file its pickle */
    size_t header_size;
    uint64_t data_start;
    uint64_t data_size;
    uint32_t crc; /* of the header and the tensors added so far, as if all others were zero: see safetensors.c */
    eitp_json_document *metadata; /* {"__metadata__": {...}}, or NULL */
};

struct eitp__safetensors {
    eitp_host host;
    eitp__tensor_format format;
    eitp__safetensors_part **parts;
    size_t part_count;
    size_t part_capacity;
    eitp__worker *worker;     /* reads half of large tensors; NULL: none */
    eitp__safetensors *lower; /* the collection with the lower planes of 16-bit tensors; NULL: none */
    eitp__safetensors_entry *entries;
    size_t entry_count;
    size_t entry_capacity;
};

/* Reads the header of a safetensors file; an eitp__tensor_format. */
EITP__PRIVATE eitp_status eitp__safetensors_read_header(eitp__safetensors *collection, eitp__safetensors_part *part,
                                                        eitp_error *error);

/* Sets an entry's type, dtype and element_size, and returns the bits per element; 0 if the type is unknown. */
EITP__PRIVATE unsigned eitp__safetensors_set_type(eitp__safetensors_entry *entry, const char *type);

/* Adds an entry of the last file. */
EITP__PRIVATE eitp_status eitp__safetensors_add_entry(eitp__safetensors *collection, eitp__safetensors_entry entry,
                                                      eitp_error *error);

/* Sorts the entries from `first` on by name, and checks that names are unique. */
EITP__PRIVATE eitp_status eitp__safetensors_sort(eitp__safetensors *collection, size_t first, eitp_error *error);

#endif
