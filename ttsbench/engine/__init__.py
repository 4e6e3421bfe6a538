"""The native engine: scheduler, paged KV cache, slots, runner, sampler, fused mode."""
