/*
 * Reading the files that torch.save makes of state dicts, pytorch_model.bin: zip archives with the tensors' bytes and a
 * pickle that describes them. Nothing in the pickle is executed; see io/pickle.h for what it may have.
 */
#ifndef EITP_PYTORCH_H
#define EITP_PYTORCH_H

#include "io/safetensors.h"

/*
 * Opens a file and checks its archive and pickle: each tensor lies within its storage, and each storage in the file.
 * Tensors may share a storage, and may be transposed matrices; other strides are EITP_ERROR_UNSUPPORTED, as are files
 * in the format of torch before 1.6, compressed ones, big-endian ones, and objects other than tensors. Invalid files
 * are EITP_ERROR_FORMAT. Checksums in the archive are not compared.
 */
EITP__PRIVATE eitp_status eitp__pytorch_open(const eitp_host *host, const char *path, eitp__safetensors **collection,
                                             eitp_error *error);

/* Opens the index of a model in several files, and these files, like eitp__safetensors_open_index. */
EITP__PRIVATE eitp_status eitp__pytorch_open_index(const eitp_host *host, const char *path,
                                                   eitp__safetensors **collection, eitp_error *error);

#endif
