/* Completes a labelled file whose ids are written: adds index, values and names. */
#ifndef EITP_LABELLED_WRITER_H
#define EITP_LABELLED_WRITER_H

#include "base/settings.h"
#include "data/labelled_index.h"
#include "data/sample_writer.h"

/* Closes the gaps that dropped samples left among the ids, writes index, values and names, sets the content hash, and
   finishes the file. The other fields of writer->layout.info must be set. */
EITP__PRIVATE eitp_status eitp__labelled_writer_finish(eitp__sample_writer *writer, eitp__labelled_index *index,
                                                       const eitp__buffer *names, eitp_error *error);

/* Returns the settings problem, skip_bad and dedup of eitp_labelled_pack_config, with their defaults and bounds. The
   settings of its sequences are in the table of eitp_sequence_config. Stores their number in *count, unless `count` is
   NULL. */
EITP__PRIVATE const eitp_setting *eitp__labelled_pack_setting_table(size_t *count);

#endif
