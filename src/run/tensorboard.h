/* Event files of TensorBoard: what the run uses of them. */
#ifndef EITP_TENSORBOARD_H
#define EITP_TENSORBOARD_H

#include "run/record_file.h"
#include "run/run.h"

/* Bytes that it takes at most. */
EITP__PRIVATE size_t eitp__tensorboard_bytes(void);

/* The file, for its times. */
EITP__PRIVATE eitp__record_file *eitp__tensorboard_file(eitp_tensorboard *tensorboard);

/* Its path. */
EITP__PRIVATE const char *eitp__tensorboard_path(const eitp_tensorboard *tensorboard);

#endif
