/*
 * Reads pytorch_model.bin, the files that torch.save writes for state dicts: zip archives with the tensors' bytes and a
 * pickle that describes them. Nothing in the pickle is executed; io/pickle.h lists its permitted contents.
 */
#ifndef EITP_PYTORCH_H
#define EITP_PYTORCH_H

#include "io/safetensors.h"

/*
 * Opens a file and checks its archive and pickle: each tensor must lie within its storage, and each storage within the
 * file. Tensors may share a storage, and may be transposed matrices. Other strides are EITP_ERROR_UNSUPPORTED, as are
 * files in the format of torch before 1.6, compressed files, big-endian files, and objects other than tensors. Invalid
 * files are EITP_ERROR_FORMAT. Checksums in the archive are not compared.
 */
EITP__PRIVATE eitp_status eitp__pytorch_open(const eitp_host *host, const char *path, eitp__safetensors **collection,
                                             eitp_error *error);

/* Opens the index of a model in several files, and these files, like eitp__safetensors_open_index. */
EITP__PRIVATE eitp_status eitp__pytorch_open_index(const eitp_host *host, const char *path,
                                                   eitp__safetensors **collection, eitp_error *error);

#endif
