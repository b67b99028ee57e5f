/*
 * One call instead of several when a program is executed as a whole. After a product of cuBLASLt, a kernel replaces the
 * logits by their gradient and computes the losses, instead of HEAD's exponentials, HEAD_LOSS and HEAD_BACKWARD. Steps
 * that are executed one by one, to observe them, keep their own calls.
 */
#include "backends/cuda/cuda.h"

#if EITP__WITH_CUDA

static int eitp__is_loss_of(const eitp__call *loss, const eitp__call *head) {
    return loss->slot == EITP__SLOT_HEAD_LOSS && loss->inputs[0].data == head->outputs[1].data &&
           loss->inputs[1].data == head->outputs[2].data && loss->inputs[2].data == head->outputs[3].data &&
           loss->inputs[3].data == head->inputs[2].data;
}

/* True for the gradient of that loss in place of the exponentials. */
static int eitp__is_backward_of(const eitp__call *backward, const eitp__call *loss, const eitp__call *head) {
    return backward->slot == EITP__SLOT_HEAD_BACKWARD && backward->inputs[0].data == head->outputs[0].data &&
           backward->outputs[0].data == head->outputs[0].data && backward->inputs[1].data == head->outputs[1].data &&
           backward->inputs[2].data == head->inputs[2].data && backward->inputs[3].data == loss->outputs[1].data &&
           backward->integers[0] == loss->integers[0];
}

/* True if HEAD_BACKWARD may be executed before the calls between: these neither use the exponentials nor compute the
   gradient of the loss. */
static int eitp__allow_backward(const eitp__instruction *between, size_t count, const eitp__call *backward) {
    for (size_t i = 0; i < count; i++)
        if (eitp__cuda_call_uses(between[i].call, &backward->outputs[0], 0) ||
            eitp__cuda_call_uses(between[i].call, &backward->inputs[4], 1))
            return 0;
    return 1;
}

/* Returns the distance of the HEAD_BACKWARD that can be computed with HEAD, the first instruction, or 0. Since it
   overwrites the exponentials, nothing else reads these, the largest logits, the sums, and the logits of targets. */
static size_t eitp__find_backward(const eitp__instruction *instructions, size_t count) {
    const eitp__call *head = instructions[0].call, *loss = count > 2 ? instructions[1].call : NULL;
    if (!loss || !eitp__is_loss_of(loss, head))
        return 0;
    for (size_t i = 2; i < count && i <= EITP__CUDA_FUSED_DISTANCE && instructions[i].kind == EITP__COMPUTE; i++)
        if (eitp__is_backward_of(instructions[i].call, loss, head))
            return eitp__allow_backward(&instructions[2], i - 2, instructions[i].call) ? i : 0;
    return 0;
}

EITP__PRIVATE size_t eitp__cuda_fused_call(const eitp__instruction *instructions, size_t count, eitp__call *fused) {
    const size_t distance = eitp__find_backward(instructions, count);
    if (!distance)
        return 0;
    *fused = *instructions[distance].call;
    memset(&fused->inputs[1], 0, sizeof fused->inputs[1]);
    memset(&fused->inputs[3], 0, sizeof fused->inputs[3]);
    fused->outputs[1] = instructions[1].call->outputs[0];
    fused->outputs[2] = instructions[1].call->outputs[1];
    fused->output_count = 3;
    return distance;
}

#endif
