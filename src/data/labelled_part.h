/* Parts of labelled files. */
#ifndef EITP_LABELLED_PART_H
#define EITP_LABELLED_PART_H

#include "data/labelled.h"
#include "data/sample_index.h"

struct eitp_labelled_part {
    eitp_host host;
    const eitp_sample_file *file;
    uint64_t *samples, count;      /* sample numbers */
    int64_t max_length;            /* ids of the longest sample */
    int64_t max_first, max_second; /* with two tokenizers: ids of the longest sequence of each; otherwise 0 */
    uint64_t hash;
};

/* Creates a part with memory for `count` samples, which the caller writes before eitp__labelled_part_finish. */
EITP__PRIVATE eitp_status eitp__labelled_part_allocate(const eitp_sample_file *file, uint64_t count,
                                                       eitp_labelled_part **part, eitp_error *error);

/* Reports EITP_ERROR_ARGUMENT: the file is not a labelled file. */
EITP__PRIVATE eitp_status eitp__fail_no_samples(const eitp_sample_file *file, eitp_error *error);

/* Computes the longest length and the hash. */
EITP__PRIVATE eitp_status eitp__labelled_part_finish(eitp_labelled_part *part, eitp_error *error);

/* Sets *count to the number of `validation` samples whose text, before truncation, equals the text of a `training`
   sample. The parts may be of different files. Needs 8 bytes of memory for each sample of `training`. */
EITP__PRIVATE eitp_status eitp__labelled_overlap(const eitp_labelled_part *training,
                                                 const eitp_labelled_part *validation, uint64_t *count,
                                                 eitp_error *error);

#endif
