"""What changes in an app from one version of its file to the next, and what each change costs: values only."""
