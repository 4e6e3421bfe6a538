"""Model families in plain PyTorch: no engine, no cache policy, no environment."""
