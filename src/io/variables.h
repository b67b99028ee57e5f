/* Reading one tensor of a file into a variable. */
#ifndef EITP_VARIABLES_H
#define EITP_VARIABLES_H

#include "io/io.h"
#include "io/safetensors.h"
#include "io/safetensors_writer.h"

/* Shapes must agree; a floating variable takes any floating type. `checksum` goes on, as in eitp__safetensors_read. */
EITP__PRIVATE eitp_status eitp__variable_read_entry(eitp_context *context, const eitp_variable *variable,
                                                    const eitp__safetensors *collection,
                                                    const eitp__safetensors_entry *entry, uint32_t *checksum,
                                                    eitp_error *error);

#endif
