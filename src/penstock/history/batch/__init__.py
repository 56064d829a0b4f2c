"""What is computed from the past with the same definitions and the same kernel: generations of views, and audits."""
