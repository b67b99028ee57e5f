#include "data/word_list.h"

EITP__PRIVATE void eitp__word_list_init(eitp__word_list *list, const eitp_host *host) {
    memset(list, 0, sizeof *list);
    eitp__buffer_init(&list->text, host);
}

EITP__PRIVATE void eitp__word_list_release(eitp__word_list *list) {
    if (!list->text.host)
        return;
    eitp__release(list->text.host, list->words, list->capacity * sizeof *list->words);
    eitp__buffer_release(&list->text);
    memset(list, 0, sizeof *list);
}

EITP__PRIVATE void eitp__word_list_clear(eitp__word_list *list) {
    eitp__buffer_clear(&list->text);
    list->count = 0;
}

EITP__PRIVATE eitp_status eitp__word_list_add(eitp__word_list *list, const char *bytes, size_t size,
                                              eitp_error *error) {
    const size_t needed = (list->count + 1) * sizeof *list->words;
    if (!eitp__reserve(list->text.host, (void **)&list->words, &list->capacity, list->count + 1, sizeof *list->words))
        return eitp__fail_memory(error, needed, "the words of an example");
    eitp__buffer_add(&list->text, bytes, size);
    eitp__buffer_add(&list->text, " ", 1);
    if (list->text.failed)
        return eitp__fail_memory(error, list->text.size + size, "the words of an example");
    list->words[list->count++].size = size;
    return EITP_OK;
}

EITP__PRIVATE eitp_text eitp__word_list_finish(eitp__word_list *list) {
    eitp_text text;
    const char *at = list->text.data;
    for (size_t i = 0; i < list->count; i++) {
        list->words[i].bytes = at;
        at += list->words[i].size + 1;
    }
    text.bytes = list->text.data;
    text.size = list->text.size - 1;
    return text;
}
