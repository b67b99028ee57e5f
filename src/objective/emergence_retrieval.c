/* Retrieval over distances: in random text with a pair of tokens A B, and A again later, B should be predicted. */
#include "objective/emergence_state.h"

static const char eitp__long_range[] = "long range";

EITP__PRIVATE int64_t eitp__emergence_make_retrieval(eitp__emergence *e, int64_t distance, int64_t trial,
                                                     int32_t *answer) {
    const uint64_t stream = ((uint64_t)distance << 20) | (uint64_t)trial;
    const int64_t room = e->rows - 1 - distance, most = room < distance ? room : distance;
    const int64_t before = (int64_t)(eitp__emergence_uniform(e, EITP__DRAW_RETRIEVAL, stream, 0) * (double)(most + 1));
    const int64_t count = before + distance + 1;
    const int32_t key = eitp__emergence_token(e, EITP__DRAW_RETRIEVAL, stream, 1, -1, -1);
    *answer = eitp__emergence_token(e, EITP__DRAW_RETRIEVAL, stream, 2, key, -1);
    for (int64_t i = 0; i < count; i++)
        e->tokens[i] = eitp__emergence_token(e, EITP__DRAW_RETRIEVAL, stream, (uint64_t)(3 + i), key, *answer);
    e->tokens[before] = e->tokens[count - 1] = key;
    e->tokens[before + 1] = *answer;
    return count;
}

/* Measures one distance. The last rows of the trials are predicted together. */
static eitp_status eitp__retrieve(eitp__emergence *e, int64_t distance, float *last, eitp_error *error) {
    const int64_t trials = e->config->retrieval_trials;
    eitp__sampled right = EITP__ZERO, loss = EITP__ZERO;
    char name[EITP_EMERGENCE_NAME_SIZE];
    eitp_status status = EITP_OK;
    for (int64_t done = 0; done < trials && !status;) {
        int64_t count = 0;
        for (; count < e->rows && done < trials && !status; count++, done++) {
            const int64_t tokens = eitp__emergence_make_retrieval(e, distance, done, &e->targets[count]);
            status = eitp__hidden_pass_execute(&e->hidden_pass, e->tokens, NULL, tokens, error);
            if (!status)
                status = eitp__hidden_pass_read(&e->hidden_pass, e->hidden_pass.final_state, tokens, e->width,
                                                e->hidden, error);
            memcpy(last + count * e->width, e->hidden + (tokens - 1) * e->width, (size_t)e->width * sizeof *last);
        }
        if (!status)
            status = eitp__head_pass_execute(&e->head_pass, last, NULL, e->targets, count, e->predictions, error);
        for (int64_t i = 0; i < count && !status; i++) {
            eitp__sampled_add(&right, e->predictions[i].predicted == e->targets[i], 1);
            eitp__sampled_add(&loss, (double)e->predictions[i].loss, 1);
        }
    }
    snprintf(name, sizeof name, "retrieval_%lld", (long long)distance);
    if (!status)
        status = eitp__report_sampled(e->report, eitp__long_range, name, &right, "", error);
    snprintf(name, sizeof name, "retrieval_loss_%lld", (long long)distance);
    return status ? status
                  : eitp__report_sampled(e->report, eitp__long_range, name, &loss,
                                         "the model's predictions are not finite", error);
}

EITP__PRIVATE eitp_status eitp__emergence_retrieval(eitp__emergence *e, eitp_error *error) {
    const size_t bytes = (size_t)(e->rows * e->width) * sizeof(float);
    const int64_t fewest_ids = 3; /* A, B and one between them */
    eitp_status status = EITP_OK;
    float *last;
    if (!e->config->retrieval_trials)
        return eitp__report_omission(e->report, "retrieval", "no trials were requested", error);
    if (e->rows < 3 || e->vocabulary < fewest_ids)
        return eitp__report_omission(e->report, "retrieval", "samples or the vocabulary have fewer than 3 tokens",
                                     error);
    last = (float *)eitp__allocate(&e->host, bytes);
    if (!last)
        return eitp__fail_memory(error, bytes, "the retrieval task");
    for (int64_t distance = 2; distance < e->rows && !status; distance *= 2)
        status = eitp__retrieve(e, distance, last, error);
    eitp__release(&e->host, last, bytes);
    return status;
}
