/* Finds the kernels of a call in the lists of all files. */
#include "backends/cuda/slots.h"

#if EITP__WITH_CUDA

typedef eitp__cuda_list (*eitp__cuda_lister)(void);

/* `columns` has an entry for some sums, `reduce` for all. */
static const eitp__cuda_lister eitp__cuda_lists[] = {
    eitp__cuda_elementwise, eitp__cuda_movement, eitp__cuda_columns, eitp__cuda_reduce,    eitp__cuda_rows,
    eitp__cuda_update,      eitp__cuda_factored, eitp__cuda_matrix,  eitp__cuda_attention, eitp__cuda_products,
};

EITP__PRIVATE int eitp__cuda_list_at(size_t i, eitp__cuda_list *list) {
    if (i >= EITP__COUNT(eitp__cuda_lists))
        return 0;
    *list = eitp__cuda_lists[i]();
    return 1;
}

static int eitp__cuda_is_for(const eitp__cuda_kernels *kernels, const eitp__call *call,
                             const eitp__cuda_device *device) {
    return kernels->slot == call->slot && kernels->dtypes & EITP__CUDA_DTYPE(call->dtype) &&
           (!kernels->supports || kernels->supports(call, device));
}

EITP__PRIVATE const eitp__cuda_kernels *eitp__cuda_find(const eitp__call *call, const eitp__cuda_device *device) {
    eitp__cuda_list list;
    for (size_t i = 0; eitp__cuda_list_at(i, &list); i++)
        for (size_t k = 0; k < list.count; k++)
            if (eitp__cuda_is_for(&list.kernels[k], call, device))
                return &list.kernels[k];
    return NULL;
}

EITP__PRIVATE int eitp__cuda_is_grouped(const eitp__cuda_kernels *kernels, const eitp__call *call) {
    static const struct {
        const char *file;
        unsigned dtypes;
    } grouped[] = {
        {"kernels/cuda/update.cu", EITP__CUDA_FLOATING},
        {"kernels/cuda/product_bias.cu", EITP__CUDA_DTYPE(EITP_F32)},
        /* Norms: squares in F32, and sums of them in F64. */
        {"kernels/cuda/reduce.cu", EITP__CUDA_DTYPE(EITP_F32) | EITP__CUDA_DTYPE(EITP_F64)},
        {"kernels/cuda/elementwise.cu", EITP__CUDA_DTYPE(EITP_F64)},
    };
    for (size_t i = 0; i < EITP__COUNT(grouped); i++)
        if (!strcmp(grouped[i].file, kernels->file))
            return (grouped[i].dtypes & EITP__CUDA_DTYPE(call->dtype)) != 0;
    return 0;
}

EITP__PRIVATE void eitp__cuda_definitions(const eitp__cuda_kernels *kernels, const eitp__call *call,
                                          char text[EITP__CUDA_DEFINITIONS]) {
    const size_t length = (size_t)snprintf(text, EITP__CUDA_DEFINITIONS, "SCALAR=%d %s", (int)call->dtype,
                                           eitp__cuda_is_grouped(kernels, call) ? "GROUP=1 " : "");
    if (kernels->define)
        kernels->define(call, text + length, EITP__CUDA_DEFINITIONS - length);
    else
        text[length - 1] = 0;
}

#endif
