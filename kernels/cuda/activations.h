/*
 * GELU and SiLU, as separate kernels and as epilogues of products, with the same expressions, so that plans may fuse
 * them or not. Each is x times a gate: see eitp__epilogue and kernels/ref/matmul_finish.inc.
 */
#ifndef EITP_CUDA_ACTIVATIONS_H
#define EITP_CUDA_ACTIVATIONS_H

#include "kernels/cuda/call.h"

/*
 * Returns the gate. GELU (tanh): sigmoid(2 u), u = sqrt(2 / pi) (x + 0.044715 x^3), because 1 + tanh(u) would subtract
 * nearly equal numbers. GELU (erf): the normal distribution function by erfc, because 1 + erf loses small values. SiLU:
 * sigmoid(x).
 */
template <class T> DEVICE T activation_gate(int epilogue, T x) {
    const T twice = (T)1.5957691216057307118, cubic = (T)0.044715;
    if (epilogue == EITP__EPILOGUE_GELU_ERF || epilogue == EITP__EPILOGUE_GELU_ERF_BACKWARD)
        return (T)0.5 * erfc(x * -(T)0.70710678118654752440);
    return 1 / (1 + exp(epilogue == EITP__EPILOGUE_SILU || epilogue == EITP__EPILOGUE_SILU_BACKWARD
                            ? -x
                            : -twice * x * (1 + cubic * x * x)));
}

/* Returns the factor of x in an activation, or the factor of the gradient in its derivative. */
template <class T> DEVICE T activation_factor(int epilogue, T x) {
    const T twice = (T)1.5957691216057307118, cubic = (T)0.134145;
    const T density = (T)0.39894228040143267794, g = activation_gate(epilogue, x);
    if (epilogue < EITP__EPILOGUE_GELU_TANH_BACKWARD)
        return g;
    if (epilogue == EITP__EPILOGUE_SILU_BACKWARD)
        return g + x * g * (1 - g);
    if (epilogue == EITP__EPILOGUE_GELU_ERF_BACKWARD)
        return g + x * density * exp(x * x / -2);
    /* Far from 0 the gate is 0 or 1, and the cube would overflow. */
    return x > -20 && x < 20 ? g + g * (1 - g) * x * twice * (1 + cubic * x * x) : g;
}

#endif
