/* Completes a labelled file, whose ids are written, with its index, values and names. */
#ifndef EITP_LABELLED_WRITER_H
#define EITP_LABELLED_WRITER_H

#include "data/labelled_index.h"
#include "data/sample_writer.h"

/* Closes the gaps that dropped samples left among the ids, writes index, values and names, sets the content hash, and
   finishes the file. writer->layout.info has everything else. */
EITP__PRIVATE eitp_status eitp__labelled_writer_finish(eitp__sample_writer *writer, eitp__labelled_index *index,
                                                       const eitp__buffer *names, eitp_error *error);

#endif
