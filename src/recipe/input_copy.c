#include "recipe/input_copy.h"

enum { EITP__INPUT_PIECE = 65536 };

static eitp_status eitp__input_copy_read(void *user, const char **text, size_t *size, eitp_error *error) {
    eitp__input_copy *copy = (eitp__input_copy *)user;
    const uint64_t left = copy->size - copy->at;
    const size_t wanted = left < EITP__INPUT_PIECE ? (size_t)left : (size_t)EITP__INPUT_PIECE;
    const eitp_status status =
        wanted ? eitp__file_read(&copy->copy.file, copy->at, copy->piece, wanted, error) : EITP_OK;
    if (status)
        return status;
    copy->at += wanted;
    *text = copy->piece;
    *size = wanted;
    return EITP_OK;
}

static eitp_status eitp__input_copy_fill(eitp__input_copy *copy, const eitp_text_source *input, eitp_error *error) {
    for (;;) {
        const char *text = NULL;
        size_t size = 0;
        eitp_status status = input->read(input->user, &text, &size, error);
        if (!status && text && size)
            status = eitp__file_write(&copy->copy.file, copy->size, text, size, error);
        if (status || !text || !size)
            return status;
        copy->size += size;
    }
}

EITP__PRIVATE eitp_status eitp__input_copy_open(eitp__input_copy *copy, const eitp_host *host, const char *path,
                                                eitp_text_source *input, eitp_error *error) {
    eitp_status status = eitp__partial_file_open(&copy->copy, host, path, error);
    if (status)
        return status;
    copy->piece = (char *)eitp__allocate(host, EITP__INPUT_PIECE);
    status = copy->piece ? eitp__input_copy_fill(copy, input, error)
                         : eitp__fail_memory(error, EITP__INPUT_PIECE, "a copy of the input");
    if (status)
        return status;
    input->user = copy;
    input->read = eitp__input_copy_read;
    return EITP_OK;
}

EITP__PRIVATE void eitp__input_copy_release(eitp__input_copy *copy) {
    if (copy->piece)
        eitp__release(copy->copy.host, copy->piece, EITP__INPUT_PIECE);
    eitp__partial_file_release(&copy->copy);
    memset(copy, 0, sizeof *copy);
}

EITP__PRIVATE void eitp__input_copy_rewind(eitp__input_copy *copy) {
    copy->at = 0;
}
