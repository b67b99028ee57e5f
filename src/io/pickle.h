/*
 * The pickle in a PyTorch file: a dictionary of tensors (a state dict), without their elements. Python's pickles are
 * programs that can do anything; this reads the few instructions of such a dictionary and executes nothing.
 */
#ifndef EITP_PICKLE_H
#define EITP_PICKLE_H

#include "base/memory.h"
#include "base/status.h"

/* The maximum size of a pickle: enough for 20,000 tensors. */
#define EITP__PICKLE_MAX_SIZE ((uint64_t)4 << 20)

/* A view of a storage, which is an array of elements. */
typedef struct eitp__pickle_tensor {
    const char *type;      /* of the elements, under the name used by safetensors: "F32", "BF16", ... */
    const char *key;       /* of the storage */
    int64_t storage_count; /* elements in the storage; 0 or more, like all numbers here */
    int64_t offset;        /* of the first element in the storage */
    int rank;              /* at most EITP_MAX_RANK */
    int64_t shape[EITP_MAX_RANK];
    int64_t stride[EITP_MAX_RANK]; /* elements between consecutive indices */
} eitp__pickle_tensor;

/* Receives a tensor of the dictionary. Its strings live in the pickle's memory; its name is valid UTF-8. */
typedef eitp_status (*eitp__pickle_visitor)(void *user, const char *name, const eitp__pickle_tensor *tensor,
                                            eitp_error *error);

/*
 * Reads a pickle of protocol 2, as written by torch.save: a dict or OrderedDict whose values are all tensors or
 * parameters. Attributes of the dictionary (_metadata) are ignored. Strings become C strings in place. Anything else in
 * a pickle is refused with EITP_ERROR_FORMAT or EITP_ERROR_UNSUPPORTED and its offset, where `origin` is the offset of
 * the first byte. Needs about as much memory as the pickle's size; a malicious pickle can need some 40 times its size.
 */
EITP__PRIVATE eitp_status eitp__pickle_read(const eitp_host *host, char *pickle, size_t size, uint64_t origin,
                                            eitp__pickle_visitor visit, void *user, eitp_error *error);

#endif
