#include "task/task.h"

#include "data/data.h"

const char *task_name(eitp_task_kind kind) {
    static const char *const names[] = {"auto", "lm", "mlm", "classify", "tokens", "regress", "vae"};
    return names[kind];
}

int task_has_rows(const option_set *o, const eitp_transformer_config *shape) {
    return eitp_head_has_labels(shape->head) || (shape->bidirectional && data_is_table(o, OPTION_DATA));
}

void task_set_classifier_batch(option_set *o) {
    options_set_integer(o, OPTION_BATCH_SIZE, 16, SOURCE_DEFAULT);
    options_set_integer(o, OPTION_GRAD_ACCUM, 1, SOURCE_DEFAULT);
}
